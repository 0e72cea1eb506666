"""Several hosts read one batch's slices; evaluation as big_vision does it."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from vitkeras.data import distribute_batches, eval_batches, open_dataset, train_batches
from vitkeras.data.resizing import resize_crop
from vitkeras.data.shares import Share
from vitkeras.data.stream_set import StreamSet


def take(batches, count):
    return [tuple(part.numpy() for part in batch) for batch in batches.take(count)]


@pytest.fixture(params=["indexed", "stream"])
def image_set(request, numbered):
    if request.param == "indexed":
        return numbered
    images = [tf.io.encode_png(image).numpy() for image in numbered._columns["image"]]
    columns = {"image": np.array(images, object), "label": numbered.labels}

    def make_records(start, stop):
        return tf.data.Dataset.from_tensor_slices({name: column[start:stop] for name, column in columns.items()})

    return StreamSet("stream", numbered.class_names, 13, make_records, shuffle_buffer=5)


QUICK = [(2, 0), (3, 4), (6, 0)]
OTHERS = [(2, 4), (3, 0), (6, 4)]


@pytest.mark.parametrize(
    "num_hosts, start_step", [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in OTHERS)]
)
def test_the_hosts_slices_are_the_batch(image_set, num_hosts, start_step):
    arguments = {"batch_size": 6, "image_size": (5, 7), "seed": 3, "start_step": start_step}
    whole = take(train_batches(image_set, **arguments), 7)
    slices = [take(train_batches(image_set, **arguments, num_hosts=num_hosts, host=h), 7) for h in range(num_hosts)]
    for step, (images, labels) in enumerate(whole):
        assert slices[0][step][0].shape == (6 // num_hosts, 5, 7, 3)
        np.testing.assert_array_equal(np.concatenate([host[step][0] for host in slices]), images)
        np.testing.assert_array_equal(np.concatenate([host[step][1] for host in slices]), labels)


def test_a_host_decodes_its_share_only(numbered):
    decoded = []

    class Watched(type(numbered)):
        def image(self, record):
            tf.py_function(lambda: decoded.append(1), [], [])
            return super().image(record)

    watched = Watched("watched", numbered.class_names, numbered._columns["image"], numbered.labels)
    batches = eval_batches(watched, 13, 4, num_hosts=13, host=2)
    assert len(take(batches, -1)) == 1 and len(decoded) == 1


@pytest.mark.parametrize("batch_size, num_hosts", [(6, 2), (6, 3), (20, 4), (13, 13)])
def test_evaluation_counts_every_image_once_over_the_hosts(image_set, batch_size, num_hosts):
    whole = take(eval_batches(image_set, batch_size, (4, 6)), -1)
    hosts = [
        take(eval_batches(image_set, batch_size, (4, 6), num_hosts=num_hosts, host=h), -1) for h in range(num_hosts)
    ]
    assert {len(host) for host in hosts} == {len(whole)}
    for step, batch in enumerate(whole):
        for part, values in enumerate(batch):
            np.testing.assert_array_equal(np.concatenate([host[step][part] for host in hosts]), values)


def test_streams_take_turns():
    numbers = tf.data.Dataset.range(12, 1000)  # from batch 2 on
    streams = [Share(6, 2, 1, streams=3, stream=s) for s in range(3)]
    got = [list(s.of_numbers(tf.data.Dataset.zip(numbers), 2).take(6).as_numpy_iterator()) for s in streams]
    assert [[int(number) for (number,) in one] for one in got] == [
        [21, 22, 23, 39, 40, 41],
        [27, 28, 29, 45, 46, 47],
        [15, 16, 17, 33, 34, 35],
    ]
    for share, one in zip(streams, got):
        assert [n for n in range(12, 48) if share.holds(n)] == [int(number) for (number,) in one]


TWO_REPLICAS = """
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from vitkeras.data import distribute_batches, open_dataset, train_batches
train = open_dataset("mock:5x7x3").train
make = lambda **hosts: train_batches(train, 6, 4, seed=1, **hosts)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
iterator = iter(distribute_batches(strategy, make, 6))
for images, labels in make().take(3):
    parts = [[part.numpy() for part in strategy.experimental_local_results(value)] for value in next(iterator)]
    assert [len(part) for part in parts[0]] == [3, 3]
    for part, whole in zip(parts, (images, labels)):
        np.testing.assert_array_equal(np.concatenate(part), whole.numpy())
