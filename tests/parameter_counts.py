"""Parameter counts from the papers' descriptions, written without the models' code.

Legend: D hidden dimension, M MLP dimension, C channels, F width of a unit.
"""


def norm(dim):
    return 2 * dim


def dense(inputs, outputs):
    return inputs * outputs + outputs


def encoder_block(dim, mlp):
    return 4 * dense(dim, dim) + dense(dim, mlp) + dense(mlp, dim) + 2 * norm(dim)


def unit(channels, width, projected, middle):
    """1 x 1, the middle's weights, 1 x 1 to four times the width, each with its norm; convolutions have no bias."""
    count = channels * width + norm(width) + middle + norm(width) + width * 4 * width + norm(4 * width)
    return count + (channels * 4 * width + norm(4 * width) if projected else 0)


def axial(width, size):
    """A square map: row and column attention, each with an embedding of width F for each of 2 L - 1 offsets."""
    return 2 * (4 * dense(width, width) + (2 * size - 1) * width)


def body(blocks, factor=1, image_size=224, axially=False, channels=3):
    """(weights, channels, size of the map) of the ResNet's root and stages on square images."""
    width = int(64 * factor)
    count, channels, size = 7 * 7 * channels * width + norm(width), width, image_size // 4
    for stage, units in enumerate(blocks):
        for i in range(units):
            middle = axial(width, size) if axially else 9 * width * width
            count += unit(channels, width, i == 0, middle)
            channels = 4 * width
            if stage and i == 0:
                size //= 2
        width *= 2
    return count, channels, size


def vit(layers, dim, mlp, patch, height, width, classes, representation=0, stem=None):
    """A plain ViT, or with `stem` (the stages' units) a hybrid on square images; `patch` is in positions of the map."""
    count, channels = 0, 3
    if stem is not None:
        count, channels, height = body(stem, image_size=height)
        width = height
    tokens = height // patch * (width // patch) + 1
    count += dense(patch * patch * channels, dim) + dim + tokens * dim + layers * encoder_block(dim, mlp) + norm(dim)
    return count + (dense(dim, representation) if representation else 0) + dense(representation or dim, classes)


def resnet(blocks, factor=1, classes=1000, axially=False):
    count, channels, _ = body(blocks, factor, axially=axially)
    return count + dense(channels, classes)


def axial_vit(layers, dim, mlp, patch, size, classes):
    """No class token; a row and a column block a layer."""
    tokens = (size // patch) ** 2
    blocks = 2 * layers * encoder_block(dim, mlp)
    return dense(patch * patch * 3, dim) + tokens * dim + blocks + norm(dim) + dense(dim, classes)
