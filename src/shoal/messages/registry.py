"""Notices of registries and of daemons that use one: 51xx."""

from shoal.messages.notice import info, warning

REGISTRY_READY = info(5101, "The registry is ready at {url}.")
REGISTRY_ENDED = info(5102, "The registry ends.")
DAEMON_REGISTERED = info(5103, "Daemon {name} of domain {domain} registered, or changed, from {address}.")
DAEMONS_EXPIRED = info(5104, "Daemons of domain {domain} did not renew their lease, and were removed.")
REGISTRY_AWAY = warning(
    5110,
    "{why} Links stay as they are; daemons that start now are not found.",
    "Start the registry, or correct `urls` in [registry].",
)
REGISTRY_BACK = info(5111, "The registry {url} answers. Daemons in its list: {daemons}.")
PEER_FOUND = info(5112, "The registry lists daemon {name}: connecting to {url}.")
ADDRESS_UNPROVED = warning(
    5114,
    "The registry {url} could not verify that {address} is this daemon: {why}. It sends no client there.",
    "Correct `advertise` in [registry], or let the registry reach that address.",
)
AUDIT_FAILED = warning(
    5117, "The registry's audit log cannot be written: {why}.", "Free some space, or correct `--audit`."
)
REGISTRY_TOKENS_UNREADABLE = warning(5113, "{why}. The tokens read before stay valid.")
