"""Fitting the first kernel of a file to the model's input: its normalisation, and its number of channels.

Legend: P kernel side, C channels, D output channels.
"""

import numpy as np

KERNELS = ("conv_root/kernel", "embedding/kernel")
RGB = 3  # channels of every published file


class InputFit:
    """Rewrites the first kernel, and the bias after it, while they are loaded.

    Normalisation: from `(pixel / 255 - mean) / std` inputs to -1...1 inputs. `pixel / 255 = (x + 1) / 2`, and a patch
    embedding has no padding, so the fold is exact.

    Channels: a model of one channel gets the sum over the file's three, which for a grey image is what the file
    computes for three equal channels; a model of C gets them repeated (0, 1, 2, 0, ...) and multiplied by 3 / C, so
    that C equal channels give the same. A hybrid standardises its kernel, so there both hold up to a factor for each
    output channel, which GroupNorm mostly removes.

    Args:
        view: `CheckpointView`.
        slots: the model's `Slot`s.
        mean, std: float or a sequence of one float a channel of the file, or both None.

    Attributes:
        key: the original's name of the first kernel, or None if the model has none.

    Raises:
        ValueError: for values that are not finite, not one a channel, not positive; or a hybrid's.
    """

    def __init__(self, view, slots, mean, std):
        if (mean is None) != (std is None):
            raise ValueError(f"input_mean and input_std go together, received {mean!r} and {std!r}.")
        if mean is None:
            mean, std = view.facts.input_mean, view.facts.input_std
        wanted = {slot.key: slot.shape for slot in slots}
        self.key = next((key for key in KERNELS if key in wanted), None)
        self._channels = None if self.key is None else wanted[self.key][2]
        entry = view.entries.get(self.key)
        found = entry.shape[2] if entry is not None and len(entry.shape) == 4 else None
        self._adapts = found == RGB and self._channels not in (None, RGB)
        self._mean = self._std = None
        self._shift = 0.0
        if mean is not None:
            if self.key != "embedding/kernel":
                raise ValueError(
                    "input_mean and input_std fold into a patch embedding only: a ResNet stem pads its input and "
                    "standardises its kernel; normalise the images instead."
                )
            channels = RGB if self._adapts else self._channels
            self._mean, self._std = (_per_channel(v, n, channels) for v, n in ((mean, "mean"), (std, "std")))
            if not (self._std > 0).all():
                raise ValueError(f"input_std must be positive, received {self._std.tolist()}.")

    def file_shape(self, shape):
        """The shape (P, P, C, D) that the file may have for a kernel of `shape`."""
        return (*shape[:2], RGB, shape[3]) if self._adapts else shape

    def kernel(self, array):
        """Returns the kernel (P, P, C, D) for the model's input."""
        if self._mean is not None:
            array = array.astype("float64")
            self._shift = np.einsum("ijcd,c->d", array, (0.5 - self._mean) / self._std)
            array = array * (0.5 / self._std)[:, None]
        if self._adapts:
            array = adapt_channels(array, self._channels)
        return array.astype("float32")

    def bias(self, array):
        """Returns the patch embedding's bias (D,); to be called after `kernel`."""
        return (array.astype("float64") + self._shift).astype("float32") if self._mean is not None else array


def adapt_channels(kernel, channels):
    """Returns a kernel for another number of channels, from one for three.

    Args:
        kernel: float array (P, P, 3, D).
        channels: int > 0.

    Returns:
        Array (P, P, channels, D): the sum for one channel, else the channels repeated and multiplied by 3 / channels.

    Example:
        >>> adapt_channels(np.ones((2, 2, 3, 5)), 4)[0, 0, :, 0].tolist()
        [0.75, 0.75, 0.75, 0.75]
    """
    if channels == 1:
        return kernel.sum(axis=2, keepdims=True)
    return kernel[:, :, np.arange(channels) % RGB] * (RGB / channels)


def _per_channel(value, name, channels):
    try:
        array = np.asarray(value, "float64")
    except (TypeError, ValueError):  # no number
        array = np.full((1,), np.nan)
    if array.shape not in ((), (1,), (channels,)) or not np.isfinite(array).all():
        raise ValueError(
            f"input_{name} must be one finite float, or one for each of {channels} channels, received {value!r}."
        )
    return np.broadcast_to(array, (channels,))
