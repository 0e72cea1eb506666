"""An independent forward pass in NumPy float64, written from the paper's equations and the original's order of steps.

Legend: B batch, N tokens, D hidden dimension, H heads, d = D / H, P patch.
"""

import numpy as np
from scipy.special import erf


def layer_norm(x, scale, bias, epsilon=1e-6):
    x = np.asarray(x, "float64")
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * scale + bias


def gelu(x, kind):
    if kind == "gelu":
        return 0.5 * x * (1 + erf(x / np.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention_weights(x, query, key, heads):
    """(B, H, N, N); `query` and `key` are (kernel (D, D), bias (D,)), head h owns columns h·d … (h+1)·d."""
    q, k = (_heads(x @ kernel + bias, heads) for kernel, bias in (query, key))
    return softmax(np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]))


def attention(x, query, key, value, out, heads):
    weights = attention_weights(x, query, key, heads)
    v = _heads(x @ value[0] + value[1], heads)
    y = np.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
    return y @ out[0] + out[1]


def _heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1)


def mlp(x, expand, project, kind="gelu_tanh"):
    return gelu(x @ expand[0] + expand[1], kind) @ project[0] + project[1]


def patch_embedding(images, kernel, bias):
    """(B, h, w, D) from non-overlapping patches: a reshape and a matrix product."""
    images = np.asarray(images, "float64")
    b, height, width, channels = images.shape
    p, q = kernel.shape[:2]
    x = images.reshape(b, height // p, p, width // q, q, channels).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(b, height // p, width // q, p * q * channels) @ kernel.reshape(p * q * channels, -1) + bias


def encoder_block(x, arrays, prefix, heads, kind="gelu_tanh", epsilon=1e-6):
    """`arrays` in the original's names, kernels (D, H, d) flattened here."""
    dim = x.shape[-1]
    part = f"{prefix}/MultiHeadDotProductAttention_1"
    dense = {
        name: (arrays[f"{part}/{name}/kernel"].reshape(dim, dim), arrays[f"{part}/{name}/bias"].reshape(dim))
        for name in ("query", "key", "value", "out")
    }
    y = layer_norm(x, *_pair(arrays, f"{prefix}/LayerNorm_0", "scale"), epsilon)
    x = x + attention(y, **dense, heads=heads)
    y = layer_norm(x, *_pair(arrays, f"{prefix}/LayerNorm_2", "scale"), epsilon)
    return x + mlp(y, *(_pair(arrays, f"{prefix}/MlpBlock_3/Dense_{i}") for i in (0, 1)), kind=kind)


def vision_transformer(arrays, images, heads, kind="gelu_tanh", epsilon=1e-6):
    """Logits, and what lies before them, from arrays in the original's names."""
    arrays = {key: np.asarray(value, "float64") for key, value in arrays.items()}
    steps = {"embedding_out": patch_embedding(images, *_pair(arrays, "embedding"))}
    b, h, w, dim = steps["embedding_out"].shape
    x = steps["embedding_out"].reshape(b, h * w, dim)
    if "cls" in arrays:
        x = np.concatenate([np.repeat(arrays["cls"], b, axis=0), x], axis=1)
    if "Transformer/posembed_input/pos_embedding" in arrays:
        x = x + arrays["Transformer/posembed_input/pos_embedding"]
    layers = len({key.split("/")[1] for key in arrays if key.startswith("Transformer/encoderblock_")})
    for i in range(layers):
        x = encoder_block(x, arrays, f"Transformer/encoderblock_{i}", heads, kind, epsilon)
    steps["encoded"] = layer_norm(x, *_pair(arrays, "Transformer/encoder_norm", "scale"), epsilon)
    x = steps["encoded"][:, 0] if "cls" in arrays else steps["encoded"].mean(1)
    if "pre_logits/kernel" in arrays:
        kernel, bias = _pair(arrays, "pre_logits")
        x = np.tanh(x @ kernel + bias)
    kernel, bias = _pair(arrays, "head")
    return {**steps, "pre_logits": x, "logits": x @ kernel + bias}


def _pair(arrays, prefix, first="kernel"):
    return arrays[f"{prefix}/{first}"], arrays[f"{prefix}/bias"]
