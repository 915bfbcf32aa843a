"""A client of JMS that ends in the middle of something: `python crashing.py WHAT DOMAIN`."""

import os
import signal
import sys

from shoal import jms

PATIENCE_S = 30.0


def main(what: str, domain: str) -> None:
    """Do something, and end before the rest."""
    factory = jms.ConnectionFactory("norm://", domain=domain, interface="lo")
    if what == "in-listener":
        with factory.create_context() as context:
            context.create_consumer(jms.Queue("orders")).message_listener = end
            signal.pause()
    mode = jms.Session.CLIENT_ACKNOWLEDGE if "acknowledge" in what else jms.Session.SESSION_TRANSACTED
    context = factory.create_context(mode)
    message = context.create_consumer(jms.Queue("orders")).receive(timeout_s=PATIENCE_S)
    assert message is not None
    if what == "after-acknowledge":
        message.acknowledge()
    elif what in ("in-transaction", "after-commit"):
        context.create_producer().send(jms.Queue("done"), message.body).send(jms.Topic("told"), message.body)
        if what == "after-commit":
            context.commit()
    end(message)


def end(message: jms.Message) -> None:
    """Say which message it is, and which delivery of it, and end."""
    print(message.body, message.get_int_property("JMSXDeliveryCount"), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
