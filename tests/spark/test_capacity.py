"""The capacity model over a real store: samples in, models out."""

import json
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from shoal.capacity import Model
from shoal.cli.app import app
from shoal.errors import ConfigError
from shoal.spark.pipelines import capacity

T_RCV, T_FLTR, T_TX = 4.10e-6, 1.46e-5, 1.62e-5
RATE = 1000


def samples(run="r1", noise=0.0, seed=1):
    """Seconds of a grid whose cost is known; the first and last second are nonsense."""
    draw = np.random.default_rng(seed)
    grid = [*product((5, 10, 20, 40, 80, 160), (1, 2, 5, 10, 20, 40)), (120, 15), (300, 30)]
    for n, r in grid:
        true = T_RCV + (n + r) * T_FLTR + r * T_TX
        for second in range(21):
            end = second in (0, 20)
            yield {
                "run": run,
                "experiment": "fiorano-joint",
                "cell": f"{n}-{r}",
                "rep": 1,
                "contestant": "routed",
                "kind": "property",
                "n": n,
                "r": r,
                "size": 64,
                "t_s": float(second),
                "received": RATE,
                "dispatched": RATE * r,
                "evaluated": RATE * (n + r),
                "cpu_s": RATE * true * (9.0 if end else 1 + noise * draw.standard_normal()),
                "valid": True,
            }


def write(client, bodies, run="r1"):
    rows = list(bodies)
    client.write(
        pa.table(
            {
                "topic": [f"bench/{run}/cell/host/server"] * len(rows),
                "body": [json.dumps(row) for row in rows],
                "body_kind": ["mapping"] * len(rows),
            }
        )
    )


def test_known_coefficients_come_back_and_predict_cells_that_were_held_out(spark, store, client, tmp_path):
    write(client, samples())
    broken = next(samples()) | {"valid": False, "why": "load core 81 %", "cpu_s": 1.0}
    incomplete = {"run": "r1", "n": 5}
    # Cells of another experiment have other costs at the same n and r.
    other = next(samples()) | {"experiment": "fiorano-and", "cpu_s": 7.0}
    write(client, [broken, broken, incomplete, other])
    found = capacity.capacity(spark, "r1", store=store.address, publish=True)
    assert (found.dropped, found.invalid) == (1, 2)
    assert len(found.cells) == 38
    assert sum(cell.held_out for cell in found.cells) == 6
    filters = next(model for model in found.models if model.form == "filters")
    assert filters.coefficients == pytest.approx((T_RCV, T_FLTR, T_TX), rel=1e-9)
    assert filters.held_out_worst < 1e-9
    assert filters.fitted["filters"] == (6.0, 200.0)
    # numpy, on the same cells.
    fitted = [cell for cell in found.cells if not cell.held_out]
    design = np.array([[1.0, cell.n + cell.r, cell.r] for cell in fitted])
    seconds = np.array([cell.processing_s for cell in fitted])
    expected, *_ = np.linalg.lstsq(design / seconds[:, None], np.ones(len(seconds)), rcond=None)
    assert filters.coefficients == pytest.approx(expected.tolist(), rel=1e-9)
    # A second look must not take the published models for samples.
    again = capacity.capacity(spark, "r1", store=store.address)
    assert (again.dropped, again.models) == (1, found.models)

    made = tmp_path / "model.json"
    page = tmp_path / "report.html"
    words = ["capacity", "fit", "r1", "--store", store.address, "--model", str(made), "--html", str(page)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert Model.from_json(made.read_text()).coefficients == pytest.approx(filters.coefficients)
    text = page.read_text()
    assert text.count("<svg") >= 1
    # The page loads nothing from elsewhere.
    assert not [word for word in ('src="http', 'href="http', "<link", "<script", "@import") if word in text]


def test_a_run_without_samples_says_what_to_do(spark, store):
    with pytest.raises(ConfigError, match=r"no valid samples.*shoal bench seeds"):
        capacity.capacity(spark, "none", store=store.address)
