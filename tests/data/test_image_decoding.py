"""Every kind of file becomes the right RGB pixels, by Pillow's decoder or by TensorFlow's."""

import io
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from vitkeras.data import open_dataset
from vitkeras.data.images import decode_jpeg, decode_jpeg_window, decode_stored, decode_with_pillow, inspect


def encode(image, kind, **options):
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png16(values):
    """A 16-bit PNG, written by hand: Pillow writes none in colour. uint16 (H, W) or (H, W, 3)."""
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, 0 if values.ndim == 2 else 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def grey(values):
    return np.repeat(values[..., None], 3, axis=-1)


def shortest_palette(picture):
    return Image.fromarray(picture).quantize(17)


def test_colour_and_alpha(picture, rng):
    alpha = rng.integers(0, 256, picture.shape[:2], dtype="uint8")
    rgba, la = np.dstack([picture, alpha]), np.dstack([picture[..., 0], alpha])
    for kind, options in (("PNG", {}), ("BMP", {}), ("TIFF", {}), ("WEBP", {"lossless": True})):
        np.testing.assert_array_equal(decode_with_pillow(encode(picture, kind, **options)), picture)
    np.testing.assert_array_equal(decode_with_pillow(encode(rgba, "PNG")), picture)
    np.testing.assert_array_equal(decode_with_pillow(encode(rgba, "TIFF")), picture)
    np.testing.assert_array_equal(decode_with_pillow(encode(Image.fromarray(la, "LA"), "PNG")), grey(picture[..., 0]))


def test_greyscale_and_one_bit(picture):
    level = picture[..., 1]
    np.testing.assert_array_equal(decode_with_pillow(encode(level, "PNG")), grey(level))
    bits = Image.fromarray(level).point(lambda v: 255 * (v > 99), mode="1")
    np.testing.assert_array_equal(decode_with_pillow(encode(bits, "PNG")), grey(np.where(level > 99, 255, 0)))


@pytest.mark.parametrize("transparency", [None, 3, bytes(range(0, 255, 15))])
def test_palettes_become_their_colours(picture, transparency):
    image = shortest_palette(picture)
    colours = np.array(image.getpalette()[: 17 * 3], "uint8").reshape(17, 3)
    options = {} if transparency is None else {"transparency": transparency}
    decoded = decode_with_pillow(encode(image, "PNG", **options))  # must not warn either
    np.testing.assert_array_equal(decoded, colours[np.asarray(image)])


def test_cmyk_jpeg_with_and_without_the_inversion_of_adobe():
    flat = np.zeros((16, 24, 4), "uint8")
    flat[:] = 200, 40, 0, 25  # cyan, magenta, yellow, key
    want = [(255 - ink) * (255 - 25) / 255 for ink in (200, 40, 0)]
    encoded = encode(Image.fromarray(flat, "CMYK"), "JPEG", quality=100)
    assert inspect(encoded) is True
    np.testing.assert_allclose(decode_with_pillow(encoded)[3, 5], want, atol=2)
    # Without the APP14 segment the stored numbers are inks, not their complements.
    start = encoded.index(b"\xff\xee")
    plain = encoded[:start] + encoded[start + 2 + int.from_bytes(encoded[start + 2 : start + 4], "big") :]
    inverted = [(255 - (255 - ink)) * (255 - (255 - 25)) / 255 for ink in (200, 40, 0)]
    np.testing.assert_allclose(decode_with_pillow(plain)[3, 5], inverted, atol=2)


def test_grey_16_bit_is_scaled_and_not_clipped():
    values = np.array([[0, 1, 128, 129, 255, 256], [257, 385, 386, 32768, 65406, 65535]], "uint16")
    want = grey(np.rint(values / 257).astype("uint8"))
    assert want[1, 3, 0] == 128
    for encoded in (png16(values), encode(values, "PNG"), encode(values, "TIFF")):
        np.testing.assert_array_equal(decode_with_pillow(encoded), want)
    big_endian = Image.fromarray(values.astype(">u2"))
    assert big_endian.mode == "I;16B"
    np.testing.assert_array_equal(decode_with_pillow(encode(big_endian, "TIFF")), want)


