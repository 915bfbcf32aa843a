"""Traces by OpenTelemetry: `connect(trace=True)`, and `process` for messages that a program takes itself.

A message carries the trace and the span that it was sent in, as W3C Trace Context says it. The names of spans
and attributes follow OpenTelemetry's semantic conventions for messaging, version 1.36. These are still in
development, so all of them are in this module. Needs `pip install "shoal[otel]"`; programs add an exporter.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal._core import Message
from shoal.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, Tracer

__all__ = ["process"]

#: A trace context as messages carry it: version, trace, span and flags in binary, and the trace state.
TraceContext = tuple[bytes, str]

VERSION = 0
#: The longest trace state that a message carries; a longer one is left out.
STATE_BYTES_MAX = 512
SYSTEM = "shoal"
#: The conventions that names and attributes follow.
SCHEMA_URL = "https://opentelemetry.io/schemas/1.36.0"


def tracer() -> "Tracer":
    """What makes spans; raises `ConfigError` without OpenTelemetry."""
    try:
        from opentelemetry import trace
    except ImportError:
        raise ConfigError('trace needs OpenTelemetry: pip install "shoal[otel]"') from None
    return trace.get_tracer("shoal", schema_url=SCHEMA_URL)


def attributes_of(operation: str, topic: str) -> dict[str, str]:
    """What every span of an operation on a topic has."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def context_of(span: "Span") -> TraceContext | None:
    """A span's context as messages carry it; `None` if it is in no trace."""
    own = span.get_span_context()
    if not own.is_valid:
        return None
    state = own.trace_state.to_header()
    packed = bytes([VERSION]) + own.trace_id.to_bytes(16, "big") + own.span_id.to_bytes(8, "big")
    return packed + bytes([own.trace_flags]), state if len(state.encode()) <= STATE_BYTES_MAX else ""


def producer_of(message: Message) -> "SpanContext | None":
    """The span that a message was sent in; `None` if it says none that can be read."""
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    if message.trace is None:
        return None
    packed, state = message.trace
    found = SpanContext(
        trace_id=int.from_bytes(packed[1:17], "big"),
        span_id=int.from_bytes(packed[17:25], "big"),
        is_remote=True,
        trace_flags=TraceFlags(packed[25]) if len(packed) > 25 else None,
        trace_state=TraceState.from_header([state]) if state else None,
    )
    return found if found.is_valid else None


@contextlib.contextmanager
def sending(tracer: "Tracer", topic: str) -> Iterator[TraceContext | None]:
    """A span `send TOPIC`, and its context."""
    from opentelemetry.trace import SpanKind

    with tracer.start_as_current_span(
        f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes_of("send", topic)
    ) as span:
        yield context_of(span)


def note_received(tracer: "Tracer", message: Message) -> None:
    """A span `receive TOPIC` with a link to the span that the message was sent in."""
    from opentelemetry.trace import SpanKind

    tracer.start_span(
        f"receive {message.topic}",
        kind=SpanKind.CLIENT,
        attributes=attributes_of("receive", message.topic),
        links=_links(producer_of(message)),
    ).end()


@contextlib.contextmanager
def process(message: Message) -> Iterator["Span"]:
    """A span `process TOPIC` around what a program does with a message, in the trace that it was sent in.

    Callbacks of a connection with `trace=True` have one of their own.
    """
    from opentelemetry.trace import NonRecordingSpan, SpanKind, set_span_in_context

    producer = producer_of(message)
    parent = None if producer is None else set_span_in_context(NonRecordingSpan(producer))
    with tracer().start_as_current_span(
        f"process {message.topic}",
        context=parent,
        kind=SpanKind.CONSUMER,
        attributes=attributes_of("process", message.topic),
        links=_links(producer),
    ) as span:
        yield span


def _links(producer: "SpanContext | None") -> "list[Link]":
    from opentelemetry.trace import Link

    return [] if producer is None else [Link(producer)]
