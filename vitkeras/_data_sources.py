"""What `vitkeras.data.open_dataset` opens, in words: for help texts, which must not wait for TensorFlow."""

# The scheme before the colon -> how a spec of it is written.
SOURCES = {
    "folder": "folder:PATH",
    "csv": "csv:PATH",
    "tfds": "tfds:NAME",
    "tfrecord": "tfrecord:GLOB",
    "mock": "mock:HxWxK",
    "digits": "digits",
}
*_FIRST, _LAST = SOURCES.values()
LISTED = f"{', '.join(_FIRST)} or {_LAST}"
