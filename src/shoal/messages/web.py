"""Notices of HTTP servers, which the registry and the console are: 54xx."""

from shoal.messages.notice import info, warning

CERTIFICATE_READ = info(5401, "The server at {url} uses the new certificate for connections from now on.")
CERTIFICATE_UNREADABLE = warning(
    5402,
    "The new certificate of the server at {url} cannot be used: {why}. The one read before stays in use.",
)
