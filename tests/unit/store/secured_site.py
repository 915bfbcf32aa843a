"""A store with tokens, and the files of its principals."""

from pathlib import Path
from typing import Any

import shoal
from shoal.cli.token import new
from shoal.config import ConnectionConfig
from shoal.store import Store
from shoal.store.config import resolve

NAMES = ("ann", "bob", "chief")


class Site:
    """A store, and the files of its principals."""

    def __init__(self, path: Path, domain: str, **options: Any) -> None:
        self.path, self.domain = path, domain
        for name in NAMES:
            new(name, path / "tokens", path / f"{name}.token", "operator" if name == "chief" else "client")
        config = resolve(path / "data", listen="127.0.0.1:0", tokens=path / "tokens", **options)
        self.store = Store(config, ConnectionConfig(scheme="inproc", domain=domain))
        self.store.wait_open(10)

    def connect(self, **options: Any) -> shoal.Bus:
        # Another name: what is in the same process and domain needs no proof.
        return shoal.connect(f"inproc://{self.domain}", store=self.store.urls[0], **options)

    def token(self, name: str) -> Path:
        return self.path / f"{name}.token"
