"""Corruption of patch embeddings for masked-patch prediction (paper appendix B.1.2).

Legend: B batch, N patches, D hidden dimension.
"""

import keras
from keras import ops

from vitkeras.layers.pick_tokens import check_token_shapes, take_tokens


@keras.saving.register_keras_serializable(package="vitkeras")
class CorruptPatches(keras.layers.Layer):
    """Replaces patch embeddings by a learned mask embedding or by the embedding of another patch of the same image.

    Paper appendix B.1.2. It stands between the patch embedding and the position embedding, so that a masked patch
    keeps its position. What becomes of which patch is an input: `vitkeras.training.masked_patch_batches` draws it.
    The mask embedding, `mask_token`, is drawn from N(0, 0.02).

    Call arguments:
        patches: floating tensor (B, N, D).
        sources: int tensor (B, N): for each patch, the index of the patch whose embedding it gets, its own to stay as
            it is, or -1 for the mask embedding. A number outside -1...N - 1 is not noticed.

    Returns:
        Tensor (B, N, D).

    Raises:
        ValueError: if the shapes are not of these ranks, or the numbers of patches differ.

    Example:
        >>> patches = np.arange(6, dtype="float32").reshape(1, 3, 2)
        >>> corrupted = CorruptPatches()(patches, np.array([[-1, 1, 0]]))
        >>> [[float(number) for number in patch] for patch in corrupted[0, 1:]]
        [[2.0, 3.0], [0.0, 1.0]]
    """

    def build(self, patches_shape, sources_shape):
        check_token_shapes(patches_shape, "sources", sources_shape)
        counts = patches_shape[1], sources_shape[1]
        if None not in counts and counts[0] != counts[1]:
            raise ValueError(f"sources must hold one index for each of {counts[0]} patches, received {counts[1]}.")
        self.mask_token = self.add_weight(
            name="mask_token", shape=(patches_shape[-1],), initializer=keras.initializers.RandomNormal(stddev=0.02)
        )

    def call(self, patches, sources):
        masked = ops.expand_dims(sources < 0, -1)  # (B, N, 1)
        others = take_tokens(patches, ops.maximum(sources, 0))  # (B, N, D)
        return ops.where(masked, ops.cast(self.mask_token, patches.dtype), others)

    def compute_output_shape(self, patches_shape, sources_shape):
        return tuple(patches_shape)

    def get_config(self):
        # Without its own, Keras refuses to save a layer that was given a policy object as its dtype.
        return super().get_config()
