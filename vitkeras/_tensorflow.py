"""TensorFlow for the rooms that need it, or an error that says how to get it."""

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(
        "vitkeras.data and vitkeras.training need TensorFlow: "
        'pip install "vitkeras[tf-cpu]", "vitkeras[tf]" (GPU) or "vitkeras[tpu]".'
    ) from error

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"vitkeras.data and vitkeras.training need KERAS_BACKEND=tensorflow, received {keras.backend.backend()!r}; "
        "the layers and models run on every backend."
    )

__all__ = ["tf"]
