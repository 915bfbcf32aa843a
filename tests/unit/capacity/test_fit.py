"""Known coefficients come back from synthetic rows."""

import random
from itertools import product

import numpy as np
import pytest

from shoal.capacity import Model, Moments, Workload
from shoal.capacity.algebra import SingularError, condition, inverse, solve

#: Table 1 of the FioranoMQ study, application property filters.
T_RCV, T_FLTR, T_TX = 4.10e-6, 1.46e-5, 1.62e-5
GRID = [(n, r) for r, n in product((1, 2, 5, 10, 20, 40), (5, 10, 20, 40, 80, 160))]


def rows(noise: float = 0.0, seed: int = 1) -> list[tuple[tuple[float, ...], float]]:
    draw = random.Random(seed)
    made = []
    for n, r in GRID:
        seconds = T_RCV + (n + r) * T_FLTR + r * T_TX
        made.append(((1.0, float(n + r), float(r)), seconds * (1 + draw.gauss(0, noise))))
    return made


def test_exact_rows_give_their_coefficients_back() -> None:
    fit = Moments.of(rows()).solve()
    assert fit.coefficients == pytest.approx((T_RCV, T_FLTR, T_TX), rel=1e-9)
    assert fit.relative_error < 1e-6
    assert fit.rows == len(GRID)


@pytest.mark.parametrize("seed", range(20))
def test_noisy_rows_give_them_back_within_the_interval(seed: int) -> None:
    fit = Moments.of(rows(noise=0.02, seed=seed)).solve()
    truth = (T_RCV, T_FLTR, T_TX)
    for found, error, true in zip(fit.coefficients, fit.standard_errors, truth, strict=True):
        assert abs(found - true) < 4.5 * error, seed
    assert fit.relative_error == pytest.approx(0.02, rel=0.6)


def test_sums_may_be_made_in_parts() -> None:
    every = rows(noise=0.05)
    parts = Moments.of(every[:10]) + Moments.of(every[10:])
    assert parts.solve().coefficients == pytest.approx(Moments.of(every).solve().coefficients, rel=1e-12)


def test_it_agrees_with_numpy() -> None:
    every = rows(noise=0.05, seed=7)
    design = np.array([np.array(factors) / seconds for factors, seconds in every])
    expected, *_ = np.linalg.lstsq(design, np.ones(len(every)), rcond=None)
    assert Moments.of(every).solve().coefficients == pytest.approx(expected.tolist(), rel=1e-9)


def test_no_coefficient_is_negative() -> None:
    # The cost falls with the second factor, which no cost does.
    falling = [((1.0, float(n)), 1e-5 - n * 1e-8) for n in range(10)]
    fit = Moments.of(falling).solve()
    assert fit.coefficients[1] == 0.0
    assert fit.coefficients[0] == pytest.approx(1e-5, rel=0.01)


def test_rows_without_a_duration_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 0 s, not 0"):
        Moments.of([((1.0,), 0.0)])
    with pytest.raises(ValueError, match="no rows"):
        Moments.of([])


def test_algebra_agrees_with_numpy() -> None:
    draw = random.Random(3)
    matrix = [[draw.random() for _ in range(4)] for _ in range(4)]
    right = [draw.random() for _ in range(4)]
    assert solve(matrix, right) == pytest.approx(np.linalg.solve(matrix, right).tolist())
    assert inverse(matrix)[2] == pytest.approx(np.linalg.inv(matrix)[2].tolist())
    gram = np.array(matrix) @ np.array(matrix).T
    scale = np.sqrt(np.diag(gram))
    assert condition(gram.tolist()) == pytest.approx(np.linalg.cond(gram / np.outer(scale, scale)))
    with pytest.raises(SingularError):
        solve([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0])
    assert condition([[1.0, 2.0], [2.0, 4.0]]) > 1e15


def test_a_model_predicts_the_studys_own_figures() -> None:
    fit = Moments.of(rows()).solve()
    model = Model.of(fit, form="filters", kind="property", fitted={"filters": (6, 200)})
    load = Workload(filters=161, replication=1)
    # Table 1: 160 more filters and one that matches.
    assert model.processing_s(load) == pytest.approx(2.371e-3, rel=1e-3)
    assert model.overall_msg_s(load) == pytest.approx(844, rel=1e-3)
    assert model.outside(load) == []
    assert model.outside(Workload(filters=500, replication=1)) == ["filters"]


def test_a_model_survives_its_text() -> None:
    model = Model(
        form="evaluations",
        coefficients=(1e-6, 2e-8, 3e-7, 1e-10),
        fitted={"size": (0.0, 65536.0)},
        evaluated=((5.0, 1.0), (160.0, 3.0)),
    )
    again = Model.from_json(model.to_json())
    assert again == model
    assert again.looked_at(5) == 1.0
    assert again.looked_at(82.5) == 2.0
    assert again.looked_at(1000) == 3.0
    with pytest.raises(ValueError, match="no capacity model of version 1"):
        Model.from_json('{"version": 9}')
    with pytest.raises(ValueError, match="4 coefficients, not 1"):
        Model(form="evaluations", coefficients=(1.0,))
