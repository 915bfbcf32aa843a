"""What the role `host` of a daemon can be told."""

from dataclasses import dataclass
from typing import Literal

from shoal.config.checks import Checked


@dataclass(frozen=True, kw_only=True)
class HostConfig(Checked):
    """The table `[host]` of a daemon's file."""

    #: The directory whose files it may use; the one of the daemon's own file if not given.
    directory: str = "."
    #: The key that orders are signed with; `shoal host init` makes it.
    key_file: str = "host.key"
    #: Whether daemons are units of systemd, `shoald@NAME.service`, of the system or of the user; otherwise
    #: they are child processes.
    units: Literal["none", "system", "user"] = "none"

    def __post_init__(self) -> None:
        self.check_types()
