"""tf.data service with dispatchers and workers in this process."""

import time

import numpy as np
import pytest
import tensorflow as tf

from vitkeras.data import open_dataset, train_batches

service = tf.data.experimental.service


@pytest.fixture
def start():
    """Function: number of workers -> address of a dispatcher."""
    servers = []

    def start(workers=1):
        dispatcher = service.DispatchServer()
        servers.append(dispatcher)
        for _ in range(workers):
            address = dispatcher.target.removeprefix("grpc://")
            servers.append(service.WorkerServer(service.WorkerConfig(dispatcher_address=address)))
        return dispatcher.target

    yield start
    for server in reversed(servers):
        server._stop()


def take(batches, count):
    return [tuple(part.numpy() for part in batch) for batch in batches.take(count)]


def same(first, second):
    return all((a == b).all() for x, y in zip(first, second, strict=True) for a, b in zip(x, y))


@pytest.fixture
def jpegs(make_folder):
    names = [f"train/{c}/{i}.jpg" for c in "ab" for i in range(5)]
    return open_dataset(f"folder:{make_folder(dict.fromkeys([*names, 'test/a/0.jpg']))}").train


@pytest.mark.parametrize("dispatchers", [1, 2, 3])
def test_the_batches_are_those_of_this_host(jpegs, start, dispatchers):
    addresses = [start() for _ in range(dispatchers)]
    here = take(train_batches(jpegs, 4, (11, 17), seed=3), 8)
    assert same(take(train_batches(jpegs, 4, (11, 17), seed=3, service=",".join(addresses)), 8), here)
    resumed = train_batches(jpegs, 4, (11, 17), seed=3, start_step=4, service=addresses)
    assert resumed.element_spec == train_batches(jpegs, 4, (11, 17)).element_spec
    assert same(take(resumed, 4), here[4:])
    host = take(train_batches(jpegs, 4, (11, 17), seed=3, num_hosts=2, host=1, service=addresses), 3)
    assert same(host, [(images[2:], labels[2:]) for images, labels in here[:3]])


def test_two_workers_behind_one_dispatcher_are_found_out(numbered, start):
    batches = train_batches(numbered, 4, 8, service=start(workers=2))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="each dispatcher of the tf.data service must have exactly"
    ):
        end = time.monotonic() + 60  # the second worker's batches come once the reader has heard of it
        for _ in batches:
            if time.monotonic() > end:
                break


def test_mixup_by_the_service(start):
    from vitkeras.data import Augmentation

    splits = open_dataset("mock:9x7x5")
    arguments = {"seed": 1, "augment": Augmentation(mixup=0.3)}
    here = take(train_batches(splits.train, 4, 8, **arguments), 5)
    there = take(train_batches(splits.train, 4, 8, **arguments, service=(start(), start())), 5)
    assert same(there, here) and here[0][1].shape == (4, 5)


def test_images_that_need_pillow_are_refused(make_folder):
    names = ["train/a/0.jpg", "train/a/1.png", "train/b/0.png", "test/a/0.jpg"]
    train = open_dataset(f"folder:{make_folder(dict.fromkeys(names))}").train
    with pytest.raises(
        ValueError, match="service decodes what TensorFlow's JPEG .* has 2 images that need Pillow; turn"
    ):
        train_batches(train, 2, 8, service="grpc://localhost:1")


@pytest.mark.parametrize(
    "address", ["", "localhost:5050", "grpc://localhost", "grpc://:50", "grpc://a:x", 5050, [], [3]]
)
def test_addresses_that_are_refused(numbered, address):
    with pytest.raises(ValueError, match="service must be addresses such as grpc://host:5050, received"):
        train_batches(numbered, 2, 8, service=address)


def test_one_address_twice(numbered):
    with pytest.raises(ValueError, match="service must name each address once, received 'grpc://a:1, grpc://a:1'"):
        train_batches(numbered, 2, 8, service="grpc://a:1, grpc://a:1")
    assert np.isfinite(next(iter(train_batches(numbered, 2, 8)))[0]).all()
