"""What a user sees: names, representations, refusals, the environment."""

import datetime
import inspect
import math
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import shoal
from shoal.config import ConnectionConfig, resolve
from shoal.errors import ConfigError, InvalidTopicError

BUS = {
    *(
        "close",
        "closed",
        "config",
        "events",
        "flush",
        "link",
        "members",
        "network",
        "message_id",
        "node",
        "publish",
    ),
    *(
        "publisher",
        "rate_bytes_per_s",
        "reload_keys",
        "reply",
        "request",
        "request_many",
        "run",
        "statistics",
        "load",
        "stats",
        "metrics",
        "metrics_url",
        "subscribe",
    ),
    *("connect", "disconnect", "links", "listen", "store", "subscribers", "sync", "wait_for_subscribers"),
    *("queue", "temporary_queue", "temporary_topic", "transaction", "unsubscribe", "seek"),
}
SUBSCRIPTION = {"close", "closed", "dropped", "pattern", "pending", "receive", "receive_nowait"}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_a_connection_and_a_subscription_show_their_api_and_nothing_else(bus: shoal.Bus) -> None:
    assert public(bus) == BUS == {name for name in public(shoal.aio.Bus) if hasattr(shoal.aio.Bus, name)}
    assert public(bus.subscribe("a")) == SUBSCRIPTION == public(shoal.aio.Subscription)


def test_asyncio_takes_the_same_arguments_as_threads() -> None:
    for name in BUS | SUBSCRIPTION:
        kind, twin = (
            (shoal.Bus, shoal.aio.Bus) if name in BUS else (shoal.Subscription, shoal.aio.Subscription)
        )
        ours, theirs = getattr(kind, name), getattr(twin, name)
        if callable(ours):
            # A loop has no threads to share.
            wanted = {**inspect.signature(ours).parameters}
            wanted.pop("thread", None)
            assert list(inspect.signature(theirs).parameters) == list(wanted), name


def test_publish_is_a_method_that_tests_replace_and_programs_override(domain: str, bus: shoal.Bus) -> None:
    with mock.patch.object(bus, "publish", autospec=True) as replaced:
        bus.publish("a", 1, priority=7)
    replaced.assert_called_once_with("a", 1, priority=7)

    class Shouting(shoal.Bus):
        def publish(self, topic: str, body: Any = None, **options: Any) -> Any:
            return super().publish(topic, body.upper(), **options)

    heard = bus.subscribe("a")
    with Shouting(resolve(domain, {})) as loud:
        loud.publish("a", "hello")
    message = heard.receive(timeout_s=5)
    assert message is not None
    assert message.body == "HELLO"
    with pytest.raises(TypeError, match=r"Bus.publish\(\) got an unexpected keyword argument 'propertis'"):
        bus.publish("a", 1, propertis={})  # type: ignore[call-overload]


def test_everything_says_what_it_is(domain: str, bus: shoal.Bus, other: shoal.Bus) -> None:
    assert repr(bus) == f"<Bus {domain} 1 member>"
    subscription = bus.subscribe("prices/*")
    other.publish("prices/ACME", 1)
    assert repr(subscription) == "<Subscription 'prices/*' 1 pending>"
    subscription.close()
    assert repr(subscription) == "<Subscription 'prices/*' 1 pending closed>"
    other.close()
    assert repr(other) == f"<Bus {domain} closed>"
    assert re.fullmatch(r"<Bus inproc://\S+ 0 members>", repr(bus))


def test_pending_counts_what_was_not_read(bus: shoal.Bus) -> None:
    subscription = bus.subscribe("a")
    for number in range(10):
        bus.publish("a", number)
    assert subscription.pending == 10
    subscription.receive()
    assert subscription.pending == 9
    subscription.receive_nowait(4)
    assert subscription.pending == 5


