"""Learning-rate schedules of the paper (Tables 3 and 4)."""

import math

import keras
from keras import ops

DECAYS = ("cosine", "linear", "constant")


@keras.saving.register_keras_serializable(package="vitkeras")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up times cosine or linear decay, as in the original code.

    With progress p running from 0 at the end of the warm-up to 1 at `total_steps`: cosine is
    `base * (1 + cos(pi p)) / 2`, linear falls from `base` to `linear_end`. The warm-up multiplies by
    `min(1, step / warmup_steps)`.

    Args:
        base: float > 0, the learning rate before decay.
        total_steps: int > `warmup_steps`; after it the rate stays where it is.
        warmup_steps: int >= 0. Default 0.
        decay: "cosine" (default), "linear" or "constant".
        linear_end: float, the last rate of the linear decay. Default 1e-5, the original's.

    Call arguments:
        step: int or int tensor, counted from 0.

    Returns:
        float32 tensor, the learning rate of that step.

    Raises:
        ValueError: for an argument outside its range.

    Example:
        >>> float(WarmupDecay(0.5, total_steps=100, warmup_steps=10)(5))
        0.25
    """

    def __init__(self, base, total_steps, warmup_steps=0, decay="cosine", linear_end=1e-5):
        if not 0 < base < math.inf:
            raise ValueError(f"base must be > 0 and finite, received {base}.")
        if decay not in DECAYS:
            raise ValueError(f"decay must be one of {DECAYS}, received {decay!r}.")
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(
                f"warmup_steps must be in 0...{total_steps - 1} (total_steps - 1), received {warmup_steps}."
            )
        self.base = base
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.decay = decay
        self.linear_end = linear_end

    def __call__(self, step):
        step = ops.cast(step, "float32")
        progress = ops.clip((step - self.warmup_steps) / (self.total_steps - self.warmup_steps), 0.0, 1.0)
        if self.decay == "cosine":
            rate = self.base * 0.5 * (1.0 + ops.cos(math.pi * progress))
        elif self.decay == "linear":
            rate = self.linear_end + (self.base - self.linear_end) * (1.0 - progress)
        else:
            rate = self.base * ops.ones_like(progress)
        if self.warmup_steps:
            rate = rate * ops.minimum(1.0, step / self.warmup_steps)
        return rate

    def get_config(self):
        return {
            "base": self.base,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "decay": self.decay,
            "linear_end": self.linear_end,
        }
