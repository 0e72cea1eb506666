"""What a file returns: the model's own outputs, named, or others read off its head.

Legend: N images, K classes, k best of them.
"""

import keras
import numpy as np

OUTPUTS = (None, "logits", "softmax", "embedding", "top_k")
MOST = 5  # of "top_k"
ACTIVATION_NAMES = {"linear": "logits", "softmax": "probabilities", "sigmoid": "probabilities"}


def output_names(model):
    """Names of the model's outputs, a list of str.

    "logits" after a Dense head, "probabilities" after its or a layer's softmax or sigmoid, else "features"; several are
    "features_00", "features_01", ..., in the order of `model.outputs`. A model from `with_output` names its own.
    """
    if isinstance(model.output, dict):
        return list(model.output)
    if len(model.outputs) > 1:
        return [f"features_{i:02d}" for i in range(len(model.outputs))]
    return [_name_of(model.layers[-1])]


def _name_of(last):
    while isinstance(last, keras.Model):
        last = last.layers[-1]
    if isinstance(last, keras.layers.Softmax):
        return "probabilities"
    if isinstance(last, keras.layers.Dense):
        return ACTIVATION_NAMES.get(last.activation.__name__, "features")
    name = ACTIVATION_NAMES.get(last.activation.__name__) if isinstance(last, keras.layers.Activation) else None
    return name if name == "probabilities" else "features"


def named_outputs(model, images):
    """Calls `model` for inference; returns a dict of name -> output."""
    outputs = model(images, training=False)
    if isinstance(outputs, dict):
        return outputs
    return dict(zip(output_names(model), keras.tree.flatten(outputs), strict=True))


def check_output_choice(model, output, k=None):
    """Raises ValueError unless `output` is known and `model` has the head that it is read off.

    Args:
        model: a functional `keras.Model`.
        output: one of `OUTPUTS`.
        k: None, or int in 1...5, for "top_k"; at most K.
    """
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {OUTPUTS}, received {output!r}.")
    if k is not None and output != "top_k":
        raise ValueError(f"k is for output='top_k', received {k!r} with output={output!r}.")
    if output is None:
        return
    head = model.layers[-1]
    if len(model.outputs) != 1 or not isinstance(head, keras.layers.Dense):
        raise ValueError(
            f"output {output!r} is read off a Dense head, which {model.name!r} does not end in; "
            f"its last layer is {type(head).__name__}."
        )
    if output in ("softmax", "top_k") and head.activation.__name__ not in ("linear", "softmax"):
        raise ValueError(
            f"output {output!r} needs a head with softmax or without activation, received {head.activation.__name__!r}."
        )
    if output == "top_k":
        if len(model.output.shape) != 2:
            raise ValueError(f"output 'top_k' needs one vector an image, received {tuple(model.output.shape)}.")
        most = min(MOST, head.units)
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= most):
            raise ValueError(f"k must be an int in 1...{most}, received {k!r}.")


def with_output(model, output, k=None):
    """Returns a model with the layers of `model` whose output is a dict of the named outputs.

    Args:
        model: from `export_model`; the activation of its head is changed where `output` asks for it.
        output: None gives `model` itself. "logits", "softmax" (`probabilities`), "embedding" (what enters the head) or
            "top_k" (`scores` and `indices`, the best classes first).
        k: as in `check_output_choice`; None for 5, or K if that is less.
    """
    check_output_choice(model, output, k)
    if output is None:
        return model
    head = model.layers[-1]
    if output == "embedding":
        return keras.Model(model.input, {"embedding": head.input}, name=model.name)
    head.activation = keras.activations.get("linear" if output == "logits" else "softmax")
    if output != "top_k":
        return keras.Model(model.input, {ACTIVATION_NAMES[head.activation.__name__]: model.output}, name=model.name)
    scores, indices = keras.ops.top_k(model.output, k or min(MOST, head.units))
    return keras.Model(model.input, {"scores": scores, "indices": indices}, name=model.name)


def label_count(model, output):
    """How many labels fit the output; raises ValueError if none do."""
    if len(model.outputs) != 1 or output == "embedding":
        raise ValueError("labels are for an output of classes, received them for features.")
    return model.output.shape[-1]


def pairs(reference, received):
    """Arrays of the model and of the file that must be equal, a list of (reference, received).

    Args:
        reference: array, or dict of name -> array; for a "top_k" file the array (N, K) of all probabilities.
        received: array, or dict of name -> array.

    A "top_k" file passes if its scores are the model's best ones, and are what the model gives to its indices; so ties
    may fall either way.
    """
    if isinstance(received, dict) and set(received) == {"scores", "indices"}:
        scores, indices = received["scores"], received["indices"].astype("int64")
        best = -np.sort(-reference, axis=1)[:, : scores.shape[1]]
        chosen = np.take_along_axis(reference, indices, axis=1)
        return [(np.concatenate([chosen, best], axis=1), np.concatenate([scores, scores], axis=1))]
    if not isinstance(received, dict):
        return [(reference, received)]
    return [(reference[name], received[name]) for name in reference]
