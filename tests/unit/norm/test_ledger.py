"""What a session remembers of what it was told."""

import threading

from shoal.norm.events import DataReceived
from shoal.norm.ledger import _INFOS_MAX, Ledger


def released(ledger: Ledger, number: int) -> None:
    ledger.enter("object_released", {"stream": number})


def test_the_newest_object_is_the_one_sent_last_of_those_that_are_kept() -> None:
    ledger = Ledger()
    assert ledger.newest is None
    for number in (3, 4, 5):
        assert ledger.keep(lambda number=number: number) == number
    released(ledger, 5)
    assert ledger.newest == 4
    ledger.keep(lambda: 3)
    assert ledger.newest == 3
    assert ledger.keep(lambda: None) is None
    assert ledger.newest == 3


def test_an_object_that_is_released_while_it_is_being_sent_is_not_kept() -> None:
    ledger = Ledger()
    events = threading.Thread(target=released, args=(ledger, 9))

    def send() -> int:
        events.start()
        events.join(0.2)
        return 9

    ledger.keep(send)
    events.join()
    assert ledger.newest is None


def test_information_goes_with_its_object_and_what_is_never_completed_is_forgotten_in_the_end() -> None:
    ledger = Ledger()
    for number in range(_INFOS_MAX + 1):
        fields = {"sender": number, "instance": 1, "stream": 0, "content": b"%d" % number}
        ledger.enter("info", fields)
    first, last = (
        ledger.enter("data_received", {"sender": number, "instance": 1, "stream": 0, "content": b""})
        for number in (0, _INFOS_MAX)
    )
    assert isinstance(first, DataReceived)
    assert isinstance(last, DataReceived)
    assert (first.info, last.info) == (b"", b"%d" % _INFOS_MAX)
