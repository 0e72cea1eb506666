"""What a model computes, by calculation: parameters, multiply-adds and activations of each layer.

Legend: B batch, N tokens, H heads, L positions of a relative embedding, D hidden dimension, M MLP dimension, h w map
height and width, P patch, C channels, K outputs.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import keras

from vitkeras import layers
from vitkeras.analysis.recording import check_model

KINDS = ("patch", "linear", "attention", "convolution")
_FREE = (
    layers.ClassToken,
    layers.GroupNorm,
    layers.LayerNorm,
    layers.PositionEmbedding,
    layers.PositionEmbedding2D,
)


@dataclass(frozen=True)
class LayerCost:
    """One layer of a model.

    Attributes:
        name: str.
        parameters: int.
        macs: dict of kind ("patch", "linear", "attention", "convolution") -> multiply-adds for one image.
        activations: int, numbers that the products and convolutions write for one image. A train step keeps them for
            the backward pass, and those of norms, softmax and GELU besides.
        output: tuple, shape of the output without the batch.
        weights: dict of name, such as "attention/query/kernel" -> shape.
    """

    name: str
    parameters: int
    macs: dict
    activations: int = 0
    output: tuple = ()
    weights: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What a model costs for one image.

    Attributes:
        layers: tuple of `LayerCost`, in the model's order.
    """

    layers: tuple

    @property
    def parameters(self):
        """int, of the whole model."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def by_kind(self):
        """dict of kind -> multiply-adds."""
        return {kind: sum(layer.macs.get(kind, 0) for layer in self.layers) for kind in KINDS}

    @property
    def macs(self):
        """int, multiply-adds."""
        return sum(self.by_kind.values())

    @property
    def flops(self):
        """int, floating-point operations: two a multiply-add."""
        return 2 * self.macs

    @property
    def activations(self):
        """int, numbers that the products and convolutions write for one image; four bytes each in float32."""
        return sum(layer.activations for layer in self.layers)


class Product(NamedTuple):
    """A matrix product or convolution: its kind, multiply-adds, and the numbers that it writes."""

    kind: str
    macs: int
    values: int


def flops(model):
    """Counts the multiply-adds of a model's forward pass on one image.

    Counted are the products of matrices and the convolutions: projections and MLPs ("linear"), the two products of the
    attention and those with relative positions ("attention"), the patch embedding ("patch"), and convolutions
    ("convolution"). Norms, GELU, softmax, sums and the standardisation of kernels are not: they are a few operations a
    number. `pretraining_exaflops` makes the paper's pre-training compute (Table 6) of it.

    Args:
        model: a functional `keras.Model` with an input of known size. For another resolution take
            `vitkeras.at_resolution(model, size)`.

    Returns:
        `Cost`; `cost.flops` is the sum.

    Raises:
        ValueError: if it is no `keras.Model` of known size, or holds a layer with matrices whose products are not
            known.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((224, 224, 3), 16, 1, 48, 3, 96, classes=7)
        >>> flops(model).by_kind
        {'patch': 7225344, 'linear': 3631440, 'attention': 3725664, 'convolution': 0}
    """
    check_model(model)
    rows = []
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            rows.extend(flops(layer).layers)
            continue
        shapes = layer.input, layer.output
        if any(isinstance(shape, (list, tuple)) for shape in shapes) and not layer.weights:
            continue  # sums and concatenations
        before, after = (tuple((x[0] if isinstance(x, (list, tuple)) else x).shape) for x in shapes)
        if layer.weights and None in (*before[1:], *after[1:]):
            raise ValueError(
                f"model must take images of a known size, layer {layer.name!r} of {model.name!r} has {before}."
            )
        products = layer_products(layer, before, after)
        macs = {kind: sum(p.macs for p in products if p.kind == kind) for kind in KINDS}
        rows.append(
            LayerCost(
                layer.name,
                layer.count_params(),
                {kind: macs[kind] for kind in KINDS if any(p.kind == kind for p in products)},
                sum(p.values for p in products),
                after[1:],
                {weight.path.partition(f"{layer.name}/")[2]: tuple(weight.shape) for weight in layer.weights},
            )
        )
    return Cost(tuple(rows))


def layer_products(layer, before, after):
    """List of `Product` of one layer, for the shapes of its input and output, batch first."""
    if isinstance(layer, layers.PatchEmbedding):
        return [_windows("patch", after, layer.projection.kernel.shape)]
    if isinstance(layer, layers.EncoderBlock):
        return _block(layer, *before[1:])
    if isinstance(layer, layers.AxialEncoderBlock):
        return _axial(layer, *before[1:], _block)
    if isinstance(layer, layers.MultiHeadSelfAttention):
        return _attention(layer, *before[1:])
    if isinstance(layer, layers.AxialAttention):
        return _axial(layer, *before[1:])
    if isinstance(layer, layers.ResidualUnit):
        return _unit(layer, before)
    if isinstance(layer, (layers.StdConv, keras.layers.Conv2D)):
        return _convolution(layer, after)
    if isinstance(layer, keras.layers.Dense):
        return [_dense(math.prod(before[1:-1]), before[-1], layer.units)]
    if isinstance(layer, _FREE) or not any(len(weight.shape) > 1 for weight in layer.weights):
        return []
    raise ValueError(f"layer {layer.name!r} ({type(layer).__name__}) has weights whose products are not known.")


def _dense(count, inputs, outputs):
    return Product("linear", count * inputs * outputs, count * outputs)


def _block(block, count, dim):
    mlp = [_dense(count, dim, block.mlp_dim), _dense(count, block.mlp_dim, dim)]
    return _attention(block.attention, count, dim) + mlp


def _attention(attention, count, dim):
    heads = attention.num_heads
    products = 4 * [_dense(count, dim, dim)]
    products += [Product("attention", count * count * dim, heads * count * count)]  # query by key
    products += [Product("attention", count * count * dim, count * dim)]  # weights by value
    if attention.relative is not None:
        logits = attention.relative.length * (2 * attention.relative.length - 1)
        products += [Product("attention", logits * dim, heads * logits)]
    return products


def _axial(layer, height, width, dim, cost=_attention):
    """Rows of w tokens, then columns of h; `cost` is that of one line, by default the attention alone."""
    return _times(height, cost(layer.row, width, dim)) + _times(width, cost(layer.column, height, dim))


def _windows(kind, after, kernel):
    return Product(kind, math.prod(after[1:3]) * math.prod(kernel), math.prod(after[1:3]) * kernel[-1])


def _convolution(layer, after):
    return [_windows("convolution", after, layer.kernel.shape)]


def _unit(unit, shape):
    products = []
    if unit.conv_proj is not None:
        products += _convolution(unit.conv_proj, unit.conv_proj.compute_output_shape(shape))
    for conv in (unit.conv1, unit.conv2, unit.conv3):
        after = conv.compute_output_shape(shape)
        is_axial = isinstance(conv, layers.AxialAttention)
        products += _axial(conv, *shape[1:]) if is_axial else _convolution(conv, after)
        shape = after
        if is_axial:  # the stride is made by pooling after it
            shape = unit._pooled_shape(shape)
    return products


def _times(count, products):
    return [Product(kind, count * macs, count * values) for kind, macs, values in products]
