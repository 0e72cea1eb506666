"""The golden files of other layouts than the original's, and a short way to read them."""

from vitkeras.checkpoints.safetensors import SafetensorsFile


def timm(golden):
    """Path of a ViT in timm's layout; `golden` is the loader of golden arrays."""
    return golden.path(".").parent / "timm_vit_32x32.safetensors"


def hugging_face(golden):
    """Folder of a ViT in Hugging Face's layout."""
    return golden.path(".").parent / "hf_vit_32x32"


def read_safetensors(path):
    """{name: array} of a file."""
    with SafetensorsFile(path) as file:
        return {name: file.read(name) for name in file.headers}
