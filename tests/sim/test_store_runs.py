"""A store and its clients on a simulated disk and network: nothing that was acknowledged is ever lost."""

import pytest

from shoal.testing.store_history import History, Marks, check
from shoal.testing.store_run import StoreRun


@pytest.mark.parametrize("start", range(0, 60, 15))
def test_everything_that_was_stored_is_delivered_whatever_breaks(start: int) -> None:
    for seed in range(start, start + 15):
        try:
            run = StoreRun(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert run.starts > 1
        assert run.history.deliveries
        assert run.history.acks


@pytest.mark.parametrize("seed", [100158, 301802, 2009537])
def test_seeds_that_failed_once(seed: int) -> None:
    StoreRun(seed)


def test_a_run_is_the_same_every_time() -> None:
    assert StoreRun(7).history == StoreRun(7).history


def stored(*topics: str) -> History:
    history = History()
    for number, topic in enumerate(topics, 1):
        history.sent(1, number, topic)
        history.stored(1, number)
    return history


def test_the_checker_notices_a_message_that_never_came() -> None:
    with pytest.raises(AssertionError, match="orders never received 1-1"):
        check(stored("_queue/orders"))


def test_the_checker_notices_what_comes_twice_without_saying_so() -> None:
    history = stored("_queue/orders")
    history.delivered("orders", 5, "1-1", False, ("w", 1))
    history.delivered("orders", 5, "1-1", True, ("w", 2))
    check(history)
    history.delivered("orders", 5, "1-1", False, ("w", 2))
    with pytest.raises(AssertionError, match="does not say so"):
        check(history)


def test_the_checker_notices_what_comes_after_its_acknowledgement() -> None:
    history = stored("_queue/orders")
    history.delivered("orders", 5, "1-1", False, ("w", 1))
    history.acknowledged("orders", [5])
    check(history)
    history.delivered("orders", 5, "1-1", True, ("w", 1))
    with pytest.raises(AssertionError, match="after it was acknowledged"):
        check(history)


def test_the_checker_notices_another_order_and_two_offsets() -> None:
    history = stored("t/1", "t/1")
    for reader in ("desk", "night"):
        history.delivered(reader, 2, "1-2", False, ("w", 1))
        history.delivered(reader, 1, "1-1", False, ("w", 1))
    with pytest.raises(AssertionError, match="after 2 of 1"):
        check(history)
    history = stored("_queue/orders")
    history.delivered("orders", 5, "1-1", False, ("w", 1))
    history.delivered("orders", 6, "1-1", True, ("w", 1))
    with pytest.raises(AssertionError, match="stored twice"):
        check(history)
    history = stored("_queue/orders", "_queue/orders")
    history.delivered("orders", 5, "1-1", False, ("w", 1))
    with pytest.raises(AssertionError, match="was 1-1, and is"):
        history.delivered("orders", 5, "1-2", False, ("w", 1))


def test_the_checker_notices_half_a_transaction() -> None:
    history = History()
    history.sent(1, 1, "_queue/orders", commit="x")
    history.sent(1, 2, "t/2", commit="x")
    history.committing("x", "work", [3])
    history.delivered("orders", 5, "1-1", False, ("w", 1))
    with pytest.raises(AssertionError, match="in part"):
        check(history)
    history.delivered("desk", 6, "1-2", False, ("w", 1))
    check(history)
    history.rolled_back("x")
    with pytest.raises(AssertionError, match="rolled back"):
        check(history)


def test_the_checker_judges_a_transaction_whose_outcome_no_client_knows() -> None:
    history = stored("_queue/work")
    history.sent(1, 2, "_queue/orders", commit="x")
    history.delivered("work", 3, "1-1", False, ("w", 1))
    history.committing("x", "work", [3])
    history.delivered("orders", 5, "1-2", False, ("w", 1))
    check(history)
    history.delivered("work", 3, "1-1", True, ("w", 2))
    with pytest.raises(AssertionError, match="1-1 came again after x"):
        check(history)


def test_the_checker_notices_two_transactions_with_one_input() -> None:
    history = stored("_queue/work")
    history.delivered("work", 3, "1-1", False, ("w", 1))
    for number, id_ in ((2, "x"), (3, "y")):
        history.sent(1, number, "_queue/orders", commit=id_)
        history.committing(id_, "work", [3])
        history.delivered("orders", 4 + number, f"1-{number}", False, ("w", 1))
    with pytest.raises(AssertionError, match="both are done"):
        check(history)


def test_a_mark_that_no_hand_over_and_no_grant_explains_is_found() -> None:
    marks = Marks()
    with pytest.raises(AssertionError, match="no program can have it"):
        marks.given("orders", 3, "a/1", 0)
    marks = Marks()
    marks.given("orders", 3, "a/1", 1)
    marks.given("orders", 3, "b/1", 0)
    marks.heard_of |= {"a/1", "b/1"}
    marks.given("orders", 3, "c/1", 0)
    assert marks.needless == 2, "the first mark was right when it was made"


def test_a_mark_of_what_a_consumer_reported_as_not_handed_over_is_found() -> None:
    marks = Marks()
    marks.given("orders", 3, "a/1", 1)
    marks.heard_of.add("a/1")
    with pytest.raises(AssertionError, match="no program can have it"):
        marks.given("orders", 3, "b/1", 0)


def test_a_count_that_nobody_counted_is_found() -> None:
    marks = Marks()
    marks.given("orders", 3, "a/1", 1)
    marks.received["orders", 3] += 1
    marks.given("orders", 3, "b/1", 2)
    with pytest.raises(AssertionError, match="as delivery 3"):
        marks.given("orders", 3, "c/1", 3)
