import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name("distributed_run.py")


@pytest.fixture(scope="module")
def runs():
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_one_device_and_two_replicas_agree(runs):
    assert sorted({r["replicas"] for r in runs}) == [1, 2]
    assert len(runs) == 18
    by_setting = {}
    for result in runs:
        by_setting.setdefault(tuple(result["setting"]), []).append(result)
    for setting, group in by_setting.items():
        for result in group[1:]:
            np.testing.assert_allclose(result["losses"], group[0]["losses"], rtol=0, atol=1e-6, err_msg=str(setting))
            assert result["metrics"]["count"] == 50
            assert abs(result["metrics"]["loss"] - group[0]["metrics"]["loss"]) < 1e-6
            assert result["steps"] == 8


@pytest.mark.slow
def test_the_settings_themselves_differ(runs):
    last = {tuple(r["setting"]): r["losses"][-1] for r in runs}
    assert min(abs(a - b) for a in last.values() for b in last.values() if a != b) > 1e-4
    assert len(set(last.values())) == 4
