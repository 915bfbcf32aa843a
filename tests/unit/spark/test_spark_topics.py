import pytest

from shoal.errors import ConfigError
from shoal.spark import topics


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("prices/ACME", "prices/ACME", True),
        ("prices/ACME", "prices/ACME/bid", False),
        ("prices/*", "prices", False),
        ("prices/*", "prices/ACME", True),
        ("*/ACME", "news/ACME", True),
        ("prices/>", "prices/ACME/bid", True),
        ("prices/>", "prices", False),
        (">", "prices", True),
        (">", "_reply/1", False),
        ("_reply/>", "_reply/1", True),
    ],
)
def test_patterns_mean_what_the_reference_says(pattern, topic, expected):
    assert topics.matches(pattern, topic) is expected


def test_filters_on_topics_leave_those_that_are_subscribed_to():
    assert topics.narrowed(["prices/*"], {"prices/A", "news/A"}) == ("prices/A",)
    assert topics.narrowed(["prices/*"], None) == ("prices/*",)
    assert topics.narrowed(["prices/*"], frozenset()) == ()


def test_an_expression_matches_whole_topics():
    assert topics.matching("prices/A.*", ["prices/AB", "xprices/AB", "prices/B"]) == ("prices/AB",)


def test_an_expression_for_too_many_topics_is_refused(monkeypatch):
    monkeypatch.setattr(topics, "TOPICS_MAX", 2)
    with pytest.raises(ConfigError, match="matches 3 topics, and 2 are the most"):
        topics.matching(".*", ["a", "b", "c"])
