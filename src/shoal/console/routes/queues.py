"""Queues, subscriptions and topics: looking into them, and changing them."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import Field

from shoal.console.access import Caller
from shoal.console.acts import BROWSED_MAX, Acts
from shoal.console.routes.common import (
    REFUSALS,
    Body,
    Confirm,
    Name,
    Selector,
    allowed,
    confirmed,
    console_of,
)

router = APIRouter(responses=REFUSALS)

Viewer = Annotated[Caller, Depends(allowed("viewer"))]
Operator = Annotated[Caller, Depends(allowed("operator"))]


def _acts(request: Request) -> Acts:
    acts = console_of(request).parts.acts
    if acts is None:
        raise HTTPException(503, "This console has no connection.")
    return acts


class MessageBody(Body):
    """A message to publish, or to send."""

    name: Annotated[Name, Field(description="The topic, or the queue.")]
    form: Literal["text", "json"] = "text"
    #: Text, or any JSON value.
    body: Any = None
    properties: Annotated[dict[str, str | int | float | bool], Field(max_length=100, default_factory=dict)]
    priority: Annotated[int, Field(ge=0, le=9)] = 4
    persistent: bool = False
    ttl_s: Annotated[float | None, Field(gt=0, le=1e9)] = None

    @property
    def value(self) -> Any:
        """The body to publish."""
        if self.form == "text" and not isinstance(self.body, str):
            raise HTTPException(400, "With the form text the body is a text.")
        return self.body


class MoveBody(Body):
    """Messages to move."""

    name: Name
    to: Name
    selector: Selector = None
    most: Annotated[int | None, Field(ge=1, le=10_000_000)] = None


class PurgeBody(Body):
    """Messages to drop."""

    name: Name
    selector: Selector = None
    confirm: Confirm = ""


class DeleteBody(Body):
    """A queue to delete."""

    name: Name
    confirm: Confirm = ""


class ReleaseBody(Body):
    """Messages to give back, by the name under which a job of Spark's reads."""

    name: Name


class UnsubscribeBody(Body):
    """A durable subscription to delete."""

    name: Name
    client_id: Annotated[str | None, Field(max_length=255)] = None
    shared: bool = False
    confirm: Confirm = ""


@router.post("/topics/publish", tags=["topics"])
async def publish(request: Request, caller: Operator, body: MessageBody) -> dict[str, Any]:
    """Publish a message to a topic."""
    acts, value = _acts(request), body.value
    return await console_of(request).act(
        caller,
        "publish",
        body.name,
        lambda: acts.publish(
            body.name,
            value,
            properties=dict(body.properties),
            persistent=body.persistent,
            priority=body.priority,
            ttl_s=body.ttl_s,
        ),
    )


@router.get("/queues/messages", tags=["queues"])
def browse(
    request: Request,
    _caller: Viewer,
    name: Annotated[str, Query(min_length=1, max_length=255)],
    selector: Annotated[str, Query(max_length=10_000)] = "",
    limit: Annotated[int, Query(ge=1, le=BROWSED_MAX)] = 50,
) -> dict[str, Any]:
    """The first messages that wait in a queue, without taking them."""
    return _acts(request).browse(name, selector, limit)


@router.post("/queues/send", tags=["queues"])
async def send(request: Request, caller: Operator, body: MessageBody) -> dict[str, Any]:
    """Send a message into a queue."""
    acts, value = _acts(request), body.value
    return await console_of(request).act(
        caller,
        "send",
        body.name,
        lambda: acts.send(body.name, value, properties=dict(body.properties), priority=body.priority),
    )


@router.post("/queues/move", tags=["queues"])
async def move(request: Request, caller: Operator, body: MoveBody) -> dict[str, Any]:
    """Move messages to another queue: those that wait now, or those of them that a selector selects."""
    acts = _acts(request)
    return await console_of(request).act(
        caller,
        "move",
        f"{body.name} → {body.to}",
        lambda: acts.move(body.name, body.to, body.selector, body.most),
        before=lambda: acts.depth(body.name),
    )


@router.post("/queues/purge", tags=["queues"])
async def purge(request: Request, caller: Operator, body: PurgeBody) -> dict[str, Any]:
    """Drop the messages that wait in a queue, or those of them that a selector selects."""
    acts = _acts(request)
    confirmed(body.name, body.confirm)
    return await console_of(request).act(
        caller,
        "purge",
        body.name,
        lambda: acts.purge(body.name, body.selector),
        before=lambda: acts.depth(body.name),
    )


@router.post("/queues/delete", tags=["queues"])
async def delete(request: Request, caller: Operator, body: DeleteBody) -> dict[str, Any]:
    """Delete a queue and its messages."""
    acts = _acts(request)
    confirmed(body.name, body.confirm)
    return await console_of(request).act(
        caller, "delete", body.name, lambda: acts.delete(body.name), before=lambda: acts.depth(body.name)
    )


@router.post("/queues/release", tags=["queues"])
async def release(request: Request, caller: Operator, body: ReleaseBody) -> dict[str, Any]:
    """Give back messages that a job of Spark's reserved and will not acknowledge any more."""
    acts = _acts(request)
    return await console_of(request).act(caller, "release", body.name, lambda: acts.release(body.name))


@router.post("/subscriptions/unsubscribe", tags=["subscriptions"])
async def unsubscribe(request: Request, caller: Operator, body: UnsubscribeBody) -> dict[str, Any]:
    """Delete a durable subscription and its backlog."""
    acts = _acts(request)
    confirmed(body.name, body.confirm)
    whose = f"{body.name} of {body.client_id}" if body.client_id else body.name
    return await console_of(request).act(
        caller, "unsubscribe", whose, lambda: acts.unsubscribe(body.name, body.client_id, body.shared)
    )
