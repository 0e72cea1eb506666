"""The table of published files, and what a `weights=` name finds in it."""

import re
from urllib.parse import unquote, urlsplit

import keras
import pytest

import vitkeras
from vitkeras.checkpoints import PublishedFile, find_published, published_files, registry
from vitkeras.checkpoints.google import google_slots
from vitkeras.models import VARIANTS, build_variant

AUGREG = re.compile(
    r"augreg/(?P<model>[A-Za-z0-9_]+_\d+)-i21k-300ep-lr_0\.001-aug_(none|light0|light1|light2|medium1|medium2|strong1|strong2)"
    r"-wd_0\.(1|03)-do_0\.[01]-sd_0\.[01]--imagenet2012-steps_20k-lr_0\.0[13]-res_(?P<size>224|384)\.npz"
)


@pytest.mark.parametrize("entry", registry.PUBLISHED, ids=lambda entry: entry.name)
def test_entry(entry):
    assert entry.url.startswith("https://storage.googleapis.com/vit_models/")
    assert "+" not in entry.url and entry.url.count("%2B") == entry.path.count("+")
    assert unquote(urlsplit(entry.url).path) == "/vit_models/" + entry.path
    assert entry.variant in VARIANTS
    assert entry.path == entry.name + ".npz" and entry.path.startswith(entry.collection + "/")
    assert entry.has_pre_logits == (entry.collection == "imagenet21k") == (entry.classes == 21843)
    assert entry.classes in (1000, 21843) and entry.image_size in (224, 384)
    assert find_published(entry.name, entry.variant) is entry
    assert find_published(entry.path, entry.variant) is entry
    if match := AUGREG.fullmatch(entry.path):
        stem, letters, patch = re.fullmatch(r"(?:(R\d*)_)?([A-Z][a-z]?)_(\d+)", match["model"]).groups()
        assert entry.variant == f"{stem or 'vit'}_{letters}{patch}".lower()
        assert entry.image_size == int(match["size"])
    else:
        assert entry.collection != "augreg"


def test_urls_with_a_plus_have_it_encoded():
    url = find_published("imagenet21k+imagenet2012", "vit_b16", 384).url
    assert url == "https://storage.googleapis.com/vit_models/imagenet21k%2Bimagenet2012/ViT-B_16.npz"


def test_names_are_unique():
    assert len({entry.name for entry in registry.PUBLISHED}) == len(registry.PUBLISHED) == 41


@pytest.mark.parametrize(
    "size, expected",
    [
        ("Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03"),
        ("S_16", "aug_light1-wd_0.03-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03"),
        ("S_32", "aug_none-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01"),
        ("B_16", "aug_medium1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03"),
        ("B_32", "aug_light1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01"),
        ("L_16", "aug_strong1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01"),
    ],
)
def test_augreg_at_384_is_the_recommended_file(size, expected):
    entry = find_published("augreg", "vit_" + size.lower().replace("_", ""), 384)
    assert entry.path == f"augreg/{size}-i21k-300ep-lr_0.001-{expected}-res_384.npz"


def test_augreg_b8_at_224_is_the_recommended_file():
    assert "aug_medium2-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03" in find_published("augreg", "vit_b8").path


COLLECTIONS = {
    "imagenet21k": {"vit_b16", "vit_b32", "vit_b8", "vit_l16", "vit_l32", "vit_h14", "r50_b16", "r26_b32", "r50_l32"},
    "imagenet21k+imagenet2012": {"vit_b16", "vit_b32", "vit_b8", "vit_l16", "vit_l32", "r50_b16"},
    "augreg": {
        *("vit_ti16", "vit_s16", "vit_s32", "vit_b16", "vit_b32", "vit_b8", "vit_l16"),
        *("r_ti16", "r26_s32", "r50_l32"),
    },
    "sam": {"vit_b16", "vit_b32", "vit_l16", "vit_l32", "vit_s16"},
}


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_collection_for_each_variant(collection, variant):
    if variant in COLLECTIONS[collection]:
        entry = find_published(collection, variant)
        assert isinstance(entry, PublishedFile) and (entry.collection, entry.variant) == (collection, variant)
        assert entry in published_files(variant)
    else:
        with pytest.raises(ValueError, match=rf"is neither a file nor a name published for {variant}"):
            find_published(collection, variant)


def test_variants_without_a_published_file_are_random_by_default():
    for variant, row in VARIANTS.items():
        if not published_files(variant):
            assert variant.startswith(("bit_", "axial_")) or variant in ("r50_b32", "r50_l16"), row


@pytest.mark.parametrize("image_size, expected", [(None, 224), (224, 224), (384, 384), (256, 224), (512, 224)], ids=str)
def test_a_collection_gives_the_file_of_the_resolution_or_the_smallest(image_size, expected):
    assert find_published("imagenet21k+imagenet2012", "vit_b16", image_size).image_size == expected
    assert find_published("augreg", "vit_b16", image_size).image_size == expected


