"""`shoal pipeline` before Spark is asked for anything."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from shoal.cli import pipeline

pytest.importorskip("pyspark")


@pytest.mark.parametrize(("archive", "given"), [(True, None), (False, "grpc://127.0.0.1:1")])
def test_a_store_from_the_environment_is_not_for_an_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, archive: bool, given: str | None
) -> None:
    called: dict[str, Any] = {}

    def replay(_spark: object, _source: str, _bus: object, **options: Any) -> None:
        called.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.spark.pipelines.replay.replay", replay)
    monkeypatch.setattr(pipeline, "spark_session", lambda *_: contextlib.nullcontext())
    source = str(tmp_path) if archive else "prices/>"
    command = ["replay", source, "--url", "inproc://replay", "--wait", "0"]
    typer.testing.CliRunner().invoke(pipeline.app, command, env={"SHOAL_STORE": "grpc://127.0.0.1:1"})
    assert called["store"] == given
