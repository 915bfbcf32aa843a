"""Section 4.2.6 leaves names to the provider: Narada's topics of tags and values, mapped to ours and back."""

import pytest
from conftest import PATIENCE_S, World

from shoal import jms


@pytest.mark.parametrize(
    ("narada", "ours"),
    [
        ("/country=DK/city=*", "country=DK,city=*"),
        ("/country=DK", "country=DK"),
        ("/country=*/city=Aarhus", "country=*,city=Aarhus"),
        ("/country=New Zealand/city=>", "country=New Zealand,city=>"),
    ],
)
def test_a_name_is_mapped_both_ways(narada: str, ours: str) -> None:
    topic = jms.Topic(narada)
    assert (topic.name, topic.bus_name) == (narada, ours)
    assert jms.Topic(ours).narada_name == narada
    assert topic == jms.Topic(ours)
    assert topic.narada_name == narada


def test_a_name_with_slashes_is_pairs_too() -> None:
    assert jms.Topic("country/DK/city/*").narada_name == "/country=DK/city=*"


@pytest.mark.parametrize(
    "name", ["/country", "/country=", "/=DK", "/a=b=c", "/a=b,c=d", "/*=DK", "//a=b", "/"]
)
def test_what_is_no_path_of_pairs_is_refused(name: str) -> None:
    with pytest.raises(jms.InvalidDestinationError):
        jms.Topic(name)


@pytest.mark.parametrize("name", ["a/b/c", "prices", "a=b,c"])
def test_what_is_no_list_of_pairs_has_no_such_name(name: str) -> None:
    with pytest.raises(jms.InvalidDestinationError, match="no list of tags"):
        _ = jms.Topic(name).narada_name


def test_wildcards_in_values_match_and_the_messages_own_destination_is_untouched(world: World) -> None:
    receiver = world.receiver()
    consumers = [
        receiver.create_consumer(jms.Topic(name))
        for name in ("/country=DK/city=*", "country/DK/city/*", "country=*,city=Aarhus")
    ]
    elsewhere = receiver.create_consumer(jms.Topic("/country=SE/city=*"))
    world.wait("country/DK/city/Aarhus", 1)
    sent = jms.Topic("/country=DK/city=Aarhus")
    world.sender().create_producer().send(sent, "hej")
    for consumer in consumers:
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert isinstance(message.jms_destination, jms.Topic)
        assert message.jms_destination == sent
        assert message.jms_destination.name == "country=DK,city=Aarhus"
        assert message.jms_destination.narada_name == "/country=DK/city=Aarhus"
    assert elsewhere.receive_no_wait() is None


def test_our_own_form_reaches_narada_subscribers(world: World) -> None:
    consumer = world.receiver().create_consumer(jms.Topic("/country=DK/city=*"))
    world.wait("country/DK/city/Odense")
    world.sender().create_producer().send(jms.Topic("country/DK/city/Odense"), "hej")
    message = consumer.receive(timeout_s=PATIENCE_S)
    assert message is not None
    assert message.jms_destination == jms.Topic("country/DK/city/Odense")
