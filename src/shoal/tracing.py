"""Traces by OpenTelemetry: `connect(trace=True)`, and `process` for messages that a program takes itself.

A message carries the trace and the span that it was sent in, as W3C Trace Context says it. The names of spans
and attributes follow OpenTelemetry's semantic conventions for messaging, version 1.36. These are still in
development, so all of them are in this module. Needs `pip install "shoal[otel]"`; programs add an exporter.
"""

import contextlib
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

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
#: Of a span that begins a trace and is not sampled: its trace id is random (W3C Trace Context level 2).
_UNSAMPLED_HEAD: Final = bytes([VERSION])
_RANDOM_FLAG: Final = b"\2"


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
    return packed_context(own) if own.is_valid else None


def packed_context(own: "SpanContext") -> TraceContext:
    """A context as messages carry it."""
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


class Unrecorded:
    """The contexts of messages whose spans no sampler would record: such messages need no span.

    The descriptions of OpenTelemetry's own samplers say whether they drop all spans that begin a trace, and
    all spans below one that was not sampled. Samplers of other kinds, and those of a share of traces, are
    asked each time, by `sending`.
    """

    __slots__ = ("_begins", "_current", "_drops_children", "_last", "_nothing")

    def __init__(self, tracer: "Tracer") -> None:
        from opentelemetry.trace import INVALID_SPAN_CONTEXT, get_current_span

        sampler = getattr(tracer, "sampler", None)
        text = "" if sampler is None else str(sampler.get_description())
        drops_all = text == "AlwaysOffSampler"
        self._drops_children = drops_all or (
            text.startswith("ParentBased{")
            and "remoteParentNotSampled:AlwaysOffSampler" in text
            and "localParentNotSampled:AlwaysOffSampler" in text
        )
        drops_roots = drops_all or text.startswith("ParentBased{root:AlwaysOffSampler,")
        self._begins = _unsampled_trace if drops_roots else _no_context
        self._current, self._nothing = get_current_span, INVALID_SPAN_CONTEXT
        #: The last span's context, and the same as messages carry it if nothing below that span is recorded.
        self._last: tuple[SpanContext, TraceContext | None] = (INVALID_SPAN_CONTEXT, None)

    def context(self) -> TraceContext | None:
        """What a message carries that is sent now; `None` if its span may be recorded."""
        own = self._current().get_span_context()
        if own is self._nothing:
            return self._begins()
        last, packed = self._last
        if own is not last:
            packed = packed_context(own) if own.is_valid and self.has_no_children(own) else None
            self._last = (own, packed)
        return packed

    def has_no_children(self, parent: "SpanContext") -> bool:
        """Whether no span below this one is recorded."""
        return self._drops_children and not parent.trace_flags.sampled


def _unsampled_trace() -> TraceContext:
    return _UNSAMPLED_HEAD + random.randbytes(24) + _RANDOM_FLAG, ""


def _no_context() -> None:
    return None


@contextlib.contextmanager
def sending(tracer: "Tracer", topic: str) -> Iterator[TraceContext | None]:
    """A span `send TOPIC`, if it is recorded, and its context."""
    from opentelemetry.trace import SpanKind, use_span

    attributes = attributes_of("send", topic)
    span = tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)
    if not span.is_recording():
        yield context_of(span)
        return
    with use_span(span, end_on_exit=True):
        yield context_of(span)


def note_received(tracer: "Tracer", unrecorded: Unrecorded, message: Message) -> None:
    """A span `receive TOPIC` with a link to the span that the message was sent in, if it may be recorded."""
    from opentelemetry.trace import SpanKind

    if unrecorded.context() is not None:
        return
    tracer.start_span(
        f"receive {message.topic}",
        kind=SpanKind.CLIENT,
        attributes=attributes_of("receive", message.topic),
        links=_links(producer_of(message)),
    ).end()


def process(message: Message) -> AbstractContextManager["Span"]:
    """A span `process TOPIC` around what a program does with a message, in the trace that it was sent in.

    Callbacks of a connection with `trace=True` have one of their own.
    """
    own = tracer()
    return processing(own, Unrecorded(own), message)


@contextlib.contextmanager
def processing(tracer: "Tracer", unrecorded: Unrecorded, message: Message) -> Iterator["Span"]:
    """The same with a tracer at hand. The span records nothing if no sampler would have it recorded."""
    from opentelemetry.trace import NonRecordingSpan, SpanKind, set_span_in_context, use_span

    producer = producer_of(message)
    sent_in = None if producer is None else NonRecordingSpan(producer)
    if sent_in is not None and unrecorded.has_no_children(sent_in.get_span_context()):
        with use_span(sent_in):
            yield sent_in
        return
    with tracer.start_as_current_span(
        f"process {message.topic}",
        context=None if sent_in is None else set_span_in_context(sent_in),
        kind=SpanKind.CONSUMER,
        attributes=attributes_of("process", message.topic),
        links=_links(producer),
    ) as span:
        yield span


def _links(producer: "SpanContext | None") -> "list[Link]":
    from opentelemetry.trace import Link

    return [] if producer is None else [Link(producer)]
