"""A daemon's part with registries: it registers, hears of changes, and connects to the other daemons.

A thread for each registry. A list opens links and never closes one, so a registry that is away, starts again
or tells nonsense disconnects no daemon. An address that left every list ten minutes ago is dialled no more.
"""

import contextlib
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable

from shoal.config.target import Target
from shoal.daemon.guard import Guard
from shoal.daemon.mesh import chords, chosen, neighbours
from shoal.errors import LinkError, ShoalError
from shoal.link.challenge import new_secret
from shoal.link.connect_times import connect_times
from shoal.link.dialler import Dialler
from shoal.link.directory import STAMP_BYTES, Record, open_stamp
from shoal.link.keeper import Keeper
from shoal.link.registry_client import Listing, RegistryClient
from shoal.messages import registry as notices
from shoal.threads import start

log = logging.getLogger("shoal.daemon")

#: A registry that does not answer is asked again after this.
AGAIN_S = 2.0
#: An address that left the lists is dialled no more after this, unless it is connected.
FORGET_S = 600.0
#: How long closing waits for a goodbye to each registry.
LEAVE_S = 2.0
#: Where no datagram arrives, behind NAT say, a registry is asked for changes; each question waits for this.
POLL_S = 1.5
#: Daemons that lists make this one connect to.
DIALLED_MAX = 256


class Mesh:
    """The links that lists asked for. May be shared between threads."""

    def __init__(
        self,
        keeper: Keeper,
        own: str,
        clock: Callable[[], float] = time.monotonic,
        measure: Callable[[Iterable[Target]], dict[Target, float]] = connect_times,
    ) -> None:
        self._keeper, self._own, self._clock, self._measure = keeper, own, clock, measure
        self._lock = threading.Lock()
        #: By the URL that is dialled: its dialler, and when a list last wanted it.
        self._dialled: dict[str, tuple[Dialler, float]] = {}
        #: How long a connection took to daemons that a chord may lead to.
        self._took_s: dict[Target, float] = {}

    def use(self, records: list[Record]) -> None:
        """Connect to the neighbours that a list has, beside those that are connected."""
        wanted = self._wanted(records)
        now = self._clock()
        with self._lock:
            for record in wanted:
                url = record.endpoints[0].target.url
                known = self._dialled.get(url)
                if known is None:
                    if len(self._dialled) >= DIALLED_MAX:
                        continue
                    notices.PEER_FOUND(name=record.name, url=url).log(log)
                    known = (self._keeper.connect(record.endpoints[0].target), now)
                self._dialled[url] = (known[0], now)
            for url, (dialler, at) in list(self._dialled.items()):
                if now >= at + FORGET_S and dialler.state != "up":
                    self._keeper.forget(dialler)
                    del self._dialled[url]

    def _wanted(self, records: list[Record]) -> list[Record]:
        """The neighbours that listen somewhere, and the daemon that each chord leads to."""
        names = {record.publisher for record in records}
        places = {each.publisher: each.endpoints[0].target for each in records if each.endpoints}
        lengths = chords(self._own, names)
        candidates = {each for chord in lengths for each in chord if each in places}
        with self._lock:
            linked = {each for each in candidates if places[each].url in self._dialled}
            known = self._took_s
        new = [places[each] for each in candidates if places[each] not in known]
        measured = {**known, **(self._measure(new) if new else {})}
        took_s = {each: measured.get(places[each], math.inf) for each in candidates}
        with self._lock:
            # One that could not be connected to is measured again with the next list.
            self._took_s = {places[each]: took for each, took in took_s.items() if took < math.inf}
        found = neighbours(self._own, names) | chosen(lengths, linked, took_s)
        return [record for record in records if record.publisher in found and record.publisher in places]


class Registering:
    """One daemon's registrations. Close it to say goodbye."""

    def __init__(
        self,
        clients: list[RegistryClient],
        mesh: Mesh,
        guard: Guard,
        record: Callable[[str], Record],
        domain: str,
    ) -> None:
        """Register with every registry; `record` makes what to say, given this machine's address."""
        self._stopped = threading.Event()
        self._ones = [_Registration(client, mesh, guard, record, domain, self._stopped) for client in clients]
        guard.use_secrets(one.secret for one in self._ones)
        for one in self._ones:
            start(one.thread)

    def refresh(self, patience_s: float = LEAVE_S) -> None:
        """Register again at once, and wait until registries answered, for a while."""
        before = [(one, one.answers) for one in self._ones if one.is_there]
        for one, _ in before:
            one.hurry()
        until = time.monotonic() + patience_s
        while any(one.answers == count for one, count in before) and time.monotonic() < until:
            time.sleep(0.01)

    def close(self) -> None:
        """Say goodbye, and end the threads."""
        self._stopped.set()
        for one in self._ones:
            one.wake()
        for one in self._ones:
            one.thread.join(LEAVE_S)


