"""Notices of gateways: 52xx."""

from shoal.messages.notice import error, info, warning

GATEWAY_READY = info(5201, "The gateway is ready for STOMP clients at {urls}.")
GATEWAY_ENDED = info(5202, "The gateway ends.")
GATEWAY_REFUSED = warning(
    5203,
    "A STOMP client at {address} was refused: {why}",
    "Give the client a token of the gateway's token file.",
)
GATEWAY_FULL = warning(
    5204,
    "The gateway has {connections} connections and refuses more.",
    "Raise connections_max, or start another gateway.",
)
GATEWAY_FILE_UNREADABLE = warning(5206, "{why}. What the gateway read before stays valid.")
GATEWAY_FAULT = error(
    5205, "The gateway failed while it served a client: {why}", "Report this, with the traceback."
)
