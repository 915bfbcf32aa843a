"""The catalogue of what Shoal logs and warns of: an id, a level, a text and advice for each notice.

A module logs a notice, and never a text of its own:

    from shoal.messages import store as notices

    notices.DISK_LOW(path=path, free=free, least=least).log(log)

The ids are stable: a text may change, its id never means anything else. `shoal explain 2107` prints a notice.
Debug lines are for people who read the source; they stay English and have no id. This package imports nothing
else of Shoal.
"""

from shoal.messages.notice import Line, Notice, named

__all__ = ["Line", "Notice", "named"]
