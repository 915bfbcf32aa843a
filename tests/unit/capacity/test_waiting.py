"""Waiting times against known results: M/M/1's and M/D/1's means, and an exact sum by FFT."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from shoal.capacity import Model, Replication, Waiting
from shoal.capacity.waiting import gamma_share
from shoal.cli.app import app


def test_the_mean_of_fixed_service_times_is_pollaczeks() -> None:
    found = Waiting.of(10e-6, 0.0, Replication.fixed(0), 0.8)
    # M/D/1: rho B / 2 (1 - rho).
    assert found.mean_s == pytest.approx(0.8 * 10e-6 / (2 * 0.2))


def test_no_message_waits_at_an_idle_node() -> None:
    found = Waiting.of(10e-6, 1e-6, Replication.fixed(3), 0.0)
    assert (found.mean_s, found.quantile_s(0.99), found.above(1.0)) == (0.0, 0.0, 0.0)


def test_a_full_node_has_no_waiting_time() -> None:
    with pytest.raises(ValueError, match="less than 1, not 1"):
        Waiting.of(1e-5, 0.0, Replication.fixed(1), 1.0)


@pytest.mark.parametrize(
    ("law", "counts"),
    [
        ("fixed", lambda draw, size: np.full(size, 5)),
        ("all-or-none:0.1", lambda draw, size: 50 * (draw.random(size) < 0.1)),
        ("binomial:0.1", lambda draw, size: draw.binomial(50, 0.1, size)),
    ],
)
def test_laws_have_the_moments_of_what_they_describe(law: str, counts: object) -> None:
    drawn = counts(np.random.default_rng(1), 2_000_000).astype(float)  # type: ignore[operator]
    told = Replication.parse(law, 5.0)
    assert told.mean == pytest.approx(drawn.mean(), rel=0.02)
    assert told.square == pytest.approx((drawn**2).mean(), rel=0.02)
    assert told.cube == pytest.approx((drawn**3).mean(), rel=0.02)


@pytest.mark.parametrize("law", ["often", "binomial", "binomial:0", "binomial:2", "all-or-none:x"])
def test_other_laws_are_refused(law: str) -> None:
    with pytest.raises(ValueError, match="the law must be fixed, all-or-none:SHARE or binomial:SHARE"):
        Replication.parse(law, 5.0)


@pytest.mark.parametrize("load", [0.5, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("law", ["fixed", "binomial:0.1", "all-or-none:0.1"])
def test_quantiles_come_close_to_the_exact_distribution(law: str, load: float) -> None:
    """W is a geometric sum of residual service times: exact on a grid, by FFT."""
    fixed_s, send_s = 10e-6, 4e-6
    found = Waiting.of(fixed_s, send_s, Replication.parse(law, 5.0), load)
    step, size = 0.25e-6, 1 << 16
    if law == "fixed":
        sizes, shares = np.array([5]), np.array([1.0])
    elif law == "all-or-none:0.1":
        sizes, shares = np.array([0, 50]), np.array([0.9, 0.1])
    else:
        from math import comb

        sizes = np.arange(51)
        shares = np.array([comb(50, k) * 0.1**k * 0.9 ** (50 - k) for k in range(51)])
    services = fixed_s + send_s * sizes
    times = (np.arange(size) + 0.5) * step
    residual = np.array([(shares * (services > time)).sum() for time in times])
    residual /= residual.sum()
    transformed = np.fft.rfft(residual)
    waiting = np.fft.irfft((1 - load) / (1 - load * transformed), size)
    exact = np.cumsum(waiting)
    # Rounding each residual up to the grid makes exact times longer by about half a step each.
    p99 = times[np.searchsorted(exact, 0.99)]
    assert found.mean_s == pytest.approx((waiting * times).sum(), rel=0.05)
    assert found.quantile_s(0.99) == pytest.approx(p99, rel=0.10 if load >= 0.7 else 0.25)


def test_the_gamma_function_is_right_at_known_points() -> None:
    assert gamma_share(1.0, 2.0) == pytest.approx(1 - np.exp(-2.0), rel=1e-12)
    assert gamma_share(0.5, 0.5) == pytest.approx(0.6826894921370859, rel=1e-10)
    assert gamma_share(30.0, 40.0) == pytest.approx(0.9567692, rel=1e-3)
    assert gamma_share(3.0, 0.0) == 0.0


def test_a_prediction_at_full_load_ends_with_status_1(tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    model.write_text(Model(form="filters", coefficients=(1e-6, 1e-8, 1e-7)).to_json())
    words = ["capacity", "predict", "--model", str(model), "--filters", "10", "--load"]
    done = CliRunner().invoke(app, [*words, "1"])
    assert (done.exit_code, done.output) == (
        1,
        "shoal capacity predict: at load 1 the queue grows without end.\n",
    )
    assert CliRunner().invoke(app, [*words, "0.9"]).exit_code == 0