class _Registration:
    """A daemon at one registry."""

    def __init__(
        self,
        client: RegistryClient,
        mesh: Mesh,
        guard: Guard,
        record: Callable[[str], Record],
        domain: str,
        stopped: threading.Event,
    ) -> None:
        self._client, self._mesh, self._record, self._domain = client, mesh, record, domain
        self._guard, self._stopped = guard, stopped
        #: What the registry verifies this daemon's addresses with.
        self.secret = new_secret()
        self._unproved: dict[str, str] = {}
        # One socket hears IPv4 alone; a registry reached by IPv6 is asked for changes.
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("", 0))
        self._port = int(self._udp.getsockname()[1])
        self._key, self._echo, self._stamp, self._daemons = b"", b"", 0, 0
        #: Whether a datagram came since the registration before the last.
        self._hears = True
        self._hurries = False
        #: How often the registry answered a registration.
        self.answers = 0
        self._refresh_s = AGAIN_S
        #: Whether the registry answered last time; unknown before the first.
        self._is_there: bool | None = None
        self.thread = threading.Thread(target=self._run, name="shoal-registry", daemon=True)

    @property
    def is_there(self) -> bool:
        """Whether the registry answered last time."""
        return bool(self._is_there)

    def hurry(self) -> None:
        """Have the thread register at once."""
        self._hurries = True
        self.wake()

    def wake(self) -> None:
        """Have the thread look whether it is to end."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", ("127.0.0.1", self._port))

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    self._register()
                    self._hear(time.monotonic() + self._refresh_s)
                except ShoalError as error:
                    self._note(False, str(error))
                    self._stopped.wait(AGAIN_S)
            with contextlib.suppress(ShoalError):
                if self._is_there:
                    self._client.leave(self._record("").publisher)
        finally:
            self._udp.close()

    def _register(self) -> None:
        self._hurries = False
        record = self._record(self._client.own_address())
        answer = self._client.register(record, self._port, self._echo or None, self.secret)
        self._key, self._refresh_s = answer.key, answer.refresh_s
        for address, why in answer.unproved.items():
            if self._unproved.get(address) != why:
                notices.ADDRESS_UNPROVED(url=self._client.url, address=address, why=why).log(log)
        self._unproved = dict(answer.unproved)
        if answer.stamp != self._stamp or self._guard.wants_loads:
            self._pull()
        self._note(True, "")
        self.answers += 1

    def _pull(self) -> None:
        self._use(self._client.listing())

    def _use(self, listing: Listing | None) -> None:
        if listing is not None:
            self._stamp, self._daemons = listing.stamp, len(listing.records)
            self._guard.use(self._client.url, listing.records)
            self._mesh.use(list(listing.records))

    def _hear(self, until: float) -> None:
        """Hear of changes until it is time to register again: by datagram, or by asking if none comes."""
        if not self._hears:
            while not self._is_called() and (left_s := until - time.monotonic()) > 0:
                self._use(self._client.listing(self._stamp, min(POLL_S, left_s)))
            # What came meanwhile is heard now.
            until = time.monotonic() + 0.001
        self._hears = self._hear_datagrams(until)

    def _is_called(self) -> bool:
        return self._hurries or self._stopped.is_set()

    def _hear_datagrams(self, until: float) -> bool:
        """Hear datagrams: whether one came."""
        came = False
        while not self._is_called() and (left_s := until - time.monotonic()) > 0:
            self._udp.settimeout(left_s)
            try:
                datagram, _ = self._udp.recvfrom(STAMP_BYTES + 1)
            except TimeoutError:
                return came
            except OSError as error:
                raise LinkError(f"Datagrams of the registry cannot be heard: {error}.") from error
            heard = open_stamp(datagram, self._domain, self._key)
            if heard is None:
                continue
            came, is_new = True, self._echo != heard.echo
            self._echo = heard.echo
            if heard.stamp != self._stamp:
                self._pull()
            if is_new:
                # The registry sends datagrams only where one was echoed.
                return True
        return came

    def _note(self, is_there: bool, why: str) -> None:
        if is_there and self._is_there is False:
            notices.REGISTRY_BACK(url=self._client.url, daemons=self._daemons).log(log)
        elif not is_there and self._is_there is not False:
            notices.REGISTRY_AWAY(why=why).log(log)
        self._is_there = is_there
