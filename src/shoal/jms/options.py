"""What a connection factory can be told beside the options of `shoal.connect`."""

from dataclasses import dataclass

from shoal.jms.arguments import check_count, check_queue
from shoal.jms.message import DEFAULT_DELIVERY_MODE, DeliveryMode, checked_delivery_mode


@dataclass(frozen=True, kw_only=True)
class JMSOptions:
    """How the connections of a factory behave."""

    #: Messages of a session that may be delivered and not acknowledged or committed; then it waits.
    unacknowledged_max: int = 10_000
    #: How often a message whose listener raises is delivered again before it is given up.
    redeliveries_max: int = 5
    #: What may wait for a consumer of a topic.
    queue_bytes_max: int = 4 << 20
    #: Messages that a store hands to a consumer ahead of its reading.
    prefetch: int = 100
    #: What producers begin with.
    default_delivery_mode: DeliveryMode = DEFAULT_DELIVERY_MODE

    def __post_init__(self) -> None:
        check_count("unacknowledged_max", self.unacknowledged_max, 1)
        check_count("redeliveries_max", self.redeliveries_max)
        check_queue(self.queue_bytes_max)
        check_count("prefetch", self.prefetch, 1)
        object.__setattr__(self, "default_delivery_mode", checked_delivery_mode(self.default_delivery_mode))
