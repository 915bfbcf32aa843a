"""The programming model of Jakarta Messaging 3.1, in Python, over the bus and its stores.

```python
from shoal import jms

factory = jms.ConnectionFactory("inproc://jms", default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
with factory.create_context() as context:
    prices = context.create_topic("prices/ACME")
    consumer = context.create_consumer(prices, "region = 'EU'")
    context.create_producer().set_property("region", "EU").send(prices, {"bid": 10.25})
    assert consumer.receive_body(dict, timeout_s=5) == {"bid": 10.25}
```

Names are Java's with Python's casing; times are in seconds.
"""

from shoal.errors import (
    IllegalStateError,
    InvalidArgumentError,
    InvalidClientIDError,
    InvalidDestinationError,
    InvalidSelectorError,
    JMSError,
    JMSSecurityError,
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
    NumberFormatError,
    ResourceAllocationError,
    TransactionInProgressError,
    TransactionRolledBackError,
)
from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.administered import lookup
from shoal.jms.bodies import MapMessage, ObjectMessage, TextMessage
from shoal.jms.browser import QueueBrowser
from shoal.jms.completion import CompletionListener
from shoal.jms.connection import Connection, ConnectionMetaData
from shoal.jms.consumer import MessageConsumer
from shoal.jms.context import JMSContext
from shoal.jms.context_consumer import JMSConsumer
from shoal.jms.context_producer import JMSProducer
from shoal.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from shoal.jms.factory import ConnectionFactory
from shoal.jms.message import (
    DEFAULT_DELIVERY_DELAY_S,
    DEFAULT_DELIVERY_MODE,
    DEFAULT_PRIORITY,
    DEFAULT_TIME_TO_LIVE_S,
    DeliveryMode,
    Message,
)
from shoal.jms.producer import MessageProducer
from shoal.jms.requestor import QueueRequestor, TopicRequestor
from shoal.jms.session import Session
from shoal.jms.streams import BytesMessage, StreamMessage

__all__ = [
    "DEFAULT_DELIVERY_DELAY_S",
    "DEFAULT_DELIVERY_MODE",
    "DEFAULT_PRIORITY",
    "DEFAULT_TIME_TO_LIVE_S",
    "AcknowledgeMode",
    "BytesMessage",
    "CompletionListener",
    "Connection",
    "ConnectionFactory",
    "ConnectionMetaData",
    "DeliveryMode",
    "Destination",
    "IllegalStateError",
    "InvalidArgumentError",
    "InvalidClientIDError",
    "InvalidDestinationError",
    "InvalidSelectorError",
    "JMSConsumer",
    "JMSContext",
    "JMSError",
    "JMSProducer",
    "JMSSecurityError",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageEOFError",
    "MessageFormatError",
    "MessageNotReadableError",
    "MessageNotWriteableError",
    "MessageProducer",
    "NumberFormatError",
    "ObjectMessage",
    "Queue",
    "QueueBrowser",
    "QueueRequestor",
    "ResourceAllocationError",
    "Session",
    "StreamMessage",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "TopicRequestor",
    "TransactionInProgressError",
    "TransactionRolledBackError",
    "lookup",
]
