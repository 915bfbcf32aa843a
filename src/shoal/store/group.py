"""A member of a group of stores: three keep one log, one of them owns it and serves.

The log and its replica (`_core.Member`) decide who owns; see `docs/design/replication.md`. A member finds
the others by what they say on the domain's bus, and founds the group with them once. As long as it owns the
group it has a `Store` over the log, the same that a store alone has; when another member is elected, that
store ends, and the log stays.

One thread carries: messages of members, the clock, the disk of a follower. The owner of a `Group` object
calls `turn` often: `turn` opens and ends the store, which takes a moment.
"""

import contextlib
import json
import logging
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from shoal import _core
from shoal._core import Log, Member
from shoal.bus.inside import begin, core_of
from shoal.bus.store_protocol import body_of
from shoal.bus.sync import Bus
from shoal.config import ConnectionConfig
from shoal.config.checks import Checked
from shoal.config.target import LOOPBACK, Target
from shoal.errors import ClosedError, ConfigError, FullError, ShoalError, StoreError
from shoal.messages import store as notices
from shoal.store.certificate import certificate_of
from shoal.store.config import StoreConfig
from shoal.store.founding import MEMBERS_MAX, Founding, Record
from shoal.store.held import Held
from shoal.store.peers import Peers, Seal
from shoal.store.role import Store, is_loopback, log_options
from shoal.store.serving import listening
from shoal.system import Readable

log = logging.getLogger("shoal.store")

#: How often a member says that it is here.
HERE_EVERY_S = 0.5
#: A member that said nothing for so long does not take part in founding a group.
SILENT_S = 3.0
#: How long the thread waits at the most before it looks whether to end.
WAIT_MAX_S = 0.25
#: How often the status is written, and when one is too old.
STATUS_EVERY_S, STALE_S = 1.0, 10.0
#: How long a member that ends waits for another one to own the group.
TRANSFER_S = 1.5
#: Version of what members say to each other.
VERSION = 1
STATUS = "group-status.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_INBOX, _HERES, _REPLICA = 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class GroupConfig(Checked):
    """A group of stores, for one of its members."""

    #: What all members call it.
    name: str
    #: Of how many members to found it; none joins one that another member founds.
    bootstrap: int | None = None
    #: What members prove to each other. None lets every program join that reaches them.
    token: bytes | None = None
    #: An owner that is silent for so long is replaced.
    election_s: float = 1.0
    #: Where members connect: `HOST:PORT`, port 0 being a free one. None is one of the domain's interface.
    listen: str | None = None

    def __post_init__(self) -> None:
        self.check("name", _NAME.fullmatch(self.name) is not None, "letters, digits, '_', '.' and '-'")
        if self.bootstrap is not None:
            self.check_range("bootstrap", 2, MEMBERS_MAX)
        self.check_range("election_s", 0.1, 60.0)
        if self.listen is not None:
            self.listen_address()

    def listen_address(self) -> tuple[str, int]:
        """Where members connect, if that was said."""
        host, _, port = (self.listen or "").rpartition(":")
        self.check("listen", bool(host) and port.isdecimal() and int(port) < 65_536, "HOST:PORT")
        return host.strip("[]"), int(port)


def token_from(path: Path) -> bytes:
    """The token of a group, from a file."""
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"the group's token cannot be read: {error}") from None
    if len(token) < 16:
        raise ConfigError(
            f"the group's token in {path} has {len(token)} bytes, and must have 16 or more: "
            "make one with `openssl rand -hex 32`"
        )
    return token


@dataclass(frozen=True, slots=True)
class Heard:
    """What another member said of itself."""

    at_s: float
    name: str
    url: str
    fingerprint: str | None
    is_joining: bool


