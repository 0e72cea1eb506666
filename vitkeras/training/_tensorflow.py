"""TensorFlow, or an error that says how to get it."""

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(
        'vitkeras.training needs TensorFlow: pip install "vitkeras[tf-cpu]", "vitkeras[tf]" (GPU) or "vitkeras[tpu]".'
    ) from error

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"vitkeras.training needs KERAS_BACKEND=tensorflow, received {keras.backend.backend()!r}; "
        "the layers and models run on every backend."
    )

__all__ = ["tf"]
