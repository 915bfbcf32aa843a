"""Messages carry the trace that they were sent in; spans follow OpenTelemetry's conventions for messaging."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import shoal
from shoal import aio, tracing
from shoal.bus import traced
from shoal.errors import ConfigError

pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, DEFAULT_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind

URL = "inproc://traced"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Spans that ended, of the library and of `outer`."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "tracer", lambda: provider.get_tracer("shoal"))
    yield exporter
    provider.shutdown()


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_a_message_is_sent_received_and_processed_in_one_trace(spans: InMemorySpanExporter) -> None:
    with shoal.connect(URL, trace=True) as bus, bus.subscribe("a/b") as messages:
        bus.publish("a/b", 1)
        message = messages.receive(10)
        assert message is not None
        with tracing.process(message):
            bus.publish("a/next", 2)
    found = by_name(spans)
    assert set(found) == {"send a/b", "receive a/b", "process a/b", "send a/next"}
    sent, received, processed, following = (
        found[name] for name in ("send a/b", "receive a/b", "process a/b", "send a/next")
    )
    assert [span.kind for span in (sent, received, processed)] == [
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
    ]
    assert linked(received) == linked(processed) == [sent.context.span_id]
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert {span.context.trace_id for span in (sent, processed, following)} == {sent.context.trace_id}
    assert dict(sent.attributes or {}) == {
        "messaging.system": "shoal",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "a/b",
    }


def test_a_callback_has_a_span_and_an_iteration_one_for_each_message(spans: InMemorySpanExporter) -> None:
    with shoal.connect(URL, trace=True) as bus, bus.subscribe("i") as messages:
        done: SimpleQueue[Any] = SimpleQueue()
        bus.subscribe("c", lambda message: done.put(trace.get_current_span().get_span_context()))
        bus.publish("c")
        bus.publish("i", 1)
        bus.publish("i", 2)
        assert [message.body for _, message in zip(range(2), messages, strict=False)] == [1, 2]
        assert messages.receive_nowait() == []
        own = done.get(timeout=30)
    names = [span.name for span in spans.get_finished_spans()]
    assert (names.count("process c"), names.count("receive i")) == (1, 2)
    assert own == by_name(spans)["process c"].context


def test_asyncio_does_the_same(spans: InMemorySpanExporter) -> None:
    async def run() -> None:
        async with aio.connect(URL, trace=True) as bus, bus.subscribe("a") as messages:
            processed = asyncio.Event()

            async def callback(message: shoal.Message) -> None:
                processed.set()

            bus.subscribe("c", callback)
            await bus.publish("c")
            await bus.publish("a", 1)
            assert (await messages.receive(10)) is not None
            await bus.publish("a", 2)
            assert (await anext(messages)).body == 2
            await asyncio.wait_for(processed.wait(), 10)

    asyncio.run(run())
    names = [span.name for span in spans.get_finished_spans()]
    assert sorted(names) == ["process c", "receive a", "receive a", "send a", "send a", "send c"]


def test_the_trace_goes_through_a_store(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    with (
        shoal.connect(URL, trace=True, store=tmp_path / "data", client_id="c") as bus,
        bus.subscribe("p", durable="d") as messages,
    ):
        bus.publish("p", 1, persistent=True)
        message = messages.receive(20)
        assert message is not None
        sent = by_name(spans)["send p"]
        assert message.trace is not None
        assert int.from_bytes(message.trace[0][1:17], "big") == sent.context.trace_id
        message.ack()


def test_a_span_that_is_not_sampled_is_passed_on_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(tracing, "tracer", lambda: provider.get_tracer("shoal"))
    with shoal.connect(URL, trace=True) as bus, bus.subscribe("a") as messages:
        bus.publish("a")
        message = messages.receive(10)
        assert message is not None
        assert message.trace is not None
        # Bit 1 says that the trace id is random (W3C Trace Context level 2).
        assert message.trace[0][25] & 1 == 0


def test_messages_without_a_trace_carry_none_and_take_the_short_way(spans: InMemorySpanExporter) -> None:
    with shoal.connect(URL) as bus, bus.subscribe("a") as messages:
        assert not isinstance(bus, traced._Threads)
        bus.publish("a", 1)
        message = messages.receive(10)
        assert message is not None
        assert message.trace is None
        bus.publish("a", 1, trace=(bytes(26), "vendor=1"))
        message = messages.receive(10)
        assert message is not None
        assert message.trace == (bytes(26), "vendor=1")
        # All zeroes name no span.
        assert tracing.producer_of(message) is None
        for wrong in ((bytes(25), ""), (bytes(26), "x" * 513)):
            with pytest.raises(ValueError, match="26 bytes, and a state of at most 512"):
                bus.publish("a", trace=wrong)
        with pytest.raises(TypeError, match="a pair of bytes and a text"):
            bus.publish("a", trace="00-1-2-01")  # type: ignore[call-overload]
    assert spans.get_finished_spans() == ()


def test_destinations_keep_their_options_beside_traces(spans: InMemorySpanExporter) -> None:
    with (
        shoal.connect(URL, trace=True, destinations={"a": {"priority": 8}}) as bus,
        bus.subscribe("a") as messages,
    ):
        bus.publish("a")
        message = messages.receive(10)
        assert message is not None
        assert (message.priority, message.trace is None) == (8, False)


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r'pip install "shoal\[otel\]"'):
        shoal.connect(URL, trace=True)


def traced_parts(spans_made: list[str], provider: TracerProvider) -> Any:
    """A tracer that notes which spans are asked for."""
    tracer = provider.get_tracer("shoal")
    start_span = tracer.start_span

    def counted(name: str, *arguments: Any, **options: Any) -> Any:
        spans_made.append(name)
        return start_span(name, *arguments, **options)

    tracer.start_span = counted  # type: ignore[method-assign]
    return tracer


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, DEFAULT_OFF])
def test_no_span_is_asked_for_where_none_would_be_recorded(
    monkeypatch: pytest.MonkeyPatch, sampler: Any
) -> None:
    asked: list[str] = []
    provider = TracerProvider(sampler=sampler)
    tracer = traced_parts(asked, provider)
    monkeypatch.setattr(tracing, "tracer", lambda: tracer)
    with shoal.connect(URL, trace=True) as bus, bus.subscribe("a/*") as messages:
        processed: SimpleQueue[Any] = SimpleQueue()
        bus.subscribe("a/*", lambda message: processed.put(trace.get_current_span().get_span_context()))
        bus.publish("a/root")
        with trace.use_span(provider.get_tracer("outer").start_span("outer")) as outer:
            bus.publish("a/child")
        of_root, of_child = messages.receive(10), messages.receive(10)
        assert of_root.trace[0][25] & 1 == of_child.trace[0][25] & 1 == 0
        assert tracing.producer_of(of_child).span_id == outer.get_span_context().span_id
        assert [processed.get(timeout=30).trace_id for _ in "12"] == [
            tracing.producer_of(each).trace_id for each in (of_root, of_child)
        ]
    assert asked == []


def test_below_a_span_that_is_sampled_messages_are_recorded_though_no_trace_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    tracer = traced_parts(asked, TracerProvider(sampler=DEFAULT_OFF))
    monkeypatch.setattr(tracing, "tracer", lambda: tracer)
    sampled = trace.SpanContext(5, 6, is_remote=True, trace_flags=trace.TraceFlags(1))
    with shoal.connect(URL, trace=True) as bus, bus.subscribe("a") as messages:
        with trace.use_span(trace.NonRecordingSpan(sampled)):
            bus.publish("a")
        message = messages.receive(10)
    assert asked == ["send a"]
    assert message.trace[0][25] & 1 == 1
    assert tracing.producer_of(message).trace_id == 5


def test_samplers_of_other_kinds_are_asked_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    tracer = traced_parts(asked, TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.0))))
    monkeypatch.setattr(tracing, "tracer", lambda: tracer)
    with shoal.connect(URL, trace=True) as bus, bus.subscribe("a") as messages:
        bus.publish("a")
        message = messages.receive(10)
    assert asked == ["send a", "receive a"]
    assert message.trace[0][25] & 1 == 0
