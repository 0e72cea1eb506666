"""examples/pictures.py: pictures from any weights, and no photo in them."""

import importlib.util
import os

import numpy as np
import pytest

import vitkeras

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def pictures():
    """examples/pictures.py as a module."""
    path = os.path.join(REPOSITORY, "examples", "pictures.py")
    spec = importlib.util.spec_from_file_location("pictures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawn_flower(pictures):
    flower = pictures.drawn_flower((210, 280))
    assert flower.shape == (210, 280, 3) and flower.dtype == np.uint8
    np.testing.assert_array_equal(flower, pictures.drawn_flower((210, 280)))
    red, green, blue = np.moveaxis(flower.astype(int), -1, 0)
    petals = (red > 150) & (blue < 90)
    assert 0.1 < petals.mean() < 0.4 and (green > red)[~petals].mean() > 0.8


@pytest.mark.parametrize("name", ["weights", "photos", "out"])
def test_what_is_not_there_is_named(pictures, tmp_path, capsys, name):
    (tmp_path / "file.npz").write_bytes(b"")
    given = {"weights": str(tmp_path / "file.npz"), "photos": str(tmp_path), "out": str(tmp_path)}
    given[name] = str(tmp_path / "none")
    assert pictures.main([part for key, path in given.items() for part in (f"--{key}", path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: --{name} must exist, received ")
    assert [path.name for path in tmp_path.iterdir()] == ["file.npz"]


def test_the_pictures_of_the_readme_are_there_and_small(pictures):
    for name in pictures.DPI:
        path = os.path.join(REPOSITORY, "docs", "pictures", f"{name}.png")
        assert 1000 < os.path.getsize(path) < pictures.WIDEST


@pytest.mark.slow
def test_of_other_weights(pictures, tmp_path, capsys):
    from PIL import Image

    model = vitkeras.VisionTransformer((32, 32, 3), 8, 2, 24, 3, 17, include_top=False)
    vitkeras.save_checkpoint(model, str(tmp_path / "tiny.npz"))
    for name in ("ash", "elm"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (40, 30), (50 * i, 90, 20)).save(tmp_path / "photos" / name / f"{i}.png")
    (tmp_path / "out").mkdir()
    arguments = ["--weights", str(tmp_path / "tiny.npz"), "--photos", str(tmp_path / "photos"), "--count", "2"]
    assert pictures.main([*arguments, "--out", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["attention.png", "figure7.png", "rollout.png"]
    assert capsys.readouterr().out.endswith("2 photos for the distances\n")