print("equal")
"""


def test_replicas_of_one_worker_share_the_batch():
    """In a process of its own, since logical devices are set before TensorFlow starts."""
    done = subprocess.run([sys.executable, "-c", TWO_REPLICAS], capture_output=True, text=True)
    assert done.stdout.split() == ["equal"], done.stderr[-2000:]


def test_each_worker_gets_its_slice(numbered):
    """Two workers, played by a strategy that asks as a worker's would."""

    class Worker:
        num_replicas_in_sync = 4

        def __init__(self, number):
            self.number = number

        def distribute_datasets_from_function(self, function):
            return function(tf.distribute.InputContext(2, self.number, self.num_replicas_in_sync))

    def make(**hosts):
        return train_batches(numbered, 8, 4, seed=1, **hosts)

    for step, (images, labels) in enumerate(take(make(), 2)):
        got = [take(distribute_batches(Worker(number), make, 8), 4)[2 * step : 2 * step + 2] for number in (0, 1)]
        np.testing.assert_array_equal(np.concatenate([part for worker in got for part, _ in worker]), images)
        np.testing.assert_array_equal(np.concatenate([part for worker in got for _, part in worker]), labels)


def test_distributed_batches_of_the_wrong_size():
    class Strategy:
        num_replicas_in_sync = 4

    with pytest.raises(ValueError, match="batch_size must be a multiple of the 4 replicas, received 6"):
        distribute_batches(Strategy(), None, 6)


def test_only_whole_batches_are_split_automatically(numbered):
    policy = tf.data.experimental.AutoShardPolicy
    for hosts, expected in (({}, policy.DATA), ({"num_hosts": 2, "host": 1}, policy.OFF)):
        for batches in (train_batches(numbered, 6, 4, **hosts), eval_batches(numbered, 6, 4, **hosts)):
            assert batches.options().experimental_distribute.auto_shard_policy == expected


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ({"num_hosts": 0}, "num_hosts must be an integer >= 1 .*, received 0"),
        ({"host": -1}, "host must be an integer >= 0 .*, received -1"),
        ({"num_hosts": 2, "host": 2}, "host must be below num_hosts=2, received 2"),
        ({"num_hosts": 4}, "batch_size must be a multiple of num_hosts=4, received 6"),
    ],
)
def test_hosts_out_of_range(numbered, hosts, message):
    for make in (train_batches, eval_batches):
        with pytest.raises(ValueError, match=message):
            make(numbered, 6, 4, **hosts)


@pytest.mark.parametrize(
    ("size", "image", "smaller"), [(224, (300, 401), 256), (384, (500, 467), 448), (29, (53, 97), 33)]
)
def test_resize_crop_is_the_middle_of_the_larger_image(rng, size, image, smaller):
    pixels = rng.integers(0, 256, (*image, 3), dtype="uint8")
    factor = smaller / min(image)
    height, width = (round(side * factor) for side in image)
    larger = np.floor(tf.image.resize(pixels, (height, width), method="area"))
    top, left = (height - size) // 2, (width - size) // 2
    got = resize_crop(tf.constant(pixels), (size, size))
    np.testing.assert_array_equal(got, larger[top : top + size, left : left + size])


def test_resize_crop_averages_over_areas():
    """Each target pixel of a reduction by a whole number is the mean of its block, rounded down."""
    y, x = np.mgrid[0:66, 0:66]
    image = np.repeat((3 * x + y)[..., None], 3, -1).astype("uint8")
    got = resize_crop(tf.constant(image), (29, 29)).numpy()  # 66 -> 33 -> the middle 29
    blocks = image.astype(float).reshape(33, 2, 33, 2, 3).mean((1, 3))
    np.testing.assert_array_equal(got, np.floor(blocks)[2:31, 2:31])


@pytest.mark.parametrize("image", [(7, 301), (301, 7), (224, 224), (1, 1)])
@pytest.mark.parametrize("size", [(224, 224), (31, 67), (67, 31)])
def test_resize_crop_of_any_shape(image, size):
    got = resize_crop(tf.fill((*image, 3), tf.constant(93, tf.uint8)), size)
    # A mean may come out a rounding error below 93, and whole values are rounded down, as big_vision's cast does.
    assert got.shape == (*size, 3) and set(np.unique(got)) <= {92, 93}


def test_evaluation_with_the_crop(make_folder):
    files = open_dataset(f"folder:{make_folder(dict.fromkeys(['a/0.jpg', 'a/1.jpg', 'b/0.png', 'b/1.jpg']))}").train
    images, _, _ = take(eval_batches(files, 2, (11, 17), preprocessing="resize_crop"), 1)[0]
    want = [resize_crop(files.image(record), (11, 17)) for record in files.records()]
    np.testing.assert_allclose(images * 127.5 + 127.5, want, atol=1e-4)
    with pytest.raises(ValueError, match="preprocessing must be one of resize, resize_crop, received 'crop'"):
        eval_batches(files, 2, 8, preprocessing="crop")
