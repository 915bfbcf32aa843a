"""`shoal.jms` for programs with an event loop: the same names, awaited where something has to be waited for.

```python
from shoal.jms import DeliveryMode, Topic
from shoal.jms import aio as jms

factory = jms.ConnectionFactory("inproc://jms", default_delivery_mode=DeliveryMode.NON_PERSISTENT)
async with await factory.create_context() as context:
    consumer = await context.create_consumer(Topic("prices/ACME"))
    await context.create_producer().send(Topic("prices/ACME"), {"bid": 10.25})
    assert await consumer.receive_body(dict, timeout_s=5) == {"bid": 10.25}
```

Messages, destinations, modes and errors are those of `shoal.jms`.
"""

from shoal.jms.aio.connection import Connection
from shoal.jms.aio.consumer import JMSConsumer, MessageConsumer, QueueBrowser
from shoal.jms.aio.context import JMSContext
from shoal.jms.aio.factory import ConnectionFactory, lookup
from shoal.jms.aio.producer import JMSProducer, MessageProducer
from shoal.jms.aio.requestor import QueueRequestor, TopicRequestor
from shoal.jms.aio.session import Session

__all__ = [
    "Connection",
    "ConnectionFactory",
    "JMSConsumer",
    "JMSContext",
    "JMSProducer",
    "MessageConsumer",
    "MessageProducer",
    "QueueBrowser",
    "QueueRequestor",
    "Session",
    "TopicRequestor",
    "lookup",
]
