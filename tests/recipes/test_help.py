import importlib

import pytest

from vitkeras._data_sources import SOURCES

RECIPES = ("pretrain", "finetune", "masked_patch", "fewshot", "near_duplicates", "qat", "vtab", "evaluate")


@pytest.mark.parametrize("recipe", RECIPES)
def test_help_lists_the_data_sources(recipe, capsys):
    with pytest.raises(SystemExit):
        importlib.import_module(f"vitkeras.recipes.{recipe}").main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert [spec for spec in SOURCES.values() if spec not in text] == []
