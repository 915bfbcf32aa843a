"""The page of a run: published figures, ours and peers', and nothing loaded from elsewhere."""

import pytest

pytest.importorskip("matplotlib")

from shoal_bench.seeds import report


def cell(contestant: str, reached: float, x: float = 1.0, **more: object) -> dict[str, object]:
    return {
        "cell": f"c{x:g}",
        "contestant": contestant,
        "series": "r = 1",
        "x": x,
        "overall_msg_s": reached,
        "interval": None,
        "published": 1742.0,
        "factor": reached / 1742.0,
        "valid": False,
        "why": "not <judged>",
        **more,
    }


RESULT = {
    "run": "r<1>",
    "judged": False,
    "seconds_a_cell": 3.0,
    "cells": 3,
    "invalid": 3,
    "experiments": {
        "fiorano-joint": {
            "source": "FioranoMQ 4.9",
            "what": "n filters.",
            "found": "1,742 messages/s",
            "headline": "overall_msg_s",
            "lower_is_better": False,
            "cells": [cell("routed", 1_742_000.0), cell("artemis", 17_420.0), cell("routed", 9e5, x=100.0)],
        }
    },
}


def test_a_page_has_a_row_of_theirs_ours_and_the_factor() -> None:
    text = report.page(RESULT)
    row = "<td>routed</td><td>overall (messages/s)</td><td>1,742</td><td>1,742,000</td><td>1,000</td>"
    assert row in text
    # Artemis is a peer of ours here, not one of the authors'.
    assert "<td>routed 1,742,000</td><td>artemis</td><td>17,420</td><td>100</td>" in text
    assert "Figures 13 and 14" in text
    assert "were not judged" in text


def test_a_page_is_escaped_and_loads_nothing() -> None:
    text = report.page(RESULT)
    assert "r<1>" not in text
    assert "not <judged>" not in text
    assert text.count("<svg") == 1
    assert not [word for word in ('src="http', 'href="http', "<link", "<script", "@import") if word in text]


def test_a_picture_redraws_what_was_published() -> None:
    figure = report.picture(RESULT["experiments"]["fiorano-joint"])  # type: ignore[index]
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert labels == ["routed, r = 1", "artemis, r = 1", "published, r = 1"]


def test_figures_have_units() -> None:
    assert [report._words(name) for name in ("goodput_mbit_s", "processing_us", "lost_share")] == [
        "goodput (Mbit/s)",
        "processing (µs)",
        "lost share",
    ]