def test_an_exact_name_wins_over_the_resolution_asked_for():
    assert find_published("imagenet21k+imagenet2012/ViT-B_16", "vit_b16", 224).image_size == 384


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("augrag", "'augreg'"),
        ("imagenet-21k", "'imagenet21k'"),
        ("imagenet21k+imagenet2012/ViT-B_16_224", "'imagenet21k+imagenet2012/ViT-B_16-224'"),
        ("???", "'augreg', 'imagenet21k'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, nearest):
    with pytest.raises(ValueError) as caught:
        find_published(name, "vit_b16")
    assert str(caught.value).startswith(
        f"weights={name!r} is neither a file nor a name published for vit_b16; nearest: {nearest}"
    )


TOP1 = {  # percent, of the AugReg files at 384 pixels, B/8 at 224, as their authors give them
    "vit_ti16": 78.22,
    "vit_s32": 79.58,
    "vit_s16": 83.73,
    "vit_b32": 83.59,
    "vit_b16": 85.49,
    "vit_b8": 85.58,
    "vit_l16": 85.59,
    "r_ti16": 75.40,
    "r26_s32": 83.85,
    "r50_l32": 85.99,
}


@pytest.mark.parametrize("variant", TOP1)
def test_published_accuracies(variant):
    assert find_published("augreg", variant, 384).imagenet_top1 == TOP1[variant]


@pytest.mark.parametrize(
    "size, top1",
    [
        *(("ViT-B_16", 83.97), ("ViT-B_32", 81.28), ("ViT-L_16", 85.15), ("ViT-L_32", 80.99)),
        *(("ViT-B_16-224", 81.2), ("ViT-L_16-224", 82.7), ("ViT-B_8", None), ("R50+ViT-B_16", None)),
    ],
)
def test_published_accuracies_of_the_papers_weights(size, top1):
    by_name = {entry.name: entry for entry in registry.PUBLISHED}
    assert by_name[f"imagenet21k+imagenet2012/{size}"].imagenet_top1 == top1


@pytest.mark.parametrize(
    "variant, mebibytes",
    [
        *(("vit_ti16", 37), ("vit_s16", 115), ("vit_s32", 118), ("vit_b16", 391), ("vit_b32", 398), ("vit_l16", 1243)),
        *(("r_ti16", 40), ("r26_s32", 170), ("r50_l32", 1337)),
    ],
)
def test_sizes_are_those_that_the_original_lists_for_imagenet21k_files(variant, mebibytes):
    assert abs(PublishedFile("any", variant, "any", 224, 21843).mebibytes - mebibytes) < 1


@pytest.mark.parametrize("collection", ["imagenet21k", "imagenet21k+imagenet2012", "augreg"])
@pytest.mark.parametrize("variant", ["vit_ti16", "vit_b16", "vit_b32", "r50_b16", "r26_s32"])
def test_parameters_are_those_of_the_model(collection, variant):
    for entry in published_files(variant):
        if entry.collection == collection:
            with keras.StatelessScope(initialize_variables=False):
                model = build_variant(
                    variant,
                    input_shape=(entry.image_size, entry.image_size, 3),
                    classes=entry.classes,
                    representation_size=VARIANTS[variant].hidden_dim if entry.has_pre_logits else None,
                )
            assert entry.parameters == model.count_params()
            keras.utils.clear_session()


def test_sam_is_picked_by_name():
    assert find_published("sam", "vit_s16").path == "sam/ViT-S_16.npz"
    assert find_published("imagenet21k", "r50_b16").path == "imagenet21k/R50+ViT-B_16.npz"


def test_the_list_is_a_table(capsys):
    entries = vitkeras.list_weights("vit_b16")
    lines = capsys.readouterr().out.splitlines()
    assert entries == published_files("vit_b16") and len(lines) == len(entries) + 1
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split() == ["variant", "weights", "pixels", "classes", "MiB", "ImageNet", "top-1"]
    row = next(line.split() for line in lines if "lr_0.03-res_384" in line)
    assert row[2:] == ["384", "1000", "331", "85.49"]
    assert vitkeras.list_weights() == list(registry.PUBLISHED)


def test_the_list_of_an_unknown_variant():
    with pytest.raises(ValueError, match=r"variant must be one with published files, received 'vit_b61'; nearest: \["):
        vitkeras.list_weights("vit_b61")


@pytest.mark.parametrize(
    "variant, arrays", [("vit_b16", 200), ("r50_b16", 356), ("r26_s32", 287), ("r50_l32", 551), ("r_ti16", 203)]
)
def test_a_models_arrays_are_as_many_as_the_published_files(variant, arrays):
    with keras.StatelessScope(initialize_variables=False):
        slots = google_slots(build_variant(variant, classifier_activation=None))
    keras.utils.clear_session()
    assert len({slot.key for slot in slots}) == len(slots) == arrays
