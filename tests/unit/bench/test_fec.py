"""The benchmark of the Reed-Solomon code: which blocks it measures, and that it reports all of them."""

import sys

import pytest

from shoal._core import CodingLoad, ReedSolomon
from shoal_bench import fec


def test_the_thesis_table_has_every_size_and_its_blocks_hold_the_source() -> None:
    shapes = list(fec.thesis_shapes())
    assert len(shapes) == 7 * 3 * 2
    for kib, percent, shape in shapes:
        assert shape.source_bytes - shape.symbol_bytes < kib * 1024 <= shape.source_bytes
        assert 0 < shape.parity_symbols <= shape.source_symbols * percent / 100 + 1
        assert shape.source_symbols + shape.parity_symbols <= 255


def test_a_run_reports_every_shape_and_compares_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fec, "SOURCE_KIB", (1,))
    whole = fec.run(rounds=1, round_s=1e-5)
    result = whole["shoal"]
    assert len(result["thesis"]) == 6
    assert [row["parity_symbols"] for row in result["stream"]] == [4, 8, 16]
    for row in result["stream"]:
        assert list(row["kernels"]) == ReedSolomon.kernels()
        assert row["encode_gbit_s"] > 0
        assert row["ratio_to_scalar"]["decode"] > 0
    assert len(whole["zfec"]["stream"]) == 3
    assert whole["ratio_to_best_peer"]["encode"] > 0
    assert len(list(fec.table_rows(whole))) == 6 + 3 + 3


def test_a_run_without_zfec_reports_shoal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fec, "SOURCE_KIB", ())
    monkeypatch.setitem(sys.modules, "zfec", None)
    whole = fec.run(rounds=1, round_s=1e-5)
    assert list(whole) == ["shoal"]
    assert len(list(fec.table_rows(whole))) == 3


def test_a_load_with_more_parity_than_source_loses_the_whole_block() -> None:
    CodingLoad(ReedSolomon(2, 5), 33).decode(1)
