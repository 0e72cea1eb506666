"""From encoded bytes to RGB pixels, uint8 (height, width, 3).

Two decoders: TensorFlow's for the JPEGs that it reads exactly as Pillow does, and Pillow for everything else.
The EXIF orientation is ignored by both.
"""

import io

import numpy as np

from vitkeras._optional import require
from vitkeras._tensorflow import tf

# By content, never by a file's suffix; the list keeps rarer formats, some of which start other programs, shut.
PILLOW_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF")

# The integer transform is Pillow's; TensorFlow's default is a faster one that differs by up to 5 of 255.
_DCT = "INTEGER_ACCURATE"

# JPEG frame headers of Huffman-coded frames: baseline, extended, progressive. Arithmetic-coded and lossless
# frames exist as well, and not every build of a decoder reads them.
_HUFFMAN_FRAMES = (0xC0, 0xC1, 0xC2)


def decode_with_pillow(encoded):
    """Decodes the first frame of an image file, whatever its mode, to RGB.

    Alpha is dropped. CMYK becomes `(255 - ink) * (255 - key) / 255`, also from JPEGs of Adobe's programs, which
    store the complements. Grey 16-bit values become `round(v / 257)`; of 16-bit RGB files Pillow keeps the high byte.

    Args:
        encoded: bytes of a JPEG, PNG, BMP, GIF, WebP or TIFF file.

    Returns:
        uint8 array (height, width, 3).

    Raises:
        ValueError: if the bytes are no such image, or its pixels have no defined range (32-bit, 12-bit).
        OSError, SyntaxError, EOFError: as Pillow raises them for damaged files.

    Example:
        >>> decode_with_pillow(open("photo.png", "rb").read()).shape          # doctest: +SKIP
        (480, 640, 3)
    """
    with _open(encoded) as image:
        return _to_rgb(image)


def inspect(encoded):
    """Decodes an image file fully and says which decoder training shall use.

    Args:
        encoded: bytes.

    Returns:
        bool: whether it needs Pillow. False for Huffman-coded RGB and greyscale JPEGs.

    Raises:
        As `decode_with_pillow`.
    """
    with _open(encoded) as image:
        _to_rgb(image)
        # A JPEG with several pictures inside (phones write them) opens as MPO; its first is an ordinary JPEG.
        return not (image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L") and _huffman_coded(encoded))


def stored_fault(encoded):
    """Why `decode_stored` can't read an image, or reads it otherwise than Pillow: str, or None for a good one.

    Args:
        encoded: bytes.
    """
    try:
        with _open(encoded) as image:
            kind = "JPEG" if image.format == "MPO" else image.format
        if kind not in ("JPEG", "PNG", "BMP", "GIF"):
            return f"{kind} in a record; JPEG, PNG, BMP and GIF are read there"
        return "JPEG that is not Huffman-coded RGB or grey" if inspect(encoded) and kind == "JPEG" else None
    except Exception as error:  # damaged images raise anything; the reason is reported with the record's place
        return f"{type(error).__name__}: {error}"


def _open(encoded):
    if not encoded:
        raise ValueError("the file is empty")
    image_module = require("PIL.Image", "Pillow", "reading image files")
    try:
        return image_module.open(io.BytesIO(encoded), formats=PILLOW_FORMATS)
    except image_module.UnidentifiedImageError as error:
        raise ValueError(f"not a readable file of the formats {', '.join(PILLOW_FORMATS)}") from error


def _to_rgb(image):
    if image.format == "TIFF" and image.tag_v2.get(258) == (12,):  # 258: bits per sample
        raise ValueError("12-bit pixels are not supported")
    image.load()
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and image.format == "PNG"):  # Pillow's own conversion clips at 255
        grey = np.asarray(image).astype("uint32")
        grey = ((grey * 255 + 32767) // 65535).astype("uint8")  # round(v / 257)
        return np.repeat(grey[..., None], 3, axis=-1)
    if mode in ("I", "F"):
        raise ValueError("32-bit pixels have no defined range")
    if mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        image = image.point(lambda ink: 255 - ink)  # Pillow takes every CMYK JPEG for an inverted one of Adobe's
    if mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # the same colours as straight to RGB, but without Pillow's warning
    return np.array(image.convert("RGB"))


def _huffman_coded(encoded):
    """Walks the JPEG segments up to the first frame header."""
    at = 2  # behind the start-of-image marker
    while at + 4 <= len(encoded) and encoded[at] == 0xFF:
        marker = encoded[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # those three are tables
            return marker in _HUFFMAN_FRAMES
        at += 2 + int.from_bytes(encoded[at + 2 : at + 4], "big")
    return False


def pillow_image(encoded):
    """`decode_with_pillow` inside a `tf.data` graph: scalar string to uint8 (height, width, 3)."""

    def decode(encoded):  # bytes in a graph, a 0-d object array in eager mode
        return decode_with_pillow(encoded if isinstance(encoded, bytes) else encoded.item())

    image = tf.numpy_function(decode, [encoded], tf.uint8, stateful=False)
    image.set_shape((None, None, 3))
    return image


def decode_jpeg(encoded):
    """A JPEG's pixels, equal to Pillow's for RGB and greyscale: scalar string to uint8 (height, width, 3)."""
    return tf.io.decode_jpeg(encoded, channels=3, dct_method=_DCT)


def decode_jpeg_window(encoded, draw):
    """Part of a JPEG, without decoding the rest.

    Pixels at the window's edge may differ a little from those of a full decode, where colour is stored at lower
    resolution than brightness.

    Args:
        encoded: scalar string, a JPEG.
        draw: function that maps the int32 shape (3,) to int32 (top, left, height, width).

    Returns:
        uint8 (height, width, 3).
    """
    window = draw(tf.io.extract_jpeg_shape(encoded))
    return tf.io.decode_and_crop_jpeg(encoded, window, channels=3, dct_method=_DCT)


def cut_window(image, draw):
    """The window of decoded pixels; `draw` as in `decode_jpeg_window`."""
    top, left, height, width = tf.unstack(draw(tf.shape(image)))
    return image[top : top + height, left : left + width]


def decode_stored(encoded):
    """A JPEG, PNG, BMP or GIF (first frame) as data sets store them: scalar string to uint8 (height, width, 3)."""
    image = tf.cond(
        tf.io.is_jpeg(encoded),
        lambda: decode_jpeg(encoded),
        lambda: tf.io.decode_image(encoded, channels=3, expand_animations=False),
    )
    image.set_shape((None, None, 3))
    return image
