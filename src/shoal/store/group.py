"""A member of a group of stores: three keep one log, one of them owns it and serves.

The log and its replica (`_core.Member`) decide who owns; see `docs/design/replication.md`. A member finds
the others by what they say on the domain's bus, and founds the group with them once. One that comes later
waits until an operator lets it join, and copies the log then. As long as a member owns the group it has a
`Store` over the log, the same that a store alone has; when another member is elected, that store ends, and
the log stays.

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
from shoal.store.config import StoreConfig, is_loopback
from shoal.store.copying import REPLICA, Copier
from shoal.store.following import Follower
from shoal.store.founding import MEMBERS_MAX, Founding, Membership, Record
from shoal.store.group_status import described, write_status
from shoal.store.held import Held
from shoal.store.operating import Commands, asks_topic
from shoal.store.peers import Peers, Seal
from shoal.store.role import Store, log_options
from shoal.store.roster import VERSION, Heard, Roster
from shoal.store.serving import listening
from shoal.system import Readable

log = logging.getLogger("shoal.store")

#: How often a member says that it is here.
HERE_EVERY_S = 0.5
#: How long the thread waits at the most before it looks whether to end.
WAIT_MAX_S = 0.25
#: Between two sealed segments that are read to see if they are whole, and two times that all are.
SCRUB_EVERY_S, SCRUB_AGAIN_S = 2.0, 86_400.0
#: How often the status is written.
STATUS_EVERY_S = 1.0
#: How long a member that ends waits for another one to own the group.
TRANSFER_S = 1.5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_INBOX, _HERES, _REPLICA, _ASKS = 1, 2, 3, 4


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
        self._record = Record.open(store.path, group.name).started()
        self._log: Log | None = None
        self._member: Member | None = None
        self._copier: Copier | None = None
        #: The store, while this member owns the group.
        self.store: Store | None = None
        #: Its history, while another member does.
        self._follower: Follower | None = None
        self._error: BaseException | None = None
        self._stopping = threading.Event()
        #: Set when the store should be opened or ended, or the member failed.
        self._changed = threading.Event()
        self._roster = Roster()
        self._commands = Commands(self._record.member, self._roster, self.status)
        self._said_at_s = self._written_at_s = 0.0
        #: The sealed segment that was read last, and when to read the next.
        self._scrubbed, self._scrub_at_s = 0, 0.0
        #: Whether another member was heard: it says if this directory is an old copy.
        self._is_vouched_for = False
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
            self._asks = self._door.subscribe(
                asks_topic(group.name, self._record.member), queue_full="drop_old"
            )
            core_of(self._asks).attach_bell(self._bell, _ASKS)
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
        agreed = joins = None
        if record.member not in founding.members:
            joins = founding.store
        elif not record.has_begun:
            incarnation = bytes.fromhex(founding.incarnation)
            agreed = (founding.store, incarnation, list(founding.members), founding.at_us)
        self._log = Log.of_member(
            self.config.path,
            member=record.member,
            founding=agreed,
            joins=joins,
            election_s=self.group.election_s,
            **log_options(self.config),
        )
        self._record = record if record.has_begun else record.begun()
        self._member = Member(self._log)
        # The only member has nobody to ask, and promised nothing to anybody.
        self._is_vouched_for |= self._member.members[0] == [record.member]
        self._member.attach_bell(self._bell, _REPLICA)
        self._copier = Copier(record.member, self._member)

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
                self._obey()
                now_s = time.monotonic()
                if now_s - self._said_at_s >= HERE_EVERY_S:
                    self._said_at_s = now_s
                    self._say()
                if self._member is None:
                    self._found(now_s)
                    due_s = now_s + WAIT_MAX_S
                    continue
                due_s = self._carry(self._member, self._copier, due_s)
                if now_s - self._written_at_s >= STATUS_EVERY_S:
                    self._written_at_s = now_s
                    write_status(self.config.path, self.status())
        except (ShoalError, OSError) as error:
            if not self._stopping.is_set():
                self._fail(error)
        except Exception as error:
            # A mistake of ours. A member that no other one hears any more is none.
            self._fail(StoreError(f"the member of the group cannot go on: {error!r}"))

    def _carry(self, member: Member, copier: Copier | None, due_s: float) -> float:
        """Hand over what came and send what is to be sent; when to look at the clock next."""
        assert copier is not None
        self._peers.take(self._take)
        now_s = time.monotonic()
        copier.handle_timeout(now_s)
        if now_s >= due_s:
            due_s = now_s + member.handle_timeout()
        if self.store is None or not member.is_elected:
            # An owner's store syncs by itself, and answers of others must not wait for that.
            member.sync()
        if member.failure is not None:
            raise StoreError(f"the log of this member failed: {member.failure}")
        for to, content in (*member.take_transmits(), *copier.take_transmits()):
            self._peers.send(to, content)
        for what, _, _ in member.take_events():
            if what == "members":
                self._note_members(member)
            self._changed.set()
        if (self.store is None) == member.owns:
            self._changed.set()
        return due_s

    def _take(self, content: bytes) -> None:
        """Bytes of another member."""
        if self._member is None or self._copier is None or not self._is_vouched_for or not content:
            return
        if content[0] == REPLICA:
            self._member.handle_message(content)
        else:
            self._copier.handle_message(content, time.monotonic())

    def _note_members(self, member: Member) -> None:
        voters, learners = member.members
        here = {each.member for each in self._roster.here(time.monotonic())}
        self._peers.keep({*voters, *learners, *here})
        notices.MEMBERS_CHANGED(group=self.group.name, voters=len(voters), learners=len(learners)).log(log)

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            notices.STORE_STOPPED(path=self.config.path, why=error).log(log)
        self._changed.set()

    # Who is there.

    def _say(self) -> None:
        """Say that this member is here, and what the group was founded with."""
        record = self._record
        members = self._membership()
        said = {
            "version": VERSION,
            "member": record.member,
            "name": self.config.name,
            "url": self.url,
            "fingerprint": None if self._certificate is None else self._certificate.fingerprint,
            "joining": record.founding is None,
            "founding": None if record.founding is None else record.founding.said(),
            "members": None if members is None else members.said(),
            "life": record.life,
            "forced": record.forced,
            "lives": {str(member): life for member, life in record.lives.items()},
        }
        body = {"sealed": self._seal.close(json.dumps(said).encode())}
        with contextlib.suppress(FullError, ClosedError):
            self._bus.publish(self._topic, body, timeout_s=0.0)

    def _membership(self) -> Membership | None:
        """Who belongs to the group, if this store knows."""
        member = self._member
        if member is None or not member.members[0]:
            return None
        voters, learners = member.members
        return Membership(member.members_at, tuple(voters), tuple(learners))

    def _hear(self) -> None:
        for message in self._heres.receive_nowait(100):
            content = self._opened(message)
            if content is not None:
                with contextlib.suppress(ValueError):
                    self._meet(json.loads(content))

    def _opened(self, message: Any) -> bytes | None:
        """What a store of the group sent; none if it is not proven."""
        body = body_of(message)
        sealed = None if body is None else body.get("sealed")
        content = self._seal.open(sealed) if isinstance(sealed, bytes) else None
        if content is None:
            self._peers.unproven += 1
        return content

    def _obey(self) -> None:
        """Do what operators want."""
        for message in self._asks.receive_nowait(10):
            content = self._opened(message)
            if content is None:
                continue
            with contextlib.suppress(ValueError, FullError, ClosedError):
                request = json.loads(content)
                answers = request.get("answer") if isinstance(request, dict) else None
                if isinstance(answers, str) and answers.startswith(f"_group/{self.group.name}/answer/"):
                    answer = self._commands.answer(request, self._member)
                    sealed = self._seal.close(json.dumps(answer).encode())
                    self._door.publish(answers, {"sealed": sealed}, timeout_s=0.0)

    def _meet(self, said: Any) -> None:
        heard = Heard.of(said, time.monotonic())
        if heard is None or heard.member == self._record.member or not self._roster.note(heard):
            return
        theirs, founding = heard.founding, self._record.founding
        if theirs is None or theirs.group != self.group.name:
            return
        if founding is None:
            self._begin(theirs, heard.forced)
        elif theirs.store != founding.store or heard.forced < self._record.forced:
            return
        self._peers.meet(heard.member, heard.url, heard.fingerprint)
        self._check_own(heard)
        if heard.members is None:
            return
        self._is_vouched_for = True
        # One that says less than it did is an old copy, hears so from this one, and ends.
        if heard.life > self._record.lives.get(heard.member, 0):
            self._record = self._record.having_heard(heard.member, heard.life, self._membership())

    def _check_own(self, heard: Heard) -> None:
        """Whether this store may go on, after what another one knows of it.

        Raises:
            StoreError: it must not.
        """
        own = self._record
        if heard.forced > own.forced:
            raise StoreError(
                f"the group {self.group.name} was forced to go on without this store. To let it join again, "
                f"erase {self.config.path}, start it, and run: shoal store group add {self.config.name}"
            )
        if heard.lives.get(own.member, 0) > own.life:
            raise StoreError(
                f"{self.config.path} is an older copy of a member's directory: {heard.name} knows a later "
                "start of it. A copy forgets what the member promised: erase it, start with an empty "
                "directory, and let the store join again (shoal store group add)"
            )
        mine = self._membership()
        is_out = heard.members is not None and not heard.members.has(own.member)
        if is_out and mine is not None and mine.has(own.member) and mine.at < (heard.members or mine).at:
            raise StoreError(
                f"this store was taken out of the group {self.group.name}. To let it join again, erase "
                f"{self.config.path}, start it, and run: shoal store group add {self.config.name}"
            )

    def _found(self, now_s: float) -> None:
        """Found the group, once as many members are here as were asked for."""
        wanted = self.group.bootstrap
        if wanted is None or self._record.founding is not None:
            return
        here = [each.member for each in self._roster.here(now_s) if each.founding is None]
        if len(here) + 1 < wanted:
            return
        members = [self._record.member, *sorted(here)[: wanted - 1]]
        self._begin(Founding.begin(self.group.name, members))

    def _begin(self, founding: Founding, forced: int = 0) -> None:
        """The group is founded: be one of its members, or wait to join it."""
        self._record = self._record.with_founding(founding, forced)
        self._open_log()
        for each in self._roster.all():
            self._peers.meet(each.member, each.url, each.fingerprint)
        count = len(founding.members)
        if self._record.member in founding.members:
            self._is_vouched_for = True
            notices.GROUP_FOUNDED(group=founding.group, members=count).log(log)
        else:
            notices.NOT_A_MEMBER(group=founding.group, members=count).log(log)

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
        if self.config.flight is not None and self.store is None:
            self._show_history(member)
        if time.monotonic() >= self._scrub_at_s:
            self._scrub(member)

    def _scrub(self, member: Member) -> None:
        """See whether the next sealed segment is whole, unless one that is not is being fetched."""
        self._scrub_at_s = time.monotonic() + SCRUB_EVERY_S
        if member.offered is not None:
            return
        read = member.scrub(self._scrubbed)
        if read is None:
            # Segments that are sealed later are read with the next round.
            self._scrubbed, self._scrub_at_s = 0, time.monotonic() + SCRUB_AGAIN_S
            return
        self._scrubbed, is_whole = read
        if not is_whole:
            notices.SEGMENT_DAMAGED(segment=self._scrubbed, path=self.config.path).log(log)

    def _show_history(self, member: Member) -> None:
        """Serve what is committed, once there is something."""
        assert self._log is not None
        if self._follower is not None:
            self._follower.turn()
        elif member.indexes[1] > 0 and not member.is_elected:
            self._follower = Follower(self._log, self.config, self._connection, self._certificate)

    def _end_history(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def _serve(self, member: Member) -> None:
        founding = self._record.founding
        assert self._log is not None
        assert founding is not None
        began_s, term = time.monotonic(), member.term
        try:
            if self._record.fresh is not None:
                self._log.renew(bytes.fromhex(self._record.fresh))
                self._record = self._record.renewed()
            held = Held(self._log, member, founding.at_us / 1e6, self.status, self._end_history)
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

    @property
    def _endpoint(self) -> str | None:
        """Where history is served."""
        serving = self.store if self.store is not None else self._follower
        return None if serving is None else serving.endpoint

    def status(self) -> dict[str, Any]:
        """How the group is, as this member sees it."""
        found: dict[str, Any] = {
            "group": self.group.name,
            "domain": self._connection.domain,
            "member": f"{self._record.member:016x}",
            "name": self.config.name,
            "pid": os.getpid(),
            "at": time.time(),
            "url": self.url,
            "fingerprint": None if self._certificate is None else self._certificate.fingerprint,
            "flight": self._endpoint,
            "dropped": self._peers.dropped,
            "unproven": self._peers.unproven,
            "wanted": self.group.bootstrap,
            "failure": None if self._error is None else str(self._error),
        }
        copied = None if self._copier is None else self._copier.progress
        return described(found, self._member, self._roster, copied)

    # The end.

    def close(self) -> None:
        """End; if this member owns the group, let another one own it first."""
        member = self._member
        was_owner = member is not None and member.is_elected
        self._end_store()
        self._end_history()
        if member is not None and was_owner and self._error is None:
            self._hand_over(member)
        self._stopping.set()
        self._bell.ring(0)
        self._thread.join()
        self._heres.close()
        self._asks.close()
        self._peers.close()
        self._door.close(0.2)
        self._bus.close(0.2)
        write_status(self.config.path, self.status())
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
