"""Notices of `shoal.jms`: 40xx."""

from shoal.messages.notice import error, warning

EXCEPTION_LISTENER_FAILED = error(4003, "An exception listener raised an exception: {why}.")
MAY_MISS = warning(4004, "A consumer may miss messages that are sent now: {why}.")
SESSION_FULL = warning(
    4005,
    "A session delivers nothing more: {messages} messages are unacknowledged (unacknowledged_max).",
    "Acknowledge or commit them.",
)
CONSUMER_ENDED = error(4006, "{consumer} ended: {why}.")
GIVEN_UP = error(4007, "Message {message} is given up after {deliveries} deliveries.")
NOT_ACKNOWLEDGED = warning(
    4008,
    "Message {message}, and perhaps others, could not be acknowledged: {why}. They will be redelivered.",
)
LISTENER_FAILED = error(
    4009, "A message listener raised an exception on {message}, delivery {delivery}: {why}."
)
COMPLETION_LISTENER_FAILED = error(4010, "A completion listener raised an exception on {message}: {why}.")
