"""What stands in for multicast where it does not work: TCP to seeds, or a meeting on this machine."""

import dataclasses
import logging
import socket
from dataclasses import dataclass

from shoal.config import ConnectionConfig
from shoal.config.connection import OPTIONS
from shoal.config.keys import keys_of
from shoal.config.option import On
from shoal.config.target import LOOPBACK, Target
from shoal.errors import LinkError
from shoal.messages import link as notices

log = logging.getLogger("shoal.link")


@dataclass(frozen=True)
class StandIn:
    """How to connect instead."""

    #: The connection without multicast.
    config: ConnectionConfig
    #: Where to connect.
    seeds: tuple[Target, ...]
    #: Where the programs of this machine meet, if there are no seeds.
    meeting: Target | None

    @property
    def is_cut_off(self) -> bool:
        """Whether programs of this machine are to meet and cannot: its loopback interface is down."""
        return self.meeting is not None and not loopback_works()

    def where(self) -> str:
        """Where it leads, as a URL: the meeting, or the first seed."""
        return (self.meeting or self.seeds[0]).url

    def say(self, why: str) -> None:
        """Log what happened, and what to do."""
        if self.is_cut_off:
            notices.NO_NETWORK(why=why).log(log)
        elif self.meeting is None:
            places = ", ".join(seed.url for seed in self.seeds)
            notices.NO_MULTICAST_SEEDS(why=why, seeds=places).log(log)
        else:
            notices.NO_MULTICAST_MEETING(why=why, url=self.meeting.url).log(log)


def stand_in(config: ConnectionConfig, why: str) -> StandIn:
    """How to connect where multicast does not work: why it does not.

    Raises:
        LinkError: TCP cannot do what the configuration asks for.
    """
    asked = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    }
    del asked["when_no_multicast"]
    only = [name for name in asked if not OPTIONS[name].on & On.LINKS]
    if keys_of(config.key, config.key_file) is not None:
        only.append("a key")
    if only:
        raise LinkError(
            f"no multicast: {why}. TCP cannot stand in for it, because {' and '.join(only)} "
            f"{'was' if len(only) == 1 else 'were'} given: correct or remove that, or connect to tcp:// or "
            "tls://host:port"
        )
    seeds = config.seed_targets()
    meeting = None if seeds else Target("tcp", LOOPBACK, config.meeting_port())
    # The host forwards for the others, and any program may become the host.
    router = config.router or meeting is not None
    return StandIn(ConnectionConfig(**{**asked, "scheme": "tcp", "router": router}), seeds, meeting)


def loopback_works() -> bool:
    """Whether the loopback interface is up. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((LOOPBACK, 9))
        except OSError:
            return False
    return True
