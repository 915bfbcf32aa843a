"""What a daemon logs to standard error: lines for people, or JSON for programs."""

import json
import logging
import os
import sys
import time

from shoal.daemon.config import LogConfig
from shoal.messages import Line


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if isinstance(record.msg, Line):
            line |= {"id": record.msg.notice.id, "args": record.msg.plain_args, "message": record.msg.text}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = repr(record.exc_info[1])
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """One line each, as `journalctl` and people like them."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        error = record.exc_info and record.exc_info[1]
        # A notice names it.
        why = f": {error!r}" if error and not isinstance(record.msg, Line) else ""
        text = " ".join(f"{record.getMessage()}{why}".split())
        line = f"{record.levelname.lower():<7} {record.name}: {text}"
        # The journal has the time already.
        if "JOURNAL_STREAM" in os.environ:
            return line
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        return f"{moment}.{int(record.msecs):03} {line}"


class Logs:
    """Logging of `shoal` and what is below it, until it is closed."""

    def __init__(self, config: LogConfig) -> None:
        self._handler = logging.StreamHandler(sys.stderr)
        self._logger = logging.getLogger("shoal")
        self._before = self._logger.level
        self._logger.addHandler(self._handler)
        self.use(config)

    def use(self, config: LogConfig) -> None:
        """Log in another form, or more, or less."""
        self._handler.setFormatter(JsonLines() if config.format == "json" else TextLines())
        self._logger.setLevel(config.level.upper())

    def close(self) -> None:
        """Log as it was before."""
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._before)
