"""Imports Keras first, so that a machine without a backend hears what to install."""

import os

try:
    import keras  # noqa: F401
except ImportError as error:
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    raise ImportError(
        f"vitkeras needs Keras with a backend, and {backend!r} could not be imported ({error}): install "
        '"vitkeras[tf-cpu]", "vitkeras[tf]" (GPU), "vitkeras[tpu]" or "vitkeras[jax]" (with KERAS_BACKEND=jax).'
    ) from error
