"""Notices of `shoal.norm`: 70xx."""

from shoal.messages.notice import warning

NOTHING_HEARD = warning(7001, "{session}: {why}.")
