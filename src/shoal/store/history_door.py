"""The history server of a store, and of a member that follows.

It is found by name: it needs Arrow, and a store does not.
"""

import importlib
import json
import logging
from typing import Any

from shoal.errors import ConfigError
from shoal.messages import store as notices
from shoal.store.certificate import Certificate
from shoal.store.config import StoreConfig, is_loopback

log = logging.getLogger("shoal.store")

ENDPOINT = "endpoint.json"


class HistoryDoor:
    """An open history server, and the file that says where it listens."""

    def __init__(
        self, store: Any, config: StoreConfig, principals: Any, rules: Any, certificate: Certificate | None
    ) -> None:
        host, port = config.flight_address()
        try:
            server = importlib.import_module("shoal.history.server")
        except ImportError as error:
            raise ConfigError(
                f"flight is {config.flight!r}, which needs pyarrow: pip install 'shoal[history]' ({error})"
            ) from None
        if not is_loopback(host):
            if principals is None:
                notices.HISTORY_OPEN(host=host).log(log)
            if certificate is None:
                notices.HISTORY_IN_CLEAR(address=config.flight).log(log)
        self._server = server.start(
            store,
            host=host,
            port=port,
            principals=principals,
            rules=rules,
            certificate=None if certificate is None else certificate.pem(),
        )
        self._file = config.path / ENDPOINT
        unfinished = self._file.with_suffix(".json.new")
        try:
            fingerprint = None if certificate is None else certificate.fingerprint
            unfinished.write_text(json.dumps({"flight": self.endpoint, "fingerprint": fingerprint}))
            unfinished.replace(self._file)
        except OSError as error:
            notices.ENDPOINT_NOT_WRITTEN(endpoint=self.endpoint, why=error).log(log)

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return str(self._server.endpoint)

    def close(self) -> None:
        """End running calls, and listen no more."""
        self._server.close()
        self._file.unlink(missing_ok=True)