def test_colour_16_bit_keeps_the_high_byte(rng):
    values = rng.integers(0, 65536, (7, 5, 3), dtype="uint16")
    np.testing.assert_array_equal(decode_with_pillow(png16(values)), (values >> 8).astype("uint8"))


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP"])
def test_the_first_of_several_frames(picture, kind):
    frames = [Image.new("RGB", (11, 7), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    encoded = encode(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert Image.open(io.BytesIO(encoded)).n_frames == 3
    np.testing.assert_array_equal(decode_with_pillow(encoded), np.broadcast_to([255, 0, 0], (7, 11, 3)))


def test_exif_orientation_is_ignored_by_both_decoders(picture):
    exif = Image.Exif()
    exif[274] = 6  # turn by 90 degrees
    encoded = encode(picture, "JPEG", exif=exif)
    assert decode_with_pillow(encoded).shape == picture.shape
    assert decode_jpeg(encoded).shape == picture.shape


def test_tensorflow_reads_the_jpegs_marked_for_it_exactly_as_pillow(picture):
    variants = [
        encode(picture, "JPEG", quality=quality, subsampling=subsampling, progressive=progressive)
        for quality in (30, 95)
        for subsampling in (0, 1, 2)
        for progressive in (False, True)
    ]
    variants += [encode(picture[..., 0], "JPEG"), encode(picture, "JPEG", keep_rgb=True)]
    variants += [variants[0] + b"bytes behind the end"]
    for encoded in variants:
        assert inspect(encoded) is False
        np.testing.assert_array_equal(decode_jpeg(encoded).numpy(), decode_with_pillow(encoded))
    # The comparison sees the faster transform that TensorFlow uses by default.
    assert (tf.io.decode_jpeg(variants[0], channels=3).numpy() != decode_with_pillow(variants[0])).any()


def test_a_jpeg_with_several_pictures_is_marked_for_tensorflow(picture):
    other = Image.fromarray(picture[:, ::-1])
    encoded = encode(picture, "MPO", save_all=True, append_images=[other])
    assert Image.open(io.BytesIO(encoded)).format == "MPO" and inspect(encoded) is False
    np.testing.assert_array_equal(decode_jpeg(encoded).numpy(), decode_with_pillow(encoded))


def test_what_pillow_accepts_tensorflow_reads_alike(picture, rng):
    """Bytes of a JPEG changed at random: accepted by both with equal pixels, or refused on opening."""
    original, accepted = encode(picture, "JPEG", quality=90), 0
    for _ in range(300):
        damaged = bytearray(original)
        damaged[rng.integers(2, len(damaged))] = rng.integers(256)
        try:
            needs_pillow = inspect(bytes(damaged))
        except (ValueError, OSError, SyntaxError):
            continue
        if not needs_pillow:
            accepted += 1
            np.testing.assert_array_equal(decode_jpeg(bytes(damaged)).numpy(), decode_with_pillow(bytes(damaged)))
    assert 150 < accepted < 300


@pytest.mark.parametrize("frame", [0xC3, 0xC9, 0xCA])
def test_frames_that_not_every_build_decodes_are_left_to_pillow(picture, frame):
    from vitkeras.data.images import _huffman_coded

    encoded = encode(picture, "JPEG")
    at = encoded.index(b"\xff\xc0")
    assert _huffman_coded(encoded)
    assert not _huffman_coded(encoded[: at + 1] + bytes([frame]) + encoded[at + 2 :])
    assert _huffman_coded(encoded[:at] + b"\xff" + encoded[at:])  # padding before a marker
    assert not _huffman_coded(encoded[:at])


def test_window_of_a_jpeg_is_that_part_of_it(picture):
    encoded = encode(picture, "JPEG", subsampling=0)  # full colour resolution: exact at the edges too
    shapes = []

    def draw(shape):
        shapes.append(shape.numpy().tolist())
        return tf.constant([5, 3, 11, 13])

    np.testing.assert_array_equal(
        decode_jpeg_window(encoded, draw).numpy(), decode_with_pillow(encoded)[5 : 5 + 11, 3 : 3 + 13]
    )
    assert shapes == [list(picture.shape)]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "JPEG"])
def test_images_stored_in_data_sets(picture, kind):
    image = shortest_palette(picture) if kind == "GIF" else Image.fromarray(picture)
    encoded = encode(image, kind)
    np.testing.assert_array_equal(decode_stored(encoded).numpy(), decode_with_pillow(encoded))


def test_twelve_bit_tiff_is_refused(picture):
    encoded = bytearray(encode(Image.fromarray(picture[..., 0].astype("uint16")), "TIFF"))
    at = encoded.index(struct.pack("<HHIH", 258, 3, 1, 16))
    encoded[at + 8] = 12
    with pytest.raises(ValueError, match="12-bit pixels are not supported"):
        decode_with_pillow(bytes(encoded))


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"", "the file is empty"),
        (b"notes, not an image", "not a readable file of the formats JPEG, PNG, BMP, GIF, WEBP, TIFF"),
        (encode(np.ones((3, 5), "int32"), "TIFF"), "32-bit pixels have no defined range"),
        (encode(np.ones((3, 5), "float32"), "TIFF"), "32-bit pixels have no defined range"),
        # A format outside the list is not even tried: Pillow's EPS reader starts another program.
        (encode(np.ones((3, 5, 3), "uint8"), "EPS"), "not a readable file of the formats"),
    ],
)
def test_what_is_no_image_is_an_error(encoded, message):
    with pytest.raises(ValueError, match=message):
        decode_with_pillow(encoded)


