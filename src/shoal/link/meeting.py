"""Where the programs of a machine meet that have no multicast: the first one listens, others connect.

| it is     | on …                           | next                                             |
|-----------|--------------------------------|--------------------------------------------------|
| away      | the place is free              | hosts: it listens, and passes on for the others  |
|           | it is taken                    | guest: it connects                               |
| guest     | the host is gone               | away: the first program listens                  |
| hosts     |                                | until it closes                                  |

No sockets or threads of its own.
"""

import logging
from collections.abc import Callable

from shoal.config.target import Target
from shoal.link.dialler import Dialler
from shoal.messages import link as notices

log = logging.getLogger("shoal.link")


class Meeting:
    """One place."""

    def __init__(
        self,
        place: Target,
        *,
        listen: Callable[[Target], bool],
        connect: Callable[[Target], Dialler],
        forget: Callable[[Dialler], None],
    ) -> None:
        self.place = place
        self._listen, self._connect, self._forget = listen, connect, forget
        #: The link to the host, unless we are it.
        self.dialler: Dialler | None = None
        self.hosts = False

    @property
    def is_settled(self) -> bool:
        """Whether a program hosts, as far as we know."""
        return self.hosts or (self.dialler is not None and self.dialler.state in ("up", "standby", "refused"))

    def turn(self) -> None:
        """Look whether the place is free, if no program hosts as far as we know."""
        if self.hosts or (self.dialler is not None and self.dialler.state != "reconnecting"):
            return
        if self._listen(self.place):
            self.hosts = True
            if self.dialler is not None:
                self._forget(self.dialler)
                self.dialler = None
                notices.MEETING_TAKEN_OVER(url=self.place.url).log(log)
        elif self.dialler is None:
            self.dialler = self._connect(self.place)