@pytest.mark.parametrize(
    ("call", "error", "names"),
    [
        (lambda bus: shoal.connect(5), TypeError, ["url", "5", "norm://"]),
        (lambda bus: bus.subscribe(5), TypeError, ["pattern", "5"]),
        (lambda bus: bus.subscribe("a", 5), TypeError, ["callback", "5", "function"]),
        (lambda bus: bus.subscribe("a", selector=5), TypeError, ["selector", "5", "str"]),
        (lambda bus: bus.subscribe("a", correlation=5), TypeError, ["correlation", "5", "str"]),
        (lambda bus: bus.subscribe("a", queue_bytes_max=-1), ConfigError, ["queue_bytes_max", "-1"]),
        (lambda bus: bus.subscribe("a", queue_bytes_max="1"), TypeError, ["queue_bytes_max", "'1'"]),
        (lambda bus: bus.subscribe("a", queue_full="grow"), ConfigError, ["queue_full", "drop_old", "grow"]),
        (lambda bus: bus.subscribe("a", thread="x"), TypeError, ["thread", "'x'", "callback"]),
        (lambda bus: bus.wait_for_subscribers("a", "2"), TypeError, ["count", "'2'"]),
        (lambda bus: bus.wait_for_subscribers("a", timeout_s="soon"), TypeError, ["timeout_s", "'soon'"]),
        (lambda bus: bus.flush(-1), ConfigError, ["timeout_s", "-1"]),
        (lambda bus: bus.close(linger_s="1"), TypeError, ["linger_s", "'1'"]),
        (lambda bus: bus.request("a", timeout_s=None), TypeError, ["timeout_s", "None"]),
        (lambda bus: bus.reply("a"), TypeError, ["request", "'a'"]),
        (lambda bus: bus.publish(5), TypeError, ["topic is 5", "str"]),
        (lambda bus: bus.publish("a//b"), InvalidTopicError, ['"a//b" is no topic', "position 2"]),
        (lambda bus: bus.publish("ä" * 1000), InvalidTopicError, ["ääää", "…", "is no topic"]),
        (lambda bus: bus.subscribe("a/b*"), InvalidTopicError, ['"a/b*" is no pattern']),
        (lambda bus: bus.publish("a", object()), TypeError, ["a body cannot be of type object"]),
        (lambda bus: bus.publish("a", properties=5), TypeError, ["properties", "5"]),
        (lambda bus: bus.publish("a", properties={"a b": 1}), ValueError, ['"a b"', "no selector"]),
        (lambda bus: bus.publish("a", properties={"Like": 1}), ValueError, ['"Like"', "no selector"]),
        (lambda bus: bus.publish("a", properties={"JMSPriority": 1}), ValueError, ["JMSPriority"]),
        (
            lambda bus: bus.publish("a", properties={"at": datetime.datetime(2026, 1, 1)}),
            TypeError,
            ['"at"', "datetime"],
        ),
    ],
)
def test_a_wrong_argument_is_named_with_what_would_do(
    bus: shoal.Bus, call: Any, error: type[Exception], names: list[str]
) -> None:
    with pytest.raises(error) as refusal:
        call(bus)
    for name in names:
        assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("pattern", "meant"), [("prices.*", "prices/*"), ("prices.>", "prices/>"), ("*.ACME", "*/ACME")]
)
def test_dots_between_levels_are_told_by_slashes(bus: shoal.Bus, pattern: str, meant: str) -> None:
    with pytest.raises(shoal.InvalidTopicError, match="'/' separates the levels") as told:
        bus.subscribe(pattern)
    assert repr(meant) in str(told.value)


@pytest.mark.parametrize(
    ("pattern", "meant"), [("prices/+", "prices/*"), ("#", ">"), ("a/+/b/#", "a/*/b/>"), ("+", "*")]
)
def test_whoever_comes_from_mqtt_is_told_what_to_write(bus: shoal.Bus, pattern: str, meant: str) -> None:
    with pytest.raises(InvalidTopicError, match=re.escape(f"so {meant!r} is what you mean")):
        bus.subscribe(pattern)


