"""One side of a transfer through `shoal.jms`, for a process of its own (see `workers`)."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from shoal import jms
from shoal.processes.worker import Report, Role, run_role, wait_told
from shoal_bench.bodies import Reception
from shoal_bench.contestant import PATIENCE_S, TOPIC, Load, Place
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError
from shoal_bench.shaped import Shape
from shoal_bench.shaped_sides import CORRELATION_ID, LIFE_S, PRIORITY, REPLY_TO, TYPE, check_read
from shoal_bench.shoal_loop import connect, explain

ANSWERS = jms.Topic(REPLY_TO)


def publish(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Send in a plain loop, and stay until the parent says that all was received."""
    load, shape = Load(**options["load"]), Shape(**options["shape"])
    with connect(Place(**options["place"])) as bus:
        if not bus.wait_for_subscribers(TOPIC, 1, PATIENCE_S):
            raise ExperimentError("the subscriber did not come")
        with jms.ConnectionFactory(bus=bus).create_connection() as connection:
            session = connection.create_session()
            producer = session.create_producer(session.create_topic(TOPIC))
            producer.delivery_mode = jms.DeliveryMode.NON_PERSISTENT
            used = CpuClock()
            bodies = load.bodies().sent(load.count)
            if shape.headers:
                producer.priority, producer.time_to_live_s = PRIORITY, LIFE_S
                for body in bodies:
                    message = session.create_bytes_message(body)
                    message.jms_correlation_id = CORRELATION_ID
                    message.jms_type = TYPE
                    message.jms_reply_to = ANSWERS
                    message.set_string_property("desk", "equities")
                    message.set_boolean_property("urgent", True)
                    message.set_long_property("volume", 100_000)
                    message.set_double_property("price", 10.25)
                    message.set_string_property("region", "EU")
                    producer.send(message)
            else:
                for body in bodies:
                    producer.send(session.create_bytes_message(body))
            wait_told()
            return {"cpu_s": used.elapsed_s()}


def subscribe(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Receive, and check what came."""
    load, shape = Load(**options["load"]), Shape(**options["shape"])
    reception, used = Reception(load.bodies(), load.count), CpuClock()
    with (
        connect(Place(**options["place"])) as bus,
        jms.ConnectionFactory(bus=bus).create_context() as context,
        context.create_consumer(context.create_topic(TOPIC), shape.selector) as consumer,
    ):
        for expected, message in zip(reception.expected, consumer, strict=False):
            body = message.body
            if shape.reads:
                _check(message, shape)
            if body != expected:
                if reception.is_over(body, expected):
                    break
                used = CpuClock()
        cpu_s = used.elapsed_s()
        explain(reception, bus)
    if reception.fault is not None:
        raise ExperimentError(reception.fault)
    return {"seconds": reception.ended_s - reception.began_s, "cpu_s": cpu_s}


def _check(message: jms.Message, shape: Shape) -> None:
    values: list[object] = [
        message.get_string_property("desk"),
        message.get_boolean_property("urgent"),
        message.get_long_property("volume"),
        message.get_double_property("price"),
        message.get_string_property("region"),
    ]
    answers = message.jms_reply_to
    headers = (
        message.jms_correlation_id,
        message.jms_type,
        None if answers is None else answers.name,
        message.jms_priority,
    )
    times = (message.jms_timestamp, message.jms_expiration, message.jms_message_id)
    check_read(values, headers, times, shape)


def transact(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Send as many persistent messages one by one as in one transaction, in turns: how long each took."""
    count, body = options["count"], bytes(options["size"])
    single_s, batch_s = [], []
    factory = jms.ConnectionFactory("norm://", domain=options["domain"], interface="lo")
    with factory.create_connection() as connection:
        single = connection.create_session()
        batch = connection.create_session(transacted=True)
        where = single.create_queue("bench")
        one, many = single.create_producer(where), batch.create_producer(where)
        one.send(single.create_bytes_message(body))
        for _ in range(options["rounds"]):
            began = perf_counter()
            for _ in range(count):
                one.send(single.create_bytes_message(body))
            single_s.append(perf_counter() - began)
            began = perf_counter()
            for _ in range(count):
                many.send(batch.create_bytes_message(body))
            batch.commit()
            batch_s.append(perf_counter() - began)
        with connection.create_session() as session:
            kept = sum(1 for _ in session.create_browser(where))
    if kept != 1 + 2 * count * options["rounds"]:
        raise ExperimentError(f"the store has {kept} messages")
    return {"single_s": single_s, "batch_s": batch_s}


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe, "transact": transact}

if __name__ == "__main__":
    run_role(ROLES)