class Group:
    """An open member. `turn` and `close` are for one thread at a time."""

    def __init__(self, store: StoreConfig, connection: ConnectionConfig, group: GroupConfig) -> None:
        if store.tokens is not None and group.token is None:
            raise ConfigError(
                "the store asks clients for tokens, and members of its group would need none: add "
                "--group-token-file FILE, with the same token for every member"
            )
        self.config, self.group = store, group
        self._connection = connection
        self._seal = Seal(group.token, group.name)
        self._record = Record.open(store.path, group.name)
        self._log: Log | None = None
        self._member: Member | None = None
        #: The store, while this member owns the group.
        self.store: Store | None = None
        self._error: BaseException | None = None
        self._stopping = threading.Event()
        #: Set when the store should be opened or ended, or the member failed.
        self._changed = threading.Event()
        self._heard: dict[int, Heard] = {}
        self._said_at_s = self._written_at_s = 0.0
        self._owner: int | None = None
        self._bell = _core.Bell()
        self._certificate = certificate_of(store, [socket.gethostname(), LOOPBACK])
        self._bus = Bus(connection)
        try:
            begin(self._bus)
            self._door, self.url = self._listen(connection)
            self._peers = Peers(self._door, connection.domain, group.name, self._record.member, self._seal)
            self._peers.attach_bell(self._bell, _INBOX)
            self._heres = self._bus.subscribe(self._topic, no_local=True, queue_full="drop_old")
            core_of(self._heres).attach_bell(self._bell, _HERES)
            if self._record.founding is not None:
                self._open_log()
        except BaseException:
            self._bus.close(0)
            raise
        self._thread = threading.Thread(target=self._run, name="shoal-group", daemon=True)
        self._thread.start()

    def _listen(self, connection: ConnectionConfig) -> tuple[Bus, str]:
        """Where members connect: the bus, and its address."""
        own = str(self._bus.link().get("address") or "").rpartition(":")[0].strip("[]") or LOOPBACK
        if self.group.listen is not None:
            host, port = self.group.listen_address()
        else:
            # What is encrypted on multicast must not be readable elsewhere unless somebody asked.
            has_key = connection.key is not None or connection.key_file is not None
            host, port = LOOPBACK if has_key else own, 0
        bus, url = listening(connection, host, port, self._certificate)
        if host in ("0.0.0.0", "::"):
            url = Target("tcp" if self._certificate is None else "tls", own, int(url.rpartition(":")[2])).url
        if self.group.token is None and not is_loopback(host):
            notices.MEMBERS_UNPROVEN(group=self.group.name, url=url).log(log)
        return bus, url

    @property
    def _topic(self) -> str:
        return f"_group/{self.group.name}/here"

    @property
    def member(self) -> int:
        """The id of this member's disk."""
        return self._record.member

    def _open_log(self) -> None:
        record = self._record
        founding = record.founding
        assert founding is not None
        agreed = None
        if not record.has_begun:
            incarnation = bytes.fromhex(founding.incarnation)
            agreed = (founding.store, incarnation, list(founding.members), founding.at_us)
        self._log = Log.of_member(
            self.config.path,
            member=record.member,
            founding=agreed,
            election_s=self.group.election_s,
            **log_options(self.config),
        )
        self._record = record if record.has_begun else record.begun()
        self._member = Member(self._log)
        self._member.attach_bell(self._bell, _REPLICA)

    # The thread.

    def _run(self) -> None:
        rings = Readable(self._bell.fileno())
        due_s = 0.0
        try:
            while not self._stopping.is_set():
                left_s = max(0.0, min(due_s - time.monotonic(), WAIT_MAX_S))
                rings.wait(left_s)
                self._bell.take()
                self._hear()
                now_s = time.monotonic()
                if now_s - self._said_at_s >= HERE_EVERY_S:
                    self._said_at_s = now_s
                    self._say()
                if self._member is None:
                    self._found(now_s)
                    due_s = now_s + WAIT_MAX_S
                    continue
                due_s = self._carry(self._member, due_s)
                if now_s - self._written_at_s >= STATUS_EVERY_S:
                    self._written_at_s = now_s
                    self._write_status()
        except (ShoalError, OSError) as error:
            if not self._stopping.is_set():
                self._fail(error)
        except Exception as error:
            # A mistake of ours. A member that no other one hears any more is none.
            self._fail(StoreError(f"the member of the group cannot go on: {error!r}"))

    def _carry(self, member: Member, due_s: float) -> float:
        """Hand over what came and send what is to be sent; when to look at the clock next."""
        self._peers.take(member.handle_message)
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + member.handle_timeout()
        if self.store is None or not member.is_elected:
            # An owner's store syncs by itself, and answers of others must not wait for that.
            member.sync()
        if member.failure is not None:
            raise StoreError(f"the log of this member failed: {member.failure}")
        for to, content in member.take_transmits():
            self._peers.send(to, content)
        for _ in member.take_events():
            self._changed.set()
        if (self.store is None) == member.owns:
            self._changed.set()
        return due_s

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            notices.STORE_STOPPED(path=self.config.path, why=error).log(log)
        self._changed.set()

    # Who is there.

    def _say(self) -> None:
        """Say that this member is here, and what the group was founded with."""
        record = self._record
        said = {
            "version": VERSION,
            "member": record.member,
            "name": self.config.name,
            "url": self.url,
            "fingerprint": None if self._certificate is None else self._certificate.fingerprint,
            "joining": record.founding is None,
            "founding": None if record.founding is None else record.founding.said(),
        }
        body = {"sealed": self._seal.close(json.dumps(said).encode())}
        with contextlib.suppress(FullError, ClosedError):
            self._bus.publish(self._topic, body, timeout_s=0.0)

    def _hear(self) -> None:
        for message in self._heres.receive_nowait(100):
            body = body_of(message)
            sealed = None if body is None else body.get("sealed")
            content = self._seal.open(sealed) if isinstance(sealed, bytes) else None
            if content is None:
                self._peers.unproven += 1
                continue
            with contextlib.suppress(ValueError):
                self._meet(json.loads(content))

    def _meet(self, said: Any) -> None:
        if not isinstance(said, dict) or said.get("version") != VERSION:
            return
        member, url, name = said.get("member"), said.get("url"), said.get("name")
        fingerprint = said.get("fingerprint")
        if not isinstance(member, int) or not isinstance(url, str) or not isinstance(name, str):
            return
        if not 0 < member < 1 << 63 or not (fingerprint is None or isinstance(fingerprint, str)):
            return
        founding = self._record.founding
        is_known = founding is not None and member in founding.members
        if not is_known and member not in self._heard and len(self._heard) >= 2 * MEMBERS_MAX:
            self._forget_silent()
            if len(self._heard) >= 2 * MEMBERS_MAX:
                return
        is_joining = said.get("joining") is True
        self._heard[member] = Heard(time.monotonic(), name, url, fingerprint, is_joining)
        if is_known:
            self._peers.meet(member, url, fingerprint)
        theirs = Founding.of(said.get("founding"))
        if founding is None and theirs is not None and theirs.group == self.group.name:
            self._join(theirs)

    def _forget_silent(self) -> None:
        now_s = time.monotonic()
        self._heard = {id_: each for id_, each in self._heard.items() if now_s - each.at_s < SILENT_S}

    def _join(self, founding: Founding) -> None:
        """Another member founded the group."""
        if self._record.member in founding.members:
            self._begin(founding)
        elif self._owner is None:
            self._owner = founding.members[0]
            notices.NOT_A_MEMBER(group=self.group.name, members=len(founding.members)).log(log)

    def _found(self, now_s: float) -> None:
        """Found the group, once as many members are here as were asked for."""
        wanted = self.group.bootstrap
        if wanted is None or self._record.founding is not None:
            return
        here = [id_ for id_, each in self._heard.items() if each.is_joining and now_s - each.at_s < SILENT_S]
        if len(here) + 1 < wanted:
            return
        members = [self._record.member, *sorted(here)[: wanted - 1]]
        self._begin(Founding.begin(self.group.name, members))

    def _begin(self, founding: Founding) -> None:
        self._record = self._record.with_founding(founding)
        self._open_log()
        for id_, each in self._heard.items():
            if id_ in founding.members:
                self._peers.meet(id_, each.url, each.fingerprint)
        notices.GROUP_FOUNDED(group=founding.group, members=len(founding.members)).log(log)
        self._say()

    # The store.

    def turn(self, timeout_s: float) -> None:
        """Open the store if this member owns the group now, and end it if it does no more.

        Raises:
            StoreError: what the member failed with.
        """
        self._changed.wait(timeout_s)
        self._changed.clear()
        if self._error is not None:
            raise self._error
        member = self._member
        if member is None:
            return
        if self.store is None and member.owns:
            self._serve(member)
        elif self.store is not None and (not member.is_elected or self.store.failure is not None):
            failure = self.store.failure
            self._end_store()
            if failure is not None and member.is_elected:
                raise failure
            notices.DEPOSED(group=self.group.name).log(log)

    def _serve(self, member: Member) -> None:
        assert self._log is not None
        assert self._record.founding is not None
        began_s, term = time.monotonic(), member.term
        try:
            held = Held(self._log, member, self._record.founding.at_us / 1e6, self.status)
            self.store = Store(self.config, self._connection, held=held)
        except StoreError:
            if member.is_elected and member.term == term:
                raise
            # Another member was elected meanwhile.
            return
        took_s = time.monotonic() - began_s
        notices.ELECTED(group=self.group.name, term=term, seconds=took_s).log(log)

    def _end_store(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            store.close()

    # How it is.

    def status(self) -> dict[str, Any]:
        """How the group is, as this member sees it."""
        member, record = self._member, self._record
        now_s = time.monotonic()
        found: dict[str, Any] = {
            "group": self.group.name,
            "member": f"{record.member:016x}",
            "name": self.config.name,
            "pid": os.getpid(),
            "at": time.time(),
            "url": self.url,
            "dropped": self._peers.dropped,
            "unproven": self._peers.unproven,
            "failure": None if self._error is None else str(self._error),
        }
        if member is None:
            joining = sum(each.is_joining and now_s - each.at_s < SILENT_S for each in self._heard.values())
            wanted = self.group.bootstrap
            return {**found, "state": "joining", "here": joining + 1, "wanted": wanted, "members": []}
        first, last, synced, commit = member.indexes
        owner, progress = member.owner, dict(member.progress)
        owns = member.owns
        voters, learners = member.members
        state = "failed" if self._error is not None else "owner" if owns else "follower"

        def described(id_: int) -> dict[str, Any]:
            heard = self._heard.get(id_)
            is_self = id_ == record.member
            silent_s = 0.0 if is_self else None if heard is None else now_s - heard.at_s
            at = synced if is_self else progress.get(id_)
            return {
                "member": f"{id_:016x}",
                "name": self.config.name if is_self else None if heard is None else heard.name,
                "url": self.url if is_self else None if heard is None else heard.url,
                "owns": id_ == owner,
                "votes": id_ in voters,
                "silent_s": silent_s,
                "on_disk": at,
                "behind": None if at is None else max(0, last - at),
            }

        return {
            **found,
            "state": state,
            "term": member.term,
            "owner": None if owner is None else f"{owner:016x}",
            "entries": {"first": first, "last": last, "on_disk": synced, "committed": commit},
            "members": [described(id_) for id_ in (*voters, *learners)],
            "unreadable": member.unreadable,
            "cuts": member.cuts,
        }

    def _write_status(self) -> None:
        path = self.config.path / STATUS
        unfinished = path.with_suffix(".json.new")
        try:
            unfinished.write_text(json.dumps(self.status()))
            unfinished.replace(path)
        except OSError as error:
            log.debug("the status of the group cannot be written: %s", error)

    # The end.

    def close(self) -> None:
        """End; if this member owns the group, let another one own it first."""
        member = self._member
        was_owner = member is not None and member.is_elected
        self._end_store()
        if member is not None and was_owner and self._error is None:
            self._hand_over(member)
        self._stopping.set()
        self._bell.ring(0)
        self._thread.join()
        self._heres.close()
        self._peers.close()
        self._door.close(0.2)
        self._bus.close(0.2)
        self._write_status()
        if self._log is not None:
            self._log.close()

    def _hand_over(self, member: Member) -> None:
        others = [(at, id_) for id_, at in member.progress if id_ != self._record.member]
        deadline_s = time.monotonic() + TRANSFER_S
        with contextlib.suppress(StoreError):
            if others:
                member.transfer(max(others)[1])
                while time.monotonic() < deadline_s and member.owner == self._record.member:
                    time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_group_status(directory: Path) -> dict[str, Any]:
    """What the member of a directory said last; `stale` says that it says nothing any more."""
    try:
        status: dict[str, Any] = json.loads((directory / STATUS).read_text())
    except FileNotFoundError:
        raise StoreError(f"{directory} has no status of a group: no member was ever open there") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"the status of the group in {directory} cannot be read: {error}") from None
    status["stale"] = time.time() - status["at"] > STALE_S
    return status