def test_truncated_files_are_errors(picture):
    for kind in ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP"):
        encoded = encode(picture, kind)
        with pytest.raises((ValueError, OSError, SyntaxError)):
            inspect(encoded[: len(encoded) // 2])
    with pytest.raises(OSError, match="truncated"):
        inspect(encode(picture, "JPEG")[:-2])


def test_a_folder_of_mixed_files_gives_pillows_pixels(make_folder, picture):
    ink = Image.fromarray(picture).convert("CMYK")
    files = {
        "a/plain.jpg": None,
        "a/palette.gif": shortest_palette(picture),
        "a/deep.png": png16(picture[..., 0].astype("uint16") * 250),
        "a/alpha.webp": Image.fromarray(picture).convert("RGBA"),
        "b/ink.JPEG": ink,
        "b/grey.jpg": Image.fromarray(picture[..., 2]),
        "b/really_a_png.jpg": encode(picture, "PNG"),
    }
    root = make_folder(files)
    splits = open_dataset(f"folder:{root}", test_fraction=0.3)
    seen = {}
    for part in (splits.train, splits.test):
        for path, record in zip(part.paths, part.records()):
            with open(path, "rb") as file:
                encoded = file.read()
            want = decode_with_pillow(encoded)
            np.testing.assert_array_equal(part.image(record).numpy(), want)
            window = part.window(record, lambda shape: tf.constant([0, 0, 17, 11])).numpy()
            assert window.shape == (17, 11, 3)
            np.testing.assert_allclose(window[1:-2, 1:-2], want[1:15, 1:9], atol=0)
            seen[path.removeprefix(f"{root}/")] = bool(record["needs_pillow"])
    assert seen == {name: name not in ("a/plain.jpg", "b/grey.jpg") for name in files}


def test_the_graph_has_python_in_it_only_where_a_file_needs_it(make_folder, picture):
    jpegs = make_folder({f"{part}/{name}": None for part in "ab" for name in ("1.jpg", "2.jpg")}, "jpegs")
    mixed = make_folder({"a/1.jpg": None, "a/2.jpg": None, "b/1.png": None, "b/2.png": None}, "mixed")
    pngs = make_folder({f"{part}/{name}": None for part in "ab" for name in ("1.png", "2.png")}, "pngs")

    def operations(root):
        train = open_dataset(f"folder:{root}", test_fraction=0.5).train
        record = next(iter(train.records()))
        graph = tf.function(train.image).get_concrete_function(record).graph.as_graph_def()
        nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
        return {node.op for node in nodes}

    python = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
    assert "DecodeJpeg" in operations(jpegs) and not python & operations(jpegs)
    assert "DecodeJpeg" in operations(mixed) and python & operations(mixed)
    assert "DecodeJpeg" not in operations(pngs) and python & operations(pngs)
