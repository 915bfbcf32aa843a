"""Health and metrics over HTTP: `/health`, `/status`, `/metrics`, and nothing else.

Reads only. A client that asks slowly, or asks for something else, disturbs no other.
"""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shoal.errors import LinkError
from shoal.monitor import metrics
from shoal.monitor.config import HttpConfig

#: A client that says nothing for this time is hung up on.
TIMEOUT_S = 5.0
#: Requests at once, at the most; others are hung up on at once.
REQUESTS_MAX = 32


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"
    server_version = "shoald"
    sys_version = ""
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status = self.server.status()
        if path == "/health":
            fine = status["healthy"]
            code = HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE
            why = status["trouble"]
            self._send(code, "text/plain; charset=utf-8", "ok\n" if fine else f"{why}\n")
        elif path == "/status":
            self._send(HTTPStatus.OK, "application/json", json.dumps(status) + "\n")
        elif path == "/metrics":
            wanted = metrics.OPEN_METRICS in (self.headers.get("Accept") or "")
            kind = metrics.OPEN_CONTENT_TYPE if wanted else metrics.CONTENT_TYPE
            self._send(HTTPStatus.OK, kind, self.server.exposition.text(status, open_metrics=wanted))
        else:
            known = "there are /health, /status and /metrics\n"
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", known)

    do_HEAD = do_GET  # noqa: N815 - as http.server wants it

    def _send(self, code: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a scraper comes every few seconds."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, port: int, status: Callable[[], Mapping[str, Any]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.status = status
        self.exposition = metrics.Exposition()
        self._room = threading.BoundedSemaphore(REQUESTS_MAX)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up in the middle is no error of ours."""


class HttpEndpoint:
    """The endpoint, until it is closed."""

    def __init__(self, config: HttpConfig, status: Callable[[], Mapping[str, Any]]) -> None:
        host, port = config.address()
        try:
            self._server = _Server(host, port, status)
        except OSError as error:
            raise LinkError(
                f"http.listen is {config.listen!r}, which cannot be listened at: {error}"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="shoal-http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
