"""Notices of daemons: 50xx."""

from shoal.messages.notice import error, info, warning

READY = info(5001, "Daemon {name} is ready: {what}.")
ENDED = info(5002, "Daemon {name} ends.")
RELOADED = info(5003, "Read {path} again: {changes}.")
RELOAD_FAILED = error(5004, "Ignored the changes in {path}: {why}.", "Correct the file, then send SIGHUP.")
LINK_NOT_OPEN = error(5005, "Cannot open link {link}: {why}. Trying again every {every_s:g} s.")
LINK_OPEN = info(5006, "Link {link} is open.")
DRAINING = info(5011, "Daemon {name} drains: programs to be sent to other daemons: {programs}.")
DRAIN_ENDED = info(5012, "Daemon {name} lets programs in again.")
CAPACITY_LOW = warning(
    5008,
    "Daemon {name} used {load:.0%} of a core for 30 s, at {rate:,.0f} messages/s; messages may wait.",
    "Move links or subscribers to another daemon. `shoal capacity live` shows what a message costs.",
)
CAPACITY_REGAINED = info(5009, "Daemon {name} uses {load:.0%} of a core again.")
DESCRIPTORS_SHORT = warning(
    5007,
    "{connections} connections (connections_max) need {needed} descriptors, and this process may open "
    "{limit}; further connections are refused.",
    "Raise the limit (LimitNOFILE= of systemd, or ulimit -n), or lower `connections_max`.",
)
