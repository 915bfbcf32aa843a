"""What every request passes first.

The Host header, the length of its body, and the headers that browsers obey.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The longest body of a request.
BODY_BYTES_MAX = 256 << 10
#: Scripts, styles, pictures and connections of the console's own origin alone; nothing inline, no eval, no
#: frame.
CSP = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


class Guard:
    """Stands before the application."""

    def __init__(self, app: App, hosts: Callable[[], frozenset[str]]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or give it to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        is_api = str(scope["path"]).startswith("/api/")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                cache = b"no-store" if is_api else b"no-cache"
                message["headers"] = [*message["headers"], *HEADERS, (b"cache-control", cache)]
            await send(message)

        host = headers.get(b"host", b"").decode("latin-1").lower()
        length = headers.get(b"content-length", b"0").decode("latin-1")
        if host not in self._hosts():
            allowed = ", ".join(sorted(self._hosts()))
            await _refuse(
                sending, 421, f"This console is not {host!r}, but {allowed}. Add --name for another name."
            )
        elif b"transfer-encoding" in headers or not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            await _refuse(sending, 413, f"A body has a Content-Length of at most {BODY_BYTES_MAX}.")
        else:
            await self._app(scope, receive, sending)


async def _refuse(send: Send, status: int, why: str) -> None:
    body = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
