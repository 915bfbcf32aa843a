"""`python -m shoal.daemon FILE`: what `shoal daemon` becomes, without the command line in its memory."""

import sys
from pathlib import Path

from shoal.daemon.config import load
from shoal.daemon.service import run
from shoal.errors import ConfigError, ShoalError

#: Something could not be opened.
FAILED = 1
#: The file is wrong.
WRONG_FILE = 2
#: What shells report for a program that Ctrl-C ended.
INTERRUPTED = 130


def main(path: Path) -> int:
    """Run the daemon to its end: the exit status."""
    try:
        load(path)
    except ConfigError as error:
        return _say(error, FAILED if isinstance(error.__cause__, ImportError | OSError) else WRONG_FILE)
    try:
        # It logs as its file says.
        run(path)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ShoalError, OSError) as error:
        return _say(error, FAILED)
    return 0


def _say(error: Exception, status: int) -> int:
    print(f"shoal daemon: {' '.join(str(error).split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
