"""What happens now: the state's tables, as a whole and as server-sent events, and live watches of topics."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse

import shoal
from shoal.console.access import Caller
from shoal.console.bodies import message_row
from shoal.console.console import VIEWERS_MAX, WATCHES_MAX, Console
from shoal.console.picture import TABLES
from shoal.console.routes.common import REFUSALS, allowed, console_of
from shoal.selector import Selector

router = APIRouter(tags=["live"], responses=REFUSALS, dependencies=[Depends(allowed("viewer"))])

Viewer = Annotated[Caller, Depends(allowed("viewer"))]

#: A silent stream says that it lives so often.
COMMENT_S = 15.0
#: A watch looks so often, shows so many messages each time, and keeps so many bytes; others are counted.
WATCH_S, WATCH_ROWS, WATCH_BYTES = 0.25, 25, 4 << 20

Tables = Annotated[
    str, Query(max_length=200, description=f"Tables, separated by commas: {', '.join(TABLES)}.")
]


def _names(tables: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(each.strip() for each in tables.split(",") if each.strip()))
    for name in names:
        if name not in TABLES:
            raise HTTPException(400, f"There is no table {name[:50]!r}: there are {', '.join(TABLES)}.")
    return names or TABLES


@router.get("/state", response_class=Response, responses={200: {"content": {"application/json": {}}}})
async def state(request: Request, tables: Tables = "") -> Response:
    """Whole tables, as they are now."""
    text = console_of(request).picture.state.snapshot(_names(tables))
    return Response(text, media_type="application/json")


@router.get("/series")
async def series(request: Request) -> dict[str, Any]:
    """The last ten minutes.

    Messages and bits sent in a second, messages that wait, messages stored in a second.
    """
    columns = list(zip(*console_of(request).picture.series, strict=True)) or [()] * 5
    return dict(zip(("at", "sent_s", "out_bps", "backlog", "stored_s"), map(list, columns), strict=True))


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events `state`, once a second."}},
)
async def events(
    request: Request,
    caller: Viewer,
    tables: Tables = "",
    last_event_id: Annotated[str, Header(max_length=64)] = "",
    once: Annotated[bool, Query(description="End after the first event.")] = False,
) -> StreamingResponse:
    """Server-sent events.

    The tables once, then what changes. A browser that comes back gets what it missed.
    """
    console, names = console_of(request), _names(tables)
    if console.viewers >= VIEWERS_MAX:
        raise HTTPException(503, f"{VIEWERS_MAX} viewers watch already.")
    stream = _events(console, caller, names, last_event_id, once)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _events(
    console: Console, caller: Caller, names: tuple[str, ...], last_id: str, once: bool
) -> AsyncIterator[str]:
    tables = console.picture.state
    with console.viewing():
        yield "retry: 1000\n\n"
        while console.parts.access.is_still(caller):
            missed = tables.since(last_id, names)
            last_id, told = tables.id, [tables.snapshot(names)] if missed is None else missed
            for each in told:
                yield f"event: state\nid: {last_id}\ndata: {each}\n\n"
            if once:
                return
            while tables.id == last_id:
                if not await console.wait_change(COMMENT_S):
                    yield ": here\n\n"


@router.get(
    "/watch",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events `messages`."}},
)
async def watch(
    request: Request,
    caller: Viewer,
    pattern: Annotated[
        str, Query(min_length=1, max_length=255, description="Topics: * is one level, > all.")
    ],
    selector: Annotated[str, Query(max_length=10_000)] = "",
    once: Annotated[bool, Query(description="End after the first event.")] = False,
) -> StreamingResponse:
    """Server-sent events.

    Messages of topics as they are published, some of them if there are many, and all counted.
    """
    console = console_of(request)
    if pattern.startswith("_"):
        raise HTTPException(400, f"{pattern[:50]!r} is reserved: topics that begin with '_' are Shoal's own.")
    if console.parts.bus is None:
        raise HTTPException(503, "This console has no connection.")
    if console.watches >= WATCHES_MAX:
        raise HTTPException(503, f"{WATCHES_MAX} topics are watched already.")
    wanted = Selector(selector) if selector else None
    subscription = console.parts.bus.subscribe(
        pattern, selector=wanted, queue_full="drop_old", queue_bytes_max=WATCH_BYTES
    )
    return StreamingResponse(_watch(console, caller, subscription, once), media_type="text/event-stream")


async def _watch(
    console: Console, caller: Caller, subscription: shoal.Subscription, once: bool
) -> AsyncIterator[str]:
    console.watches += 1
    heard, said_s = 0, time.monotonic()
    try:
        yield "retry: 1000\n\n"
        while console.parts.access.is_still(caller):
            messages = subscription.receive_nowait(100_000)
            heard += len(messages)
            now = time.monotonic()
            if messages or once or now - said_s >= 1.0:
                said_s = now
                rows = [message_row(each) for each in messages[-WATCH_ROWS:]]
                yield f"event: messages\ndata: {json.dumps({'heard': heard, 'rows': rows})}\n\n"
            if once:
                return
            await asyncio.sleep(WATCH_S)
    finally:
        console.watches -= 1
        with contextlib.suppress(shoal.ShoalError):
            subscription.close()
