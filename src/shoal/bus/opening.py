"""Opens the store or the outbox of a connection beside its event loop: recovery reads their logs."""

import threading
from collections.abc import Callable

from shoal.threads import start


class Opening:
    """Something that is opened on a thread of its own. May be shared between threads."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shoal-open", daemon=True)
        start(self._thread)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            del self._work
            self._is_over.set()

    def wait(self) -> None:
        """Return when it is open; the thread that opens it need not wait.

        Raises:
            ShoalError: why it cannot be opened.
        """
        if threading.current_thread() is self._thread:
            return
        self._is_over.wait()
        if self._error is not None:
            raise self._error
