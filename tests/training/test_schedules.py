import numpy as np
import pytest

from vitkeras.training import WarmupDecay


@pytest.mark.parametrize("decay, prefix", [("cosine", "cos"), ("linear", "lin")])
@pytest.mark.parametrize("warmup", [0, 10])
def test_equals_the_original(golden, decay, prefix, warmup):
    arrays = golden("lr_schedule_golden")
    schedule = WarmupDecay(0.03, total_steps=100, warmup_steps=warmup, decay=decay)
    rates = [float(schedule(int(step))) for step in arrays["step"]]
    np.testing.assert_allclose(rates, arrays[f"{prefix}_w{warmup}"], rtol=0, atol=5e-9)


def test_a_wrong_warmup_is_seen(golden):
    arrays = golden("lr_schedule_golden")
    rates = np.array(WarmupDecay(0.03, 100, warmup_steps=9)(arrays["step"]))
    assert np.abs(rates - arrays["cos_w10"]).max() > 1e-4


def test_constant_and_config_round_trip():
    schedule = WarmupDecay(0.5, 13, warmup_steps=4, decay="constant")
    assert [float(schedule(s)) for s in (0, 1, 4, 12, 99)] == [0.0, 0.125, 0.5, 0.5, 0.5]
    again = WarmupDecay.from_config(schedule.get_config())
    assert again.get_config() == schedule.get_config() == vars(schedule)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(base=0.0, total_steps=5), "base must be > 0 and finite, received 0.0"),
        (dict(base=0.1, total_steps=5, decay="exp"), "decay must be one of .* received 'exp'"),
        (dict(base=0.1, total_steps=5, warmup_steps=5), r"warmup_steps must be in 0...4 .* received 5"),
        (dict(base=0.1, total_steps=5, warmup_steps=-1), "received -1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        WarmupDecay(**arguments)
