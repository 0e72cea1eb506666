"""Which examples of a global batch this host reads, and which of the batches.

Legend: B global batch size, h hosts, s streams; the *global index* of a training example is step x B + its place in
the batch.
"""

from dataclasses import dataclass

from vitkeras._tensorflow import tf
from vitkeras.data.arguments import check_count
from vitkeras.data.image_set import FOREVER


@dataclass(frozen=True)
class Share:
    """A contiguous slice of each batch, of every s-th batch.

    Args:
        batch_size: int >= 1, B.
        num_hosts: int >= 1, a divisor of B. Default 1.
        host: int in 0...num_hosts - 1, whose slice. Default 0.
        streams: int >= 1: batches `stream`, `stream + s`, `stream + 2 s`, ... belong to the share. Default 1.
        stream: int in 0...streams - 1. Default 0.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> share = Share(6, num_hosts=3, host=1)
        >>> share.size, [index for index in range(12) if share.holds(index)]
        (2, [2, 3, 8, 9])
    """

    batch_size: int
    num_hosts: int = 1
    host: int = 0
    streams: int = 1
    stream: int = 0

    def __post_init__(self):
        check_count("batch_size", self.batch_size, least=1)
        check_count("num_hosts", self.num_hosts, least=1)
        check_count("host", self.host, least=0)
        if self.host >= self.num_hosts:
            raise ValueError(f"host must be below num_hosts={self.num_hosts}, received {self.host}.")
        if self.batch_size % self.num_hosts:
            raise ValueError(
                f"batch_size must be a multiple of num_hosts={self.num_hosts}, received {self.batch_size}."
            )

    @property
    def size(self):
        """Examples of the share in one batch, B / h."""
        return self.batch_size // self.num_hosts

    @property
    def is_whole(self):
        """Whether the share holds everything."""
        return self.num_hosts == self.streams == 1

    def holds(self, index):
        """Whether the example with this global index (int or integer tensor) belongs to the share."""
        in_slice = index % self.batch_size // self.size == self.host
        return in_slice & (index // self.batch_size % self.streams == self.stream)

    def of_numbers(self, numbers, first_batch=0):
        """The share of a cheap endless data set, one element an example; its first batch has number `first_batch`."""
        if self.is_whole:
            return numbers
        begin = self.host * self.size
        batches = numbers.batch(self.batch_size, drop_remainder=True)
        if self.streams > 1:
            batches = batches.shard(self.streams, (self.stream - first_batch) % self.streams)
        return batches.map(lambda *parts: tuple(part[begin : begin + self.size] for part in parts)).unbatch()

    def steps(self, first_batch):
        """The numbers of the share's batches from `first_batch` on, an endless `tf.data.Dataset` of int64."""
        ahead = (self.stream - first_batch) % self.streams
        return tf.data.Dataset.range(first_batch + ahead, FOREVER, self.streams)
