"""Whether what was made in one process is used in another, which was forked from it."""

from shoal.errors import ForkedError
from shoal.system import after_fork


class Birth:
    """The process in which something was made: cheaper to compare than the number the system gives it."""

    __slots__ = ("_forks",)

    #: Forks between the first process of the program and this one.
    forks = 0

    def __init__(self) -> None:
        self._forks = Birth.forks

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was another process, from which this one was forked."""
        return self._forks != Birth.forks

    def check_here(self) -> None:
        """Refuse to work in a forked child."""
        if self._forks != Birth.forks:
            raise ForkedError(
                "this connection was made before a fork, and does not work in the child: connect in the "
                "process that uses it"
            )


def _forked() -> None:
    Birth.forks += 1


after_fork(_forked)
