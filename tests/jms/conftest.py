"""Two programs of JMS in one process, each on a node of its own, over the link that was asked for.

`SHOAL_JMS_LINK` names it: `inproc` if nothing does, `norm`, `tcp`, `router`. `SHOAL_JMS_STORE` says where
stores are: `embedded` in a node of the test, or in a `process` of their own. `make jms-matrix` runs all of
them; tests that are marked `every_link` run over several in any case.
"""

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from killed_store import KilledStore
from store_node import listening_url

import shoal
from shoal import jms

LINK = os.environ.get("SHOAL_JMS_LINK", "inproc")
STORE = os.environ.get("SHOAL_JMS_STORE", "embedded")
HERE = Path(__file__).parent
#: Where tests that are marked `every_link` run: link and store.
EVERYWHERE = [
    ("inproc", "embedded"),
    ("norm", "embedded"),
    ("tcp", "embedded"),
    ("router", "embedded"),
    ("norm", "process"),
    ("tcp", "process"),
]
#: How long anything may take before a test gives up on it.
PATIENCE_S = 30.0

_numbers = itertools.count(os.getpid() * 100)
NON_PERSISTENT = jms.DeliveryMode.NON_PERSISTENT


@dataclass
class World:
    """A node that sends and a node that receives."""

    sending: shoal.Bus
    receiving: shoal.Bus
    closing: list[Callable[[], object]] = field(default_factory=list)

    def factory(self, bus: shoal.Bus, **options: Any) -> jms.ConnectionFactory:
        options.setdefault("default_delivery_mode", NON_PERSISTENT)
        return jms.ConnectionFactory(bus=bus, **options)

    def sender(self, mode: int = jms.Session.AUTO_ACKNOWLEDGE, **options: Any) -> jms.JMSContext:
        """A context of the node that sends."""
        return self._kept(self.factory(self.sending, **options).create_context(mode))

    def receiver(self, mode: int = jms.Session.AUTO_ACKNOWLEDGE, **options: Any) -> jms.JMSContext:
        """A context of the node that receives."""
        return self._kept(self.factory(self.receiving, **options).create_context(mode))

    def connection(self, **options: Any) -> jms.Connection:
        """A connection of the node that receives."""
        return self._kept(self.factory(self.receiving, **options).create_connection())

    def _kept(self, thing: Any) -> Any:
        self.closing.append(thing.close)
        return thing

    def wait(self, topic: str, count: int = 1) -> None:
        """Until the sending node knows that somebody subscribes."""
        assert self.sending.wait_for_subscribers(topic, count, PATIENCE_S)

    def exchange(self, message: jms.Message, selector: str | None = None, **producer: Any) -> jms.Message:
        """Send a message across, and return what arrives."""
        sender, receiver = self.sender(), self.receiver()
        topic = receiver.create_topic(f"exchange/{next(_numbers)}")
        consumer = receiver.create_consumer(topic, selector)
        self.wait(topic.name)
        sender._session.create_producer(topic).send(message, **producer)
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert arrived is not None
        return arrived


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark."""
    config.addinivalue_line("markers", "every_link: runs over several kinds of link and places of the store")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have marked tests run over several links, unless one was asked for."""
    is_marked = metafunc.definition.get_closest_marker("every_link") is not None
    if is_marked and "SHOAL_JMS_LINK" not in os.environ:
        uses_store = "bus" in metafunc.fixturenames
        places = [
            each
            for each in EVERYWHERE
            if (each != ("tcp", "embedded") if uses_store else each[1] == "embedded")
        ]
        metafunc.parametrize("place", places, ids=["-".join(each) for each in places])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests that use no link, run those of the first cell of the matrix alone: others repeat them."""
    if "SHOAL_JMS_LINK" not in os.environ or (LINK, STORE) in EVERYWHERE[:1]:
        return
    is_repeated = [HERE in item.path.parents and "place" not in _fixtures(item) for item in items]
    config.hook.pytest_deselected(items=list(itertools.compress(items, is_repeated)))
    items[:] = [item for item, repeated in zip(items, is_repeated, strict=True) if not repeated]


def _fixtures(item: pytest.Item) -> list[str]:
    names: list[str] = getattr(item, "fixturenames", [])
    return names


@pytest.fixture
def place() -> tuple[str, str]:
    """The link of a test, and where its store is."""
    return LINK, STORE


@pytest.fixture
def world(place: tuple[str, str]) -> Iterator[World]:
    """Two nodes."""
    with contextlib.ExitStack() as open_nodes:
        made = World(*two_nodes(place[0], open_nodes))
        yield made
        for close in reversed(made.closing):
            close()


def two_nodes(link: str, open_nodes: contextlib.ExitStack) -> tuple[shoal.Bus, shoal.Bus]:
    """One that sends and one that receives, closed with the stack."""
    number = next(_numbers)
    if link == "inproc":
        one, other = (open_nodes.enter_context(shoal.connect(f"inproc://jms-{number}")) for _ in range(2))
    elif link == "norm":
        options: Any = {"domain": f"jms-{number}", "interface": "lo"}
        one, other = (open_nodes.enter_context(shoal.connect("norm://", **options)) for _ in range(2))
    elif link == "tcp":
        one = open_nodes.enter_context(shoal.listen("tcp://127.0.0.1:0"))
        other = open_nodes.enter_context(shoal.connect(listening_url(one)))
    elif link == "router":
        router = open_nodes.enter_context(shoal.listen("tcp://127.0.0.1:0", router=True))
        one, other = (open_nodes.enter_context(shoal.connect(listening_url(router))) for _ in range(2))
    else:
        raise pytest.UsageError(f"SHOAL_JMS_LINK is {link!r}, and must be inproc, norm, tcp or router")
    return one, other


@pytest.fixture
def bus(place: tuple[str, str], tmp_path: Path) -> Iterator[shoal.Bus]:
    """A node with a store: its own, or one that it reaches over the link that was asked for."""
    with open_stored(*place, tmp_path / "store") as bus:
        yield bus


@pytest.fixture
def factory(bus: shoal.Bus) -> jms.ConnectionFactory:
    """Makes connections on a node with a store; they send persistent messages."""
    return jms.ConnectionFactory(bus=bus)


@contextlib.contextmanager
def open_stored(link: str, store: str, directory: Path) -> Iterator[shoal.Bus]:
    """A node for which a store is there."""
    domain = f"jms-{next(_numbers)}"
    options: Any = {"domain": domain, "interface": "lo"}
    with contextlib.ExitStack() as open_nodes:
        enter = open_nodes.enter_context
        if store == "process":
            url = enter(store_process(link, directory, domain))
            yield enter(shoal.connect(url, **(options if link == "norm" else {})))
        elif link == "tcp":
            keeper = enter(shoal.listen("tcp://127.0.0.1:0", store=directory, router=True))
            yield enter(shoal.connect(listening_url(keeper)))
        elif link == "router":
            router = enter(shoal.listen("tcp://127.0.0.1:0", router=True))
            enter(shoal.connect(listening_url(router), store=directory))
            yield enter(shoal.connect(listening_url(router)))
        elif link == "norm":
            yield enter(shoal.connect("norm://", store=directory, **options))
        else:
            yield enter(shoal.connect(f"inproc://{domain}", store=directory))


@contextlib.contextmanager
def store_process(link: str, directory: Path, domain: str) -> Iterator[str]:
    """A store in a process of its own, and the URL by which it is reached."""
    if link not in ("norm", "tcp"):
        raise pytest.UsageError("a store in a process of its own needs SHOAL_JMS_LINK=norm or tcp")
    command = [sys.executable, str(HERE / "store_node.py"), link, str(directory), domain]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url, "the store did not start"
            yield url
        finally:
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KilledStore]:
    """A store that a test kills."""
    made = KilledStore(tmp_path / "store")
    yield made
    made.kill()


@pytest.fixture
def url() -> str:
    """A domain inside this process that no other test uses."""
    return f"inproc://jms-{next(_numbers)}"


@pytest.fixture
def topic_name() -> str:
    return f"topics/{next(_numbers)}"
