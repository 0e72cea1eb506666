"""tensorflow-model-optimization (tfmot), imported without what its import changes."""

import os
import warnings

from vitkeras._optional import require

_VARIABLE = "TF_USE_LEGACY_KERAS"


def tfmot(purpose, module="tensorflow_model_optimization"):
    """Imports tfmot or a module of it.

    Its import sets TF_USE_LEGACY_KERAS=1, by which TensorFlow would resolve its lazy Keras module to Keras 2 from then
    on, in this process and in those that it starts. So that module is resolved before, and the variable put back after.

    Args:
        purpose: str, what needs it, the subject of the error's sentence.
        module: str. Default the package itself.

    Returns:
        The module.

    Raises:
        ImportError: if it is missing; the message names the extra to install.
    """
    tensorflow = require("tensorflow", "TensorFlow", purpose, extra="tf-cpu")
    before = os.environ.get(_VARIABLE)
    tensorflow.keras.version()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it compares versions with distutils
            return require(module, "tensorflow-model-optimization", purpose, extra="qat")
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before
