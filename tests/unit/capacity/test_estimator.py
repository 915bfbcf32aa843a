"""The model of a running node, from counters made with known coefficients."""

import random

import pytest

from shoal.capacity import Estimator, Model
from shoal.capacity.estimator import Load

T_RCV, T_EVAL, T_TX, T_BYTE = 2e-6, 3e-8, 5e-7, 2e-10


def run(estimator: Estimator, seconds: int, vary: bool, rate: int = 100_000) -> object:
    draw = random.Random(5)
    received = evaluated = delivered = size = 0
    cpu_s = 0.0
    estimate = None
    for second in range(seconds):
        estimate = estimator.update(
            float(second),
            Load(
                received=received,
                evaluated=evaluated,
                delivered=delivered,
                bytes=size,
                cpu_ns=round(cpu_s * 1e9),
            ),
        )
        n = draw.randrange(1, 50) if vary else 10
        r = draw.randrange(0, 8) if vary else 2
        body = draw.randrange(64, 4096) if vary else 256
        received += rate
        evaluated += n * rate
        delivered += r * rate
        size += body * rate
        cpu_s += rate * (T_RCV + n * T_EVAL + r * T_TX + body * T_BYTE)
    return estimate


def test_traffic_that_varies_gives_the_coefficients() -> None:
    found = run(Estimator(), 60, vary=True)
    assert found.coefficients == pytest.approx((T_RCV, T_EVAL, T_TX, T_BYTE), rel=1e-3)
    assert found.why is None
    assert found.headroom == pytest.approx(1 / found.load)


def test_steady_traffic_says_that_it_does_not_vary_enough() -> None:
    found = run(Estimator(), 60, vary=False)
    assert found.coefficients is None
    assert found.why == "not enough variation"
    # What a message costs is known all the same.
    assert found.processing_s == pytest.approx(T_RCV + 10 * T_EVAL + 2 * T_TX + 256 * T_BYTE, rel=1e-6)


def test_until_the_traffic_varied_the_packaged_model_is_assumed_and_scaled_to_this_node() -> None:
    model = Model(form="evaluations", coefficients=(4e-6, 6e-8, 1e-6, 4e-10))
    for seconds, why in ((3, "2 of 10 s measured"), (60, "not enough variation")):
        found = run(Estimator(model), seconds, vary=False)
        # This node is twice as fast as the one that the model is of.
        assert found.assumed == pytest.approx((T_RCV, T_EVAL, T_TX, T_BYTE), rel=1e-6)
        assert (found.coefficients, found.why) == (None, why)
        assert found.mean_wait_s > 0
    assert run(Estimator(model), 60, vary=True).assumed is None


def test_the_packaged_model_is_one_of_a_router() -> None:
    model = Model.packaged()
    assert (model.contestant, model.form) == ("routed", "evaluations")
    assert model.coefficients[0] > 0
    assert model.coefficients[2] > 0


def test_a_quiet_node_says_so() -> None:
    estimator = Estimator()
    quiet = Load(received=0, evaluated=0, delivered=0, bytes=0, cpu_ns=0)
    assert estimator.update(0.0, quiet) is None
    found = estimator.update(1.0, quiet)
    assert found is not None
    assert (found.processing_s, found.why) == (None, "no traffic")


def test_counts_that_a_closed_link_took_with_it_are_no_sample() -> None:
    estimator = Estimator()
    estimator.update(0.0, Load(received=5000, evaluated=0, delivered=5000, bytes=10, cpu_ns=0))
    assert (
        estimator.update(1.0, Load(received=100, evaluated=0, delivered=100, bytes=5, cpu_ns=10**9)) is None
    )
    assert estimator.update(2.0, Load(received=200, evaluated=0, delivered=200, bytes=9, cpu_ns=2 * 10**9))


def test_a_high_load_counts_after_half_a_minute_and_ends_at_once() -> None:
    estimator = Estimator()
    for second in range(40):
        estimator.update(
            float(second),
            Load(received=second * 1000, evaluated=0, delivered=0, bytes=0, cpu_ns=second * 900_000_000),
        )
        assert estimator.is_low_on_capacity == (second >= 31)
    estimator.update(40.0, Load(received=40_000, evaluated=0, delivered=0, bytes=0, cpu_ns=39 * 900_000_000))
    assert not estimator.is_low_on_capacity
