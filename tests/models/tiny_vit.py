"""The small `VisionTransformer` of these tests."""

import keras

import vitkeras

# Prime wherever possible: images 21 x 55, patches 3 x 5, grid 7 x 11, three heads of 7, MLP 23.
SHAPE, HEADS, DIM, GRID = (21, 55, 2), 3, 21, (7, 11)


def tiny(**arguments):
    arguments = {
        **dict(num_layers=2, hidden_dim=DIM, num_heads=HEADS, mlp_dim=23, classes=13, classifier_activation=None),
        **arguments,
    }
    return vitkeras.VisionTransformer(arguments.pop("input_shape", SHAPE), (3, 5), **arguments)


def numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))
