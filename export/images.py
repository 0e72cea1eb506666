"""Images for calibration and checks: checked, and in the form that the file takes."""

import os
import warnings

import numpy as np

ENOUGH = 128  # calibration images; fewer miss outliers
MOST = 256  # taken of a data set


def synthetic_images(shape, count=8):
    """Deterministic images (count, *shape), pixels 0...255: smooth colour fields with a little noise."""
    rng = np.random.default_rng(0)
    height, width, channels = shape
    rows = np.linspace(0, 3.99, height).astype(int)
    columns = np.linspace(0, 3.99, width).astype(int)
    fields = rng.uniform(0, 255, (count, 4, 4, channels))[:, rows][:, :, columns]
    return np.clip(np.rint(fields + rng.normal(0, 20, fields.shape)), 0, 255).astype("float32")


def verify_images(shape, images, pixel_input):
    """float32 images (N, *shape) on which file and model are compared; made up if `images` is None.

    Raises:
        ValueError: for images of another shape or range.
    """
    if images is not None:
        return _checked("verify_images", images, shape, pixel_input)
    made = synthetic_images(shape)
    return made if pixel_input else made / 127.5 - 1


def calibration_images(shape, source, pixel_input):
    """float32 images (N, *shape) whose activations give the ranges.

    Args:
        shape: (H, W, C).
        source: array (N, H, W, C); a spec such as "folder:photos" or "tfds:NAME", of whose training part up to 256
            are taken, spread evenly; or a `tf.data.Dataset` of images, or of (images, labels), in batches or not.
        pixel_input: bool, whether the file takes 0...255.

    Raises:
        ValueError: for images of another shape or range.
    """
    if isinstance(source, str | os.PathLike):
        from vitkeras import data

        if not pixel_input:
            raise ValueError(
                "calibration_images must be an array or tf.data set for pixel_input=False, received a spec."
            )
        source, _ = data.raw_images(data.open_dataset(os.fspath(source)).train, shape[:2], limit=MOST)
    elif hasattr(source, "as_numpy_iterator"):
        source = _of_dataset(source, len(shape))
    images = _checked("calibration_images", source, shape, pixel_input)
    if len(images) < ENOUGH:
        warnings.warn(
            f"calibration_images has {len(images)} images; fewer than {ENOUGH} may miss outliers, and other images "
            "are then cut off.",
            stacklevel=3,
        )
    if not pixel_input and np.abs(images).max() > 20:
        warnings.warn(
            f"calibration_images reaches {np.abs(images).max():.0f}: with pixel_input=False they must be preprocessed "
            "as for the model.",
            stacklevel=3,
        )
    return images


def _of_dataset(dataset, rank):
    found, count = [], 0
    for element in dataset.as_numpy_iterator():
        images = element[0] if isinstance(element, tuple) else element
        if not isinstance(images, np.ndarray):
            raise ValueError(
                "calibration_images must be a tf.data set of images or of (images, labels), received elements of "
                f"{type(element).__name__}."
            )
        images = images[None] if images.ndim == rank else images
        found.append(images)
        count += len(images)
        if count >= MOST:
            break
    if not found:
        raise ValueError("calibration_images must hold images, received an empty tf.data set.")
    return np.concatenate(found)[:MOST]


def _checked(name, images, shape, pixel_input):
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[1:] != shape or not len(images):
        raise ValueError(f"{name} must have shape (N, {', '.join(map(str, shape))}), received {images.shape}.")
    if images.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be real numbers, received {images.dtype}.")
    images = images.astype("float32")
    if not pixel_input and not np.isfinite(images).all():
        raise ValueError(f"{name} must be finite, received NaN or infinite values.")
    if pixel_input and (not np.isfinite(images).all() or images.min() < 0 or images.max() > 255):
        raise ValueError(f"{name} must be pixels in 0...255, received {images.min()}...{images.max()}.")
    if pixel_input and images.max() <= 1:
        raise ValueError(f"{name} must be pixels in 0...255, received at most {images.max()}: already scaled?")
    return images
