"""What a refused command leaves of the folder for its results: nothing that wasn't there."""

import pytest

from vitkeras.recipes import evaluate, fewshot, near_duplicates
from vitkeras.recipes.evaluation_report import last_line
from vitkeras.recipes.results_folder import results_folder


def test_new_folders_go_again_and_others_stay(tmp_path):
    (tmp_path / "old").mkdir()
    for name in ("new/inner", "old/inner", "old"):
        with pytest.raises(KeyError), results_folder(str(tmp_path / name)):
            raise KeyError
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]
    with pytest.raises(KeyError), results_folder(str(tmp_path / "new" / "inner")):
        (tmp_path / "new" / "kept").write_text("x")
        raise KeyError
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["kept"]
    with results_folder(str(tmp_path / "done")):
        pass
    assert (tmp_path / "done").is_dir()


@pytest.mark.parametrize(
    "recipe, name",
    [(evaluate, "confusion.png"), (fewshot, "fewshot.json"), (near_duplicates, "kept.csv")],
)
def test_the_commands(tmp_path, capsys, recipe, name):
    model = [] if recipe is near_duplicates else ["--model", str(tmp_path / "none.keras")]
    arguments = [*model, "--data", f"folder:{tmp_path / 'none'}", "--workdir"]
    assert recipe.main([*arguments, str(tmp_path / "out")]) == 2
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().err.startswith("error: ")
    (tmp_path / "clash" / name).mkdir(parents=True)
    assert recipe.main([*arguments, str(tmp_path / "clash")]) == 2
    assert f"clash must not hold a folder {name}, which will be a file." in capsys.readouterr().err


def test_where_a_file_in_the_current_folder_is():
    metrics = {"top1": 0.5, "top5": None, "count": 2}
    assert last_line(metrics, ["p.csv"]).endswith("everything is in .: p.csv")
