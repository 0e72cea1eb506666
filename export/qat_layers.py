"""The layers of a Vision Transformer with the operands of its matrix products rounded, as an int8 file has them.

As in the preset `int8_static`: patch embedding, query, key, value, the MLP's first layer and the attention's two
products have operands and results in ranges that are known before ("static"); the second product may stay float. The
projection behind the attention, the MLP's second layer and the head round each row of their input in a range of its own
and give float results ("dynamic"): a range for all tokens costs most there. Normalisation, softmax, GELU and the
residual sums stay float. Names and weights are those of the float layers; the ranges of the activations come on top.

Legend: B images, N tokens, D hidden dimension, H heads, d = D / H, M MLP dimension.
"""

import keras
from keras import ops

from vitkeras import layers
from vitkeras.layers.attention import attend
from vitkeras.layers.mlp import GELU_KINDS

from .even_rows import even_rows
from .fake_quant import FLOAT, OBSERVE, QUANTIZE, FakeQuantizer, quantized_kernel, rounded_rows

RIGHT_OPERANDS = ("key", "value")  # of the batch matrix products


class _Quantized:
    """What the layers below share: a `FakeQuantizer` for each name of `sites`, and rounded kernels."""

    sites = ()
    mode = FLOAT
    observer = None  # of (the dense layer, what enters it), for dynamic ones

    def build(self, input_shape):
        super().build(input_shape)
        self.fake_quantizers = []
        for name in self.sites:
            quantizer = FakeQuantizer(zero_centred=name in RIGHT_OPERANDS, name=name)
            quantizer.build(())
            self.fake_quantizers.append(quantizer)

    def at(self, site, x):
        return self.fake_quantizers[self.sites.index(site)](x)

    def kernel_of(self, layer):
        return quantized_kernel(layer.kernel) if self.mode == QUANTIZE else layer.kernel

    def dense(self, layer, x):
        return ops.matmul(x, self.kernel_of(layer)) + layer.bias

    def dynamic(self, layer, x):
        if self.mode == OBSERVE and self.observer is not None:
            self.observer(layer, x)
        return self.dense(layer, rounded_rows(x) if self.mode == QUANTIZE else x)


class QuantizedPatchEmbedding(_Quantized, layers.PatchEmbedding):
    """`PatchEmbedding` whose pixels need no rounding: they are whole numbers, and so exact in the file."""

    sites = ("output",)

    def call(self, images):
        self._check_sides(images.shape)
        x = ops.conv(images, self.kernel_of(self.projection), strides=self.patch_size, padding="valid")
        return self.at("output", x + self.projection.bias)


class QuantizedDense(_Quantized, keras.layers.Dense):
    """`Dense` in its dynamic form."""

    def call(self, x, training=None):
        return self.activation(self.dynamic(self, x))


class QuantizedEncoderBlock(_Quantized, layers.EncoderBlock):
    """`EncoderBlock` without dropout, relative positions and stochastic depth."""

    sites = (
        "attention_input",
        "query",
        "key",
        "scores",
        "even_weights",
        "value",
        "context",
        "mlp_input",
        "hidden",
    )

    def call(self, x, training=None):
        x = x + self._attention(self.attention_norm(x))
        return x + self._mlp(self.mlp_norm(x))

    def _attention(self, x):
        attention, (count, dim) = self.attention, x.shape[1:]
        x = self.at("attention_input", ops.reshape(x, (-1, dim)))  # (B * N, D)

        def heads(layer, site, scale=1.0):  # (B * N, D) -> (B, H, N, d)
            return self.at(site, attention._split_heads(self.dense(layer, x) * scale, count))

        # The converter multiplies the scale into the projection, so the rounding of its result comes after.
        query = heads(attention.query, "query", (dim // self.num_heads) ** -0.5)
        weights = self._weights(query, heads(attention.key, "key"))  # (B, H, N, N)
        y = self._mix(weights, heads(attention.value, "value"))
        y = ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (-1, dim))  # (B * N, D)
        y = self.dynamic(attention.out, y)
        return ops.reshape(y, (-1, count, dim))

    def _weights(self, query, key):
        products = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        return ops.softmax(self.at("scores", products), axis=-1)

    def _mix(self, weights, value):
        even, roots = even_rows(weights)
        return self.at("context", attend(self.at("even_weights", even), value)) * roots

    def _mlp(self, x):
        mlp, (count, dim) = self.mlp, x.shape[1:]
        y = self.at("mlp_input", ops.reshape(x, (-1, dim)))  # (B * N, D)
        y = self.at("hidden", self.dense(mlp.expand, y))  # (B * N, M)
        y = ops.gelu(y, approximate=GELU_KINDS[mlp.activation])
        y = self.dynamic(mlp.project, y)
        return ops.reshape(y, (-1, count, dim))


class FloatMixEncoderBlock(QuantizedEncoderBlock):
    """`QuantizedEncoderBlock` whose sum of weighted values is in float: most softmax weights are below one level."""

    sites = tuple(site for site in QuantizedEncoderBlock.sites if site not in ("even_weights", "context"))

    def _mix(self, weights, value):
        return attend(weights, value)


QUANTIZED = {
    layers.PatchEmbedding: QuantizedPatchEmbedding,
    layers.EncoderBlock: QuantizedEncoderBlock,
    keras.layers.Dense: QuantizedDense,
}