def test_a_near_miss_asks_whether_that_was_meant(domain: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'windw_bytes': did you mean 'window_bytes'\?"):
        shoal.connect("norm://", windw_bytes=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"'heartbeat' in the URL: did you mean 'heartbeat_s'\?"):
        shoal.connect("norm://?heartbeat=3")
    with pytest.raises(ConfigError, match=r"unknown option 'zzz': the options are"):
        shoal.connect(domain, zzz=1)  # type: ignore[call-arg]


def test_the_environment_chooses_where_nothing_else_does() -> None:
    def chosen(url: str | None = None, **options: Any) -> tuple[str, str]:
        environment = {"SHOAL_URL": "norm://239.192.1.2", "SHOAL_DOMAIN": "desk"}
        config = resolve(url, options, environment)
        return config.group or config.scheme, config.domain

    assert chosen() == ("239.192.1.2", "desk")
    assert chosen("inproc://x") == ("inproc", "x")
    assert chosen("norm://", domain="other") == ("norm", "other")
    assert chosen(domain="other") == ("239.192.1.2", "other")
    assert resolve(None, {}, {}) == ConnectionConfig(when_no_multicast="tcp")


def test_one_import_is_enough_and_loads_no_more_than_it_must() -> None:
    program = """
import sys, shoal
assert "shoal.aio" not in sys.modules and "asyncio" not in sys.modules
assert shoal.aio.connect and shoal.norm.Session and shoal.errors.ShoalError
assert shoal.store.Store and shoal.types.Byte and shoal.history.connect
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_error_can_be_had_from_the_top() -> None:
    import shoal.errors

    internal = {"ProcessFailedError"}
    for name, thing in vars(shoal.errors).items():
        if isinstance(thing, type) and name not in internal:
            assert getattr(shoal, name) is thing
            assert name in shoal.__all__


@pytest.mark.parametrize("what", ["connection", "subscription"])
def test_whoever_pickles_what_belongs_to_a_process_is_told_what_to_do(bus: shoal.Bus, what: str) -> None:
    thing: object = bus if what == "connection" else bus.subscribe("a")
    with pytest.raises(TypeError, match=f"a {what} cannot be pickled: .* in the process that"):
        pickle.dumps(thing)


def test_a_coroutine_is_refused_as_a_callback_on_threads(bus: shoal.Bus) -> None:
    async def callback(_: shoal.Message) -> None:
        """Nobody would await it."""

    with pytest.raises(TypeError, match=r"callback is .*, and must be a plain function: .*shoal\.aio"):
        bus.subscribe("a", callback)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"properties": {"x": [1]}}, 'the property "x": a list cannot be a property: use str, .* or None'),
        ({"body": {(1, 2): 3}}, "a tuple cannot be a key in a body: use str, .* or None"),
        ({"body": [object()]}, "a object cannot be part of a body: use str, .* lists and mappings"),
    ],
)
def test_a_value_that_cannot_stand_there_is_told_what_can(
    bus: shoal.Bus, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        bus.publish("a", **given)


#: What a message is published with, beside its body, which may be of many types.
PUBLISHED = (
    "topic",
    "properties",
    "priority",
    "ttl_s",
    "correlation_id",
    "reply_to",
    "type",
    "persistent",
    "delivery_delay_s",
    "timestamp",
)
#: Every argument of a public call that has a type, and the call with it.
TYPED: dict[str, tuple[Callable[..., object], tuple[str, ...]]] = {
    "publish": (
        lambda bus, **given: bus.publish(**{"topic": "a", **given}),
        (*PUBLISHED, "timeout_s"),
    ),
    "subscribe": (
        lambda bus, **given: bus.subscribe(**{"pattern": "a", **given}),
        (
            "pattern",
            "callback",
            "selector",
            "correlation",
            "no_local",
            "queue_bytes_max",
            "queue_full",
            "thread",
        ),
    ),
    "request": (
        lambda bus, **given: bus.request(**{"topic": "a", **given}),
        ("topic", "timeout_s", "properties", "priority"),
    ),
    "request_many": (
        lambda bus, **given: list(bus.request_many(**{"topic": "a", **given})),
        ("topic", "timeout_s", "responders", "properties", "priority"),
    ),
    "reply": (
        lambda bus, **given: bus.reply(**{"request": shoal.Message("a", reply_to="b"), **given}),
        ("request", "properties", "more"),
    ),
    "wait_for_subscribers": (
        lambda bus, **given: bus.wait_for_subscribers(**{"topic": "a", **given}),
        ("topic", "count", "timeout_s"),
    ),
    "subscribers": (lambda bus, **given: bus.subscribers(**given), ("topic",)),
    "message_id": (
        lambda bus, **given: bus.message_id(**{"number": 1, **given}),
        ("number", "priority", "topic"),
    ),
    "flush": (lambda bus, **given: bus.flush(**given), ("timeout_s",)),
    "events": (lambda bus, **given: bus.events(**given), ("timeout_s",)),
    "run": (lambda bus, **given: bus.run(**given), ("timeout_s",)),
    "close": (lambda bus, **given: bus.close(**given), ("linger_s", "stall_s")),
    "receive": (lambda bus, **given: bus.subscribe("a").receive(**given), ("timeout_s",)),
    "receive_nowait": (lambda bus, **given: bus.subscribe("a").receive_nowait(**given), ("count_max",)),
    "Message": (
        lambda _, **given: shoal.Message(**{"topic": "a", **given}),
        (*PUBLISHED, "redelivered", "sender", "publisher", "chain", "number"),
    ),
    "Selector": (lambda _, **given: shoal.Selector(**given), ("text",)),
    "CorrelationFilter": (lambda _, **given: shoal.CorrelationFilter(**given), ("text",)),
}


@pytest.mark.parametrize("call", TYPED)
def test_every_argument_of_a_wrong_type_is_named(bus: shoal.Bus, call: str) -> None:
    make, arguments = TYPED[call]
    for argument in arguments:
        for wrong in (object(), ["x"], 2**70, datetime.datetime(2026, 1, 1)):
            # A long time, and a large count.
            if wrong == 2**70 and (
                argument.endswith("_s") or argument in ("count", "count_max", "responders")
            ):
                continue
            with pytest.raises((TypeError, ValueError)) as refusal:
                make(bus, **{argument: wrong})
            assert argument in str(refusal.value), (argument, wrong, refusal.value)


def test_an_infinite_time_is_as_long_as_it_takes(bus: shoal.Bus) -> None:
    with bus.subscribe("a") as subscription:
        bus.subscribe("q", bus.reply)
        ending = threading.Timer(0.05, bus.close, [math.inf])
        assert bus.wait_for_subscribers("a", 1, math.inf)
        bus.publish("a", 1, timeout_s=math.inf)
        message = subscription.receive(math.inf)
        assert message is not None
        assert message.body == 1
        bus.flush(math.inf)
        bus.request("q", timeout_s=math.inf)
        ending.start()
        assert bus.run(math.inf)
        assert list(bus.events(math.inf)) == []
        ending.join()


def test_a_topic_with_dots_that_no_program_subscribes_to_hints_at_slashes_once(
    domain: str, caplog: pytest.LogCaptureFixture
) -> None:
    with shoal.connect(domain) as bus, bus.subscribe("web1.example.com"):
        assert bus.wait_for_subscribers("web1.example.com", 2, timeout_s=0.0) is False
        assert bus.wait_for_subscribers("files/report.csv", timeout_s=0.0) is False
        assert caplog.text == "", "names may have dots"
        for _ in range(2):
            assert bus.wait_for_subscribers("prices.ACME", timeout_s=0.0) is False
        with pytest.raises(shoal.NoRespondersError, match=r"did you mean 'prices/ACME'\?"):
            bus.request("prices.ACME", timeout_s=30)
    assert caplog.text.count("SHOAL-2116") == 1
    assert "did you mean 'prices/ACME'?" in caplog.text


# --- what people who come from elsewhere try ---


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("send", r"publish\(topic, body\)"),
        ("recv", r"subscribe\(pattern\)"),
        ("on", r"subscribe\(pattern, callback\)"),
        ("commit", r"bus\.transaction\(\)"),
    ],
)
def test_a_connection_names_its_own_word_for_what_others_call_differently(
    bus: shoal.Bus, name: str, hint: str
) -> None:
    with pytest.raises(AttributeError, match=f"'Bus' object has no attribute '{name}': .*{hint}"):
        getattr(bus, name)
    with pytest.raises(AttributeError, match=r"'Bus' object has no attribute 'colour'$"):
        _ = bus.colour  # type: ignore[attr-defined]


def test_queues_and_transactions_do_so_too(bus: shoal.Bus) -> None:
    queue = bus.queue("jobs")
    with pytest.raises(AttributeError, match=r"'Queue' object has no attribute 'put': send\(body\)"):
        queue.put({"job": 1})  # type: ignore[attr-defined]
    assert "put" not in dir(queue)
    assert "send" in dir(queue)
    with (
        bus.transaction() as transaction,
        pytest.raises(AttributeError, match=r"'Transaction' .* 'queue': send\(queue, body\)"),
    ):
        transaction.queue("jobs")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:7474", r"did you mean 'tcp://localhost:7474'\?"),
        ("[::1]:7474", r"did you mean 'tcp://\[::1\]:7474'\?"),
        ("nats://localhost:4222", r"Shoal does not speak with NATS servers\. Use norm://"),
        ("tcp://*:5555", r"'\*' is no host: shoal\.listen\('tcp://0\.0\.0\.0:7474'\)"),
        ("smoke://", "unknown scheme 'smoke': use norm://"),
    ],
)
def test_a_url_of_another_system_is_refused_with_what_would_do(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        shoal.connect(url)


def test_a_star_is_no_host_to_listen_at_either() -> None:
    with pytest.raises(ConfigError, match="is no host"):
        shoal.listen("tcp://*:0")
    with (
        shoal.listen("tcp://127.0.0.1:0", domain="star") as listening,
        pytest.raises(ConfigError, match="is no host"),
    ):
        listening.listen("tcp://*:0")


def test_an_option_is_found_by_a_part_of_its_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'timeout': did you mean 'connect_timeout_s'\?"):
        resolve(None, {"timeout": 3})


def test_an_argument_that_subscribe_has_not_is_named(bus: shoal.Bus) -> None:
    with pytest.raises(TypeError, match=r"^subscribe\(\) got an unexpected keyword argument 'timeout'$"):
        bus.subscribe("a", timeout=3)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("name", "meant"), [("queue", "shared"), ("group", "shared"), ("cb", "callback"), ("retain", "retained")]
)
def test_an_argument_of_another_system_is_translated(bus: shoal.Bus, name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"argument '{name}'\. Did you mean '{meant}'\?"):
        bus.subscribe("a", **{name: "x"})  # type: ignore[call-overload]
