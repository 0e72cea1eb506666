"""One device, two replicas, two worker processes and micro-batches make the same run."""

import json

import distributed_run
import numpy as np
import pytest
from processes import Started, finish_all, free_ports

pytestmark = pytest.mark.slow


def start(folder, *strategy, tf_config=None):
    environment = {"TF_CONFIG": json.dumps(tf_config)} if tf_config else None
    return Started(distributed_run.run_all, folder, *strategy, environment=environment)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(group, setting, strategy) -> arrays."""
    folder = tmp_path_factory.mktemp("runs")
    finish_all([start(folder)], 3600)
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    finish_all(
        [
            start(folder, "multiworker", tf_config={"cluster": cluster, "task": {"type": "worker", "index": index}})
            for index in range(2)
        ],
        3600,
    )
    results = {}
    for path in folder.glob("*.npz"):
        with np.load(path) as file:
            results[tuple(path.stem.split("."))] = {name.replace("|", "/"): file[name] for name in file.files}
    return results


def of_group(runs, group):
    """(reference, [(name, arrays) of the others])."""
    members = {key: arrays for key, arrays in runs.items() if key[0] == group}
    reference = members.pop((group, group, "default"))
    return reference, sorted(members.items())


@pytest.mark.parametrize("group, others", [("plain", 3), ("clip", 10), ("adamw", 4)])
def test_losses_and_metrics_agree(runs, group, others):
    reference, members = of_group(runs, group)
    assert len(members) == others
    for key, arrays in members:
        np.testing.assert_allclose(arrays["losses"], reference["losses"], rtol=0, atol=1e-6, err_msg=str(key))
        np.testing.assert_allclose(arrays["metrics"], reference["metrics"], rtol=0, atol=1e-6, err_msg=str(key))
    assert reference["losses"].shape == (8,) and reference["metrics"][:, 2].tolist() == [50, 50]
    assert abs(reference["metrics"][0, 0] - reference["metrics"][1, 0]) > 1e-4  # the average isn't the weights


@pytest.mark.parametrize("group", ["plain", "clip"])
def test_weights_momentum_and_average_agree(runs, group):
    # Not of AdamW: a key's bias has the gradient zero, and Adam makes steps of full length from its rounding errors.
    reference, members = of_group(runs, group)
    for key, arrays in members:
        assert set(arrays) == set(reference)
        for name, array in reference.items():
            # A momentum is a sum of up to eight gradients that may be large, and float32 has seven digits.
            atol = 1e-6 * max(1, np.abs(array).max())
            np.testing.assert_allclose(arrays[name], array, rtol=0, atol=atol, err_msg=f"{key} {name}")
    assert reference["optimizer/momentum_sgd/iteration"] == 8


def test_the_groups_themselves_differ(runs):
    last = [of_group(runs, group)[0]["losses"][-1] for group in ("plain", "clip", "adamw")]
    assert min(abs(a - b) for a in last for b in last if a != b) > 1e-4 and len(set(last)) == 3


def test_replicas_drop_different_units(runs):
    losses = {}
    for rate in ("rate_0.0", "rate_0.3"):
        mirrored = runs["replicas", "dropout", "mirrored"][rate]
        workers = [runs["replicas", "dropout", f"multiworker{i}"][rate] for i in range(2)]
        losses[rate] = mirrored, np.concatenate(workers), runs["replicas", "dropout", "default"][rate]
    for pair in losses["rate_0.0"][:2]:  # the same examples: without dropout, the same losses
        assert pair.shape == (2,) and abs(pair[0] - pair[1]) < 1e-6
    for pair in losses["rate_0.3"][:2]:
        assert abs(pair[0] - pair[1]) > 1e-3
    mirrored, workers, single = losses["rate_0.3"]
    np.testing.assert_allclose(workers, mirrored, rtol=0, atol=1e-6)  # a replica is one, on whichever host it runs
    np.testing.assert_allclose(mirrored[0], single[0], rtol=0, atol=1e-6)
