"""History of stores: search, counts over time, Parquet."""

import asyncio
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from shoal.console.access import Caller
from shoal.console.history import BUCKETS_MAX, ROWS_MAX, Search
from shoal.console.routes.common import REFUSALS, allowed, console_of

router = APIRouter(prefix="/history", tags=["history"], responses=REFUSALS)

Store = Annotated[str, Query(min_length=1, max_length=255)]
Patterns = Annotated[
    str,
    Query(
        max_length=2000, description="Topics, separated by spaces: * is one level, > all. None: everything."
    ),
]
Selecting = Annotated[str, Query(max_length=10_000)]
Time = Annotated[float | None, Query(ge=0, le=4e9, description="Seconds since 1970, by the time of storing.")]


def _search(store: str, patterns: str, selector: str, start: float | None, end: float | None) -> Search:
    return Search(
        store=store,
        patterns=tuple(patterns.split()[:100]),
        selector=selector or None,
        from_us=None if start is None else int(start * 1e6),
        to_us=None if end is None else int(end * 1e6),
    )


@router.get("", dependencies=[Depends(allowed("viewer"))])
def search(
    request: Request,
    store: Store,
    patterns: Patterns = "",
    selector: Selecting = "",
    from_s: Time = None,
    to_s: Time = None,
    limit: Annotated[int, Query(ge=1, le=ROWS_MAX)] = 100,
    start: Annotated[int | None, Query(ge=0, le=1 << 62, description="The offset to go on from.")] = None,
) -> dict[str, Any]:
    """Messages that a store recorded, the oldest first."""
    histories = console_of(request).parts.histories
    return histories.search(_search(store, patterns, selector, from_s, to_s), limit, start)


@router.get("/counts", dependencies=[Depends(allowed("viewer"))])
def counts(
    request: Request,
    store: Store,
    from_s: Annotated[float, Query(ge=0, le=4e9)],
    to_s: Annotated[float, Query(ge=0, le=4e9)],
    patterns: Patterns = "",
    selector: Selecting = "",
    buckets: Annotated[int, Query(ge=1, le=BUCKETS_MAX)] = 60,
) -> dict[str, Any]:
    """How many messages match, in each part of a span of time."""
    return console_of(request).parts.histories.counts(
        _search(store, patterns, selector, from_s, to_s), buckets
    )


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/vnd.apache.parquet": {}}, "description": "A Parquet file."}},
)
async def export(
    request: Request,
    caller: Annotated[Caller, Depends(allowed("operator"))],
    store: Store,
    patterns: Patterns = "",
    selector: Selecting = "",
    from_s: Time = None,
    to_s: Time = None,
) -> StreamingResponse:
    """Messages that a store recorded, as a Parquet file."""
    console = console_of(request)
    parts = console.parts.histories.parquet(_search(store, patterns, selector, from_s, to_s))
    # What is wrong with the question is answered before the file begins.
    first = await asyncio.to_thread(next, parts, b"")
    await asyncio.to_thread(console.note, caller, "export", f"{store} {patterns}".strip(), result="done")

    def file() -> Any:
        yield first
        yield from parts

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", store) or "history"
    return StreamingResponse(
        file(),
        media_type="application/vnd.apache.parquet",
        headers={"Content-Disposition": f'attachment; filename="{name}.parquet"'},
    )
