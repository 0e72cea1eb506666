"""A 64-bit hash of what a picture looks like: nearly the same after a resize, a recompression or a mild crop.

Legend: n images, S = `SIDE` of the small grey picture, V views of it, K bits.
"""

import functools

import numpy as np

from vitkeras._tensorflow import tf

SIDE = 40
BITS = 64
# (top, left, side) in pixels of the small picture: all of it, its middle, and each corner with a tenth cut off. A crop
# of one picture is then near to a view of the other, whichever of the two was cropped.
VIEWS = ((0, 0, 40), (2, 2, 36), (4, 4, 32), (0, 0, 36), (0, 4, 36), (4, 0, 36), (4, 4, 36))
_LUMA = (0.299, 0.587, 0.114)  # of ITU-R BT.601, as JPEG's brightness
_ROUNDING = 0.1  # grey levels; a flat or symmetrical picture's coefficients are below it, and their bits are 0
_BATCH = 256


def perceptual_hashes(image_set):
    """Hashes every image of a set: of the whole picture and of mild crops, each as it is and mirrored.

    The picture becomes grey and S x S by averaging over areas. A bit says whether a coefficient of the cosine
    transform (DCT-II) is positive: of the 64 lowest frequencies above 0, in the order of `FREQUENCIES`.

    Args:
        image_set: `ImageSet`.

    Returns:
        (uint64 array (n, V, 2) of hashes, int32 array (n,) of labels), in the set's order. `[:, 0, 0]` are those of the
        whole picture, `[:, 1:]` of crops, `[..., 1]` of mirrored ones. The first bit is the lowest.

    Example:
        >>> hashes, labels = perceptual_hashes(open_dataset("digits").test)
        >>> hashes.shape, hashes.dtype, labels.shape
        ((360, 7, 2), dtype('uint64'), (360,))
    """

    def prepare(record):
        grey = tf.tensordot(tf.cast(image_set.image(record), tf.float32), tf.constant(_LUMA), 1)  # (height, width)
        return tf.image.resize(grey[..., None], (SIDE, SIDE), method="area")[..., 0], record["label"]

    batches = image_set.records().map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).batch(_BATCH)
    found = [(hash_views(grey), labels) for grey, labels in batches.prefetch(2).as_numpy_iterator()]
    hashes, labels = zip(*found)
    return np.concatenate(hashes), np.concatenate(labels).astype("int32")


def hash_views(grey):
    """The hashes of small grey pictures: (n, S, S) of 0...255 -> uint64 (n, V, 2).

    Example:
        >>> from vitkeras.data.perceptual_hash import SIDE, hash_views
        >>> ramp = np.tile(np.linspace(0, 255, SIDE), (1, SIDE, 1))      # brighter to the right
        >>> [int(hash_views(picture)[0, 0, 0]) & 1 for picture in (ramp, ramp[..., ::-1])]
        [0, 1]
    """
    rows, columns = FREQUENCIES.T
    # Mirroring turns the sign of the odd frequencies along a row.
    mirror = np.where(columns % 2, -1.0, 1.0)
    hashes = []
    for top, left, side in VIEWS:
        basis = _cosines(side)  # (frequencies, side)
        window = np.asarray(grey, "float64")[:, top : top + side, left : left + side]
        values = (basis @ window @ basis.T)[:, rows, columns]  # (n, K)
        hashes.append([_packed(values > _ROUNDING), _packed(values * mirror > _ROUNDING)])
    return np.array(hashes).transpose(2, 0, 1)  # (V, 2, n) -> (n, V, 2)


def _packed(bits):
    """bool (n, K) -> uint64 (n,)."""
    octets = np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little"))
    return octets.view("<u8")[:, 0].astype("uint64")


def unpacked(hashes):
    """uint64 (...) -> float32 (..., K) of -1 and 1, whose product of two hashes is K - 2 x the bits that differ."""
    octets = np.ascontiguousarray(hashes, "<u8")[..., None].view("uint8")
    return np.unpackbits(octets, axis=-1, bitorder="little").astype("float32") * 2 - 1


@functools.cache
def _cosines(side):
    """The orthonormal DCT-II up to the highest frequency used: (frequencies, side)."""
    angles = np.pi / side * np.outer(np.arange(FREQUENCIES.max() + 1), np.arange(side) + 0.5)
    scale = np.full((len(angles), 1), np.sqrt(2 / side))
    scale[0] = np.sqrt(1 / side)
    return np.cos(angles) * scale


def _lowest(count):
    """The (row, column) frequencies of the lowest u^2 + v^2, without (0, 0): int array (count, 2)."""
    pairs = [(u * u + v * v, u, v) for u in range(count) for v in range(count)]
    return np.array(sorted(pairs)[1 : count + 1])[:, 1:]


FREQUENCIES = _lowest(BITS)
