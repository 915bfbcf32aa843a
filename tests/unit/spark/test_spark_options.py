import pytest

from shoal.errors import ConfigError
from shoal.spark.offsets import Boundary
from shoal.spark.options import (
    DEFAULT_STORE,
    READ_NAMES,
    for_batch,
    for_stream,
    parse_duration_s,
    parse_time_us,
    read_options,
    write_options,
)


def test_topics_are_split_at_commas_and_everything_else_has_a_default():
    options = read_options({"subscribe": "prices/*, news/>"})
    assert options.topics == ("prices/*", "news/>")
    assert options.at.store == DEFAULT_STORE
    assert options.fail_on_data_loss
    assert options.starting is None
    assert not options.live


def test_names_of_options_are_compared_without_case_as_spark_does():
    assert read_options({"SUBSCRIBE": "a", "MAXOFFSETSPERTRIGGER": "7"}).max_rows == 7


def test_the_store_is_taken_from_the_environment_if_no_option_names_it(monkeypatch):
    monkeypatch.setenv("SHOAL_STORE", "grpc://store:1")
    assert read_options({"subscribe": "a"}).at.store == "grpc://store:1"
    assert read_options({"subscribe": "a", "store": "grpc://other:1"}).at.store == "grpc://other:1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "exactly one of the options subscribe"),
        ({"subscribe": "a", "subscribePattern": "b"}, "exactly one of the options subscribe"),
        ({"subscribe": "a", "colour": "red"}, "no option colour when it reads; it takes: bodySchema"),
        ({"subscrib": "a"}, "no option subscrib when it reads; did you mean subscribe?"),
        ({"subscribe": "a", "path": "/x"}, "takes no path"),
        ({"subscribe": "a//b"}, "option subscribe: 'a//b' is no pattern of topics, because of the level ''"),
        ({"subscribe": "a/>/b"}, "because of the level '>'"),
        ({"subscribe": "AC*"}, "because of the level 'AC*'"),
        ({"subscribePattern": "a("}, "option subscribePattern must be a regular expression"),
        ({"subscribe": "a", "selector": "x >"}, "option selector is no selector: at position 3"),
        (
            {"subscribe": "a", "maxOffsetsPerTrigger": "0"},
            "option maxOffsetsPerTrigger must be a whole number",
        ),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "option failOnDataLoss must be true or false"),
        ({"subscribe": "a", "mode": "dead"}, "option mode must be history or live, not 'dead'"),
        ({"subscribe": "a", "mode": "live", "store": "x"}, "option store means nothing with mode=live"),
        ({"subscribe": "a", "bus": "norm://"}, "option bus means nothing without mode=live"),
        ({"subscribe": "a", "startingOffsets": "first"}, "option startingOffsets must be earliest, latest"),
        ({"subscribe": "a", "startingOffsets": '{"prices": {"0": 1}}'}, "option startingOffsets must be"),
        ({"subscribe": "a", "startingTimestamp": "soon"}, "option startingTimestamp must be milliseconds"),
        ({"subscribe": "a", "startingOffsets": "5", "startingTimestamp": "5"}, "exclude each other"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "must not exceed"),
        ({"gaps": "true", "selector": "x = 1"}, "option selector means nothing with gaps=true"),
        ({"subscribe": "a", "maxTriggerDelay": "long"}, "option maxTriggerDelay must be a time such as"),
        ({"subscribe": " "}, "option subscribe must list names"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_accepted(given, said):
    with pytest.raises(ConfigError) as raised:
        read_options(given)
    assert said in str(raised.value)


def test_spark_s_own_options_pass():
    options = write_options({"checkpointLocation": "/x", "queryName": "q", "topic": "t", "spark.x": "y"})
    assert options.topic == "t"


def test_what_only_one_of_batch_and_stream_can_do_is_refused_by_the_other():
    with pytest.raises(ConfigError, match=r"availableNow"):
        for_stream(read_options({"subscribe": "a", "endingOffsets": "5"}))
    with pytest.raises(ConfigError, match=r"mode=live is for spark.readStream"):
        for_batch(read_options({"subscribe": "a", "mode": "live"}))
    with pytest.raises(ConfigError, match=r"subscription is for spark.readStream"):
        for_batch(read_options({"subscribe": "a", "subscription": "me"}))


def test_writing_is_exactly_once_unless_asked_otherwise():
    assert write_options({"topic": "t"}).exactly_once
    assert not write_options({"topic": "t", "deliveryGuarantee": "at-least-once"}).exactly_once
    with pytest.raises(
        ConfigError, match=r"deliveryGuarantee must be exactly-once or at-least-once, not 'maybe'"
    ):
        write_options({"topic": "t", "deliveryGuarantee": "maybe"})
    with pytest.raises(ConfigError, match=r"option topic must be one topic"):
        write_options({"topic": "t/*"})
    with pytest.raises(ConfigError, match=r"writeNumber means nothing without writeId"):
        write_options({"topic": "t", "writeNumber": "3"})


def test_times_are_milliseconds_as_kafka_s_or_iso():
    assert parse_time_us("x", "1500") == 1_500_000
    assert parse_time_us("x", "1970-01-01T01:00:01+01:00") == 1_000_000
    assert parse_time_us("x", "1970-01-01T00:00:01") == 1_000_000
    assert read_options({"subscribe": "a", "startingTimestamp": "2"}).starting == Boundary(time_us=2000)


def test_durations_have_units():
    texts = ("250ms", "10s", "5 m", "2", "1h")
    assert [parse_duration_s("x", text) for text in texts] == [0.25, 10, 300, 2, 3600]


def test_every_option_for_reading_is_documented():
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs/reference/spark.md").read_text()
    assert [name for name in READ_NAMES if f"`{name}`" not in page] == []
