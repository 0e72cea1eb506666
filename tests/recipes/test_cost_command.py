import json

import pytest

from vitkeras import analysis
from vitkeras.recipes import cost


def printed(capsys, *arguments):
    assert cost.main(list(arguments)) == 0
    return capsys.readouterr().out


def test_layers(capsys):
    arguments = ["--model", "vit_ti16", "--image", "64x96", "--patch", "32", "--classes", "7"]
    calculated = analysis.variant_cost("vit_ti16", (64, 96), 7, 32)
    values = json.loads(printed(capsys, *arguments, "--json"))
    assert values["image_size"] == [64, 96] and values["parameters"] == calculated.parameters
    assert (values["macs"], values["flops"]) == (calculated.macs, calculated.flops)
    assert values["macs_by_kind"] == calculated.by_kind and values["activations"] == calculated.activations
    assert sum(sum(layer["macs"].values()) for layer in values["layers"]) == calculated.macs
    assert values["exported_bytes"]["fp32"] == 4 * calculated.parameters
    text = printed(capsys, *arguments)
    assert text.startswith("vit_ti16, image 64x96, patch 32, 7 classes\n")
    assert f"{calculated.parameters:,}" in text and "encoder_block_00 ... 11" in text


def test_where_the_parameters_lie(capsys):
    text = printed(capsys, "--table", "parameters")
    assert "position embedding     151,296    0.17 %" in text
    assert text.endswith("98.25 % in the blocks, 0.86 % specific to images\n")
    values = json.loads(printed(capsys, "--table", "parameters", "--model", "bit_r50x1", "--json"))
    assert list(values["parts"]) == ["convolutions", "head"]


def test_patches(capsys):
    text = printed(capsys, "--table", "patches")
    (line,) = [line.split() for line in text.splitlines() if line.split()[0] == "16"]
    assert line == ["16", "196", "768", "1,387.3", "59.0", "4.1", "%", "1.84"]
    assert text.endswith("cost the same at 4,608 tokens, a patch side of 3.3 pixels\n")
    values = json.loads(printed(capsys, "--table", "patches", "--image", "384", "--json"))
    assert [row["patch_size"] for row in values["patches"]] == [4, 8, 16, 32]


def test_pretraining(capsys):
    rows = json.loads(printed(capsys, "--table", "pretraining", "--json"))["pretraining"]
    assert len(rows) == 18 and rows[3]["name"] == "ViT-L/16" and rows[3]["exaflops"] == 783


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--model", "vit_b61"], "received 'vit_b61'; nearest: vit_b16, "),
        (
            ["--image", "big"],
            "--image must be pixels or HEIGHTxWIDTH, such as 224 or 224x320, received 'big'.",
        ),
        (["--image", "225"], "225"),
        (["--classes", "0"], "classes must be a positive int, received 0."),
        (["--model", "vit_b16", "--table", "pretraining"], "has the models of the paper, received --model vit_b16."),
        (["--model", "bit_r50x1", "--table", "patches"], "--table patches is for models with encoder blocks"),
        (["--model", "bit_r50x1", "--patch", "8"], "bit_r50x1 has no argument 'patch_size'"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, message):
    assert cost.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and message in said.err and len(said.err.splitlines()) == 1
