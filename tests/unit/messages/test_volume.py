"""Nothing is logged for each message: the number of lines does not grow with the number of messages."""

import logging
from pathlib import Path

import pytest

import shoal


@pytest.mark.parametrize("messages", [10, 1000])
def test_publishing_and_consuming_logs_no_line_for_each_message(
    tmp_path: Path, messages: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shoal")
    with shoal.connect("inproc://volume", store=tmp_path) as bus, bus.subscribe("a") as reader:
        queue = bus.queue("q")
        for number in range(messages):
            bus.publish("a", number)
            queue.send(number)
        assert [reader.receive(10).body for _ in range(messages)] == list(range(messages))
        for number in range(messages):
            message = queue.receive(10)
            assert message is not None
            assert message.body == number
    assert len(caplog.records) < 10
