"""The rows of `shoal top`, from statuses and their times."""

import copy
import time
from typing import Any

import pytest

from shoal.cli.top import _Screen, shown
from shoal.monitor.board import COLUMNS, GONE_S, PAGES, Board

STATUS: dict[str, Any] = {
    "node": 7,
    "name": "prices",
    "host": "desk1",
    "pid": 41,
    "cpu_s": 10.0,
    "rss_bytes": 61_000_000,
    "slow_members": 2,
    "events_lost": 1,
    "statistics": {"datagrams_sent": 1000, "retransmit_requests": 10},
    "links": [
        {
            "name": "norm://g",
            "peer": "",
            "state": "up",
            "bytes_sent": 1_000_000,
            "bytes_received": 0,
            "messages_sent": 500,
            "round_trip_s": 0.002,
            "unacknowledged_bytes": 64,
            "unsent_bytes": 3,
        }
    ],
    "store": {
        "name": "main",
        "queues": [
            {"name": "orders", "messages": 5, "bytes": 50, "in_flight": 1, "consumers": 2, "oldest_s": 1.5}
        ],
        "subscriptions": [],
    },
}


def later(**changes: Any) -> dict[str, Any]:
    """The same node two seconds later."""
    status = copy.deepcopy(STATUS)
    status["cpu_s"] = 11.0
    status["statistics"] = {"datagrams_sent": 2000, "retransmit_requests": 60}
    status["links"][0] |= {"bytes_sent": 3_000_000, "messages_sent": 1500}
    return status | changes


@pytest.fixture
def board() -> Board:
    made = Board()
    made.update(100.0, [STATUS])
    made.update(102.0, [later()])
    return made


def test_rates_are_what_grew_since_the_look_before(board: Board) -> None:
    (row,) = board.rows("nodes")
    assert row["messages_per_s"] == 500
    assert row["sent_mbit_s"] == 8.0
    assert row["retransmit_share"] == 0.05
    assert row["load"] == 0.5
    assert (row["round_trip_ms"], row["unacknowledged_bytes"], row["slow_members"]) == (2.0, 64, 2)


def test_at_the_first_look_and_after_a_restart_no_rate_is_known(board: Board) -> None:
    fresh = Board()
    fresh.update(1.0, [STATUS])
    assert not fresh.has_rates
    assert fresh.rows("nodes")[0]["messages_per_s"] is None
    board.update(104.0, [STATUS])
    assert board.rows("nodes")[0]["messages_per_s"] is None


def test_links_and_queues_have_pages_of_their_own(board: Board) -> None:
    (link,) = board.rows("links")
    assert (link["node"], link["name"], link["sent_mbit_s"], link["unsent_bytes"]) == (
        "prices",
        "norm://g",
        8.0,
        3,
    )
    (queue,) = board.rows("queues")
    assert queue == {
        "store": "main",
        "name": "orders",
        "kind": "queue",
        "messages": 5,
        "bytes": 50,
        "in_flight": 1,
        "consumers": 2,
        "oldest_s": 1.5,
    }


def test_every_column_is_in_every_row_and_can_be_printed(board: Board) -> None:
    for page in PAGES:
        for row in board.rows(page):
            for key, _, form in COLUMNS[page]:
                assert isinstance(shown(row[key], form), str)
    assert shown(None, ",.0f") == "-"


def test_rows_are_sorted_by_name_or_the_greatest_first_and_filtered() -> None:
    board = Board()
    for second in (0.0, 1.0):
        board.update(
            second,
            [
                later(node=number, name=name, events_lost=number)
                for number, name in ((1, "b"), (2, "a"), (3, "c"))
            ],
        )
    assert [row["name"] for row in board.rows("nodes")] == ["a", "b", "c"]
    assert [row["name"] for row in board.rows("nodes", sort="events_lost")] == ["c", "a", "b"]
    assert [row["name"] for row in board.rows("nodes", sort="host", matching="C")] == ["c"]


def test_a_node_that_answers_no_more_goes(board: Board) -> None:
    board.update(102.0 + GONE_S, [])
    assert len(board.rows("nodes")) == 1
    board.update(102.1 + GONE_S, [])
    assert board.rows("nodes") == []


@pytest.mark.parametrize("answer", [{}, {"node": "x", "links": []}, {"node": 1}, {"node": 1, "links": 7}])
def test_an_answer_that_makes_no_sense_is_left_out(answer: dict[str, Any]) -> None:
    board = Board()
    board.update(0.0, [answer])
    assert board.as_dict() == {"nodes": [], "links": [], "queues": []}


def test_a_look_at_a_hundred_nodes_takes_less_than_a_hundredth_of_a_second() -> None:
    screen = _Screen(None, 1.0)  # type: ignore[arg-type]
    statuses = [later(node=number, name=f"n{number}") for number in range(100)]
    screen._board.update(0.0, statuses)
    took = []
    for second in range(1, 6):
        began = time.process_time()
        screen._board.update(float(second), statuses)
        screen.lines()
        took.append(time.process_time() - began)
    assert min(took) < 0.01


def test_keys_change_page_sorting_and_filter() -> None:
    screen = _Screen(None, 1.0)  # type: ignore[arg-type]
    screen._board.update(0.0, [STATUS])
    assert screen.press("p")
    assert screen._page == "links"
    for _ in range(2):
        screen.press("p")
    assert screen._page == "nodes"
    screen.press("s")
    assert screen._sort["nodes"] == 0
    for _ in COLUMNS["nodes"]:
        screen.press("s")
    assert screen._sort["nodes"] is None, "all columns, then none"
    for key in "/qx\x7f\r":
        assert screen.press(key)
    assert screen._matching == "q"
    assert not screen.press("q")
