"""The paper's optimizers, with the gradient clipped after the all-reduce (appendix B.1)."""

import difflib
import math
import re

import keras
from keras import ops

from vitkeras._tensorflow import tf

DECAY_MASK = r"(.*/)?kernel"


class _ClipAfterReduce:
    """Clips the global norm of the gradient summed over all replicas.

    Keras' own `global_clipnorm` clips each replica's part before the sum: other numbers, and no error.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars):
        grads_and_vars = super()._all_reduce_sum_gradients(grads_and_vars)
        if self.clip_norm is None:
            return grads_and_vars
        gradients, _ = tf.clip_by_global_norm([g for g, _ in grads_and_vars], self.clip_norm)
        return list(zip(gradients, [v for _, v in grads_and_vars]))

    def get_config(self):
        return {**super().get_config(), "clip_norm": self.clip_norm}


@keras.saving.register_keras_serializable(package="vitkeras")
class MomentumSGD(_ClipAfterReduce, keras.optimizers.SGD):
    """SGD with momentum as the original has it: `m = momentum * m + g; w = w - rate * m`.

    Paper appendix B.1.1 fine-tunes with it, momentum 0.9. Keras' SGD keeps the rate inside the velocity,
    which differs as soon as the rate changes from step to step.

    Args:
        learning_rate: float or a schedule.
        momentum: float in (0, 1). Default 0.9.
        clip_norm: float > 0 or None (default), the global norm to clip at, after the all-reduce.
    """

    def __init__(self, learning_rate=0.01, momentum=0.9, clip_norm=None, name="momentum_sgd", **kwargs):
        super().__init__(learning_rate=learning_rate, momentum=momentum, name=name, **kwargs)
        if self.nesterov or not 0 < momentum < 1:
            raise ValueError(f"momentum must be in (0, 1) and not nesterov, received {momentum}, {self.nesterov}.")
        self.clip_norm = clip_norm

    def update_step(self, gradient, variable, learning_rate):
        """Applies one step to one variable."""
        # One pass over the weights, in TensorFlow's own kernel for exactly this rule.
        trace = self.momentums[self._get_variable_index(variable)].value
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=trace.handle,
            lr=tf.cast(learning_rate, variable.dtype),
            grad=tf.cast(gradient, variable.dtype),
            momentum=tf.cast(self.momentum, variable.dtype),
        )


@keras.saving.register_keras_serializable(package="vitkeras")
class AdamW(_ClipAfterReduce, keras.optimizers.AdamW):
    """Adam with decoupled weight decay on kernels only (paper Table 3, AugReg).

    As in the original, epsilon is added to the root of the bias-corrected second moment; Keras adds it to the
    uncorrected one.

    Args:
        learning_rate: float or a schedule.
        weight_decay: float >= 0, multiplied by the current learning rate. Default 0.
        beta_1, beta_2, epsilon: floats. Defaults 0.9, 0.999, 1e-8.
        clip_norm: float > 0 or None (default), the global norm to clip at, after the all-reduce.
        decay_mask: str, a regular expression for the whole path of each variable that decays, such as
            "encoder_block_00/mlp/Dense_0/kernel". Default: kernels decay; biases, norms, the class token and
            position embeddings don't.

    Raises:
        ValueError: for `amsgrad`, or a `decay_mask` that is no regular expression.
    """

    def __init__(
        self,
        learning_rate=0.001,
        weight_decay=0.0,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-8,
        clip_norm=None,
        decay_mask=DECAY_MASK,
        name="adamw",
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            name=name,
            **kwargs,
        )
        if self.amsgrad:
            raise ValueError("amsgrad must be False, received True.")
        try:
            re.compile(decay_mask)
        except re.error as error:
            raise ValueError(f"decay_mask must be a regular expression, received {decay_mask!r} ({error}).") from None
        self.clip_norm = clip_norm
        self.decay_mask = decay_mask

    def update_step(self, gradient, variable, learning_rate):
        """Applies one step to one variable; the decay was applied before."""
        rate = ops.cast(learning_rate, variable.dtype)
        gradient = ops.cast(gradient, variable.dtype)
        step = ops.cast(self.iterations + 1, variable.dtype)
        index = self._get_variable_index(variable)
        first, second = self._momentums[index], self._velocities[index]
        self.assign(first, self.beta_1 * first + (1 - self.beta_1) * gradient)
        self.assign(second, self.beta_2 * second + (1 - self.beta_2) * ops.square(gradient))
        # 1 - beta ** step through expm1: the difference of nearly equal numbers would cost four digits.
        first = first / -ops.expm1(step * math.log(self.beta_1))
        second = second / -ops.expm1(step * math.log(self.beta_2))
        self.assign_sub(variable, rate * first / (ops.sqrt(second) + self.epsilon))

    def _use_weight_decay(self, variable):
        """Whether the variable's path matches `decay_mask`; Keras hands over the tf.Variable of each replica."""
        path = self._trainable_variables[self._get_variable_index(variable)].path
        return re.fullmatch(self.decay_mask, path) is not None

    def get_config(self):
        return {**super().get_config(), "decay_mask": self.decay_mask}


def make_optimizer(name, learning_rate, momentum=0.9, weight_decay=0.0, clip_norm=1.0, decay_mask=DECAY_MASK):
    """Builds an optimizer of the paper by name.

    Args:
        name: "sgd" (`MomentumSGD`) or "adamw" (`AdamW`).
        learning_rate: float or a schedule.
        momentum: float in (0, 1), of SGD. Default 0.9.
        weight_decay: float >= 0, of AdamW. Default 0.
        clip_norm: float > 0 or None. Default 1, the paper's.
        decay_mask: str, a regular expression for the paths of the variables that decay. Default: kernels.

    Returns:
        A `keras.optimizers.Optimizer`.

    Raises:
        ValueError: for an unknown name, a weight decay with SGD (the paper fine-tunes without), or a
            `clip_norm` that is not positive.

    Example:
        >>> make_optimizer("sgd", 0.01).momentum
        0.9
    """
    if clip_norm is not None and not clip_norm > 0:  # nor nan
        raise ValueError(f"clip_norm must be > 0 or None, received {clip_norm}.")
    if name == "sgd":
        if weight_decay:
            raise ValueError(f"weight_decay is for optimizer 'adamw', received {weight_decay} with 'sgd'.")
        return MomentumSGD(learning_rate, momentum=momentum, clip_norm=clip_norm)
    if name == "adamw":
        return AdamW(learning_rate, weight_decay=weight_decay, clip_norm=clip_norm, decay_mask=decay_mask)
    nearest = difflib.get_close_matches(str(name), ("sgd", "adamw"), n=1, cutoff=0)[0]
    raise ValueError(f"optimizer must be 'sgd' or 'adamw', received {name!r}; nearest: {nearest!r}.")
