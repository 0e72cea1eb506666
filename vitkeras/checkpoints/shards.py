"""A checkpoint in several `.safetensors` files with an index, as Hugging Face's library writes large models."""

import json
import os
import re

from vitkeras.checkpoints.array_file import MAX_ARRAYS, ArrayFile
from vitkeras.checkpoints.safetensors import SafetensorsFile
from vitkeras.checkpoints.settings import unique_keys

INDEX_SUFFIX = ".safetensors.index.json"
MAX_INDEX_BYTES = 2**24  # some 100 bytes an array; a ViT has a few hundred
MAX_SHARDS = 256  # each is an open file
_SHARD_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.safetensors")


class ShardedFile(ArrayFile):
    """Shards that hold exactly the arrays that their index says, each in the shard that it says.

    Args:
        path: str or path-like, the index.

    Raises:
        FileNotFoundError: if the index or one of its shards isn't there.
        ValueError: if the index is too large, damaged, names files outside its folder, or doesn't tell the truth; and
            for shards that `SafetensorsFile` refuses.

    Example:
        >>> with ShardedFile("model.safetensors.index.json") as file:    # doctest: +SKIP
        ...     len(file.headers)
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self._shards, self._owners, self.headers = {}, {}, {}
        wanted = self._read_index()
        try:
            for shard, names in wanted.items():
                self._open(shard, names)
        except BaseException:
            self.close()
            raise

    def _read_index(self):
        """{shard's file name: set of the names of its arrays}."""
        if not os.path.isfile(self.path):
            raise FileNotFoundError(f"checkpoint {self.path!r} is not a file.")
        size = os.path.getsize(self.path)
        if size > MAX_INDEX_BYTES:
            raise ValueError(
                f"checkpoint {self.path!r}: an index must have at most {MAX_INDEX_BYTES} bytes, received {size}."
            )
        with open(self.path, "rb") as stream:
            try:
                index = json.loads(stream.read().decode("utf-8"), object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"checkpoint {self.path!r} is damaged or no index ({error}).") from error
        table = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(table, dict) or not 0 < len(table) <= MAX_ARRAYS:
            raise ValueError(
                f"checkpoint {self.path!r}: an index must hold a weight_map of 1 to {MAX_ARRAYS} arrays, received "
                f"{len(table) if isinstance(table, dict) else type(table).__name__}."
            )
        wanted = {}
        for name, shard in table.items():
            if not isinstance(shard, str) or not _SHARD_NAME.fullmatch(shard):
                raise ValueError(
                    f"checkpoint {self.path!r}, array {name!r}: its shard must be the name of a .safetensors file in "
                    f"the same folder, received {shard!r}."
                )
            wanted.setdefault(shard, set()).add(name)
        if len(wanted) > MAX_SHARDS:
            raise ValueError(f"checkpoint {self.path!r} must have at most {MAX_SHARDS} shards, received {len(wanted)}.")
        return wanted

    def _open(self, shard, names):
        path = os.path.join(os.path.dirname(self.path), shard)
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"checkpoint {self.path!r} keeps {len(names)} of its arrays in {shard!r}, which is not there."
            )
        file = self._shards[shard] = SafetensorsFile(path)
        missing, more = sorted(names - set(file.headers)), sorted(set(file.headers) - names)
        if missing or more:
            fault = f"has no array {missing[0]!r}" if missing else f"holds the array {more[0]!r}"
            raise ValueError(
                f"checkpoint {self.path!r}: shard {shard!r} {fault}, its index says otherwise (in all {len(missing)} "
                f"missing, {len(more)} unexpected)."
            )
        for name in file.headers:
            self._owners[name] = file
        self.headers |= file.headers

    def blocks(self, name, parts=1, multiple=1):
        """Yields the array in pieces, from its shard."""
        return self._owners[name].blocks(name, parts, multiple)

    def close(self):
        """Closes every shard."""
        for file in self._shards.values():
            file.close()
