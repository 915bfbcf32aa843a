"""Access rules, decided."""

import re
from pathlib import Path
from typing import Any

import pytest

from shoal.config.access import Access, AccessFile
from shoal.config.patterns import could_meet, covers
from shoal.errors import ConfigError

DESKS = {"name": "desks read", "principals": ["desk-*"], "actions": ["subscribe"], "topics": ["prices/>"]}
SECRET = {
    "name": "no secrets",
    "principals": ["*"],
    "actions": ["all"],
    "topics": ["prices/secret/>"],
    "effect": "deny",
}


def access(*rules: dict[str, Any], quotas: list[dict[str, Any]] | None = None) -> Access:
    return Access.of({"rule": list(rules), "quota": quotas or []}, "rules.toml")


@pytest.mark.parametrize(
    ("principal", "action", "destination", "allowed"),
    [
        ("desk-7", "subscribe", "prices/ACME", True),
        ("desk-7", "subscribe", "prices/*", True),
        ("desk-7", "subscribe", ">", False),
        ("desk-7", "subscribe", "*/ACME", False),
        ("desk-7", "publish", "prices/ACME", False),
        ("bot", "subscribe", "prices/ACME", False),
        ("desk-7", "subscribe", "_queue/orders", False),
    ],
)
def test_what_no_rule_allows_is_denied(principal: str, action: str, destination: str, allowed: bool) -> None:
    assert access(DESKS).decide(principal, action, destination).is_allowed is allowed


def test_a_rule_that_denies_wins_wherever_it_stands() -> None:
    for rules in ([DESKS, SECRET], [SECRET, DESKS]):
        found = access(*rules).decide("desk-7", "subscribe", "prices/secret/plan")
        assert not found.is_allowed
        assert found.rule is not None
        assert found.rule.name == "no secrets"


def test_a_pattern_that_could_match_a_denied_topic_is_denied() -> None:
    rules = access(DESKS, SECRET)
    assert rules.decide("desk-7", "subscribe", "prices/*").is_allowed
    assert not rules.decide("desk-7", "subscribe", "prices/>").is_allowed
    assert not rules.decide("desk-7", "subscribe", "prices/*/plan").is_allowed


def test_an_operator_may_do_everything() -> None:
    assert access(SECRET).decide("root", "admin", "prices/secret/x", operator=True).is_allowed
    assert access().refusal("root", "publish", "a", operator=True) is None


def test_queues_are_topics_of_their_own() -> None:
    rules = access({"principals": ["w"], "actions": ["consume"], "topics": ["_queue/orders"]})
    assert rules.decide("w", "consume", "_queue/orders").is_allowed
    assert not rules.decide("w", "consume", "_queue/other").is_allowed
    everything = access({"principals": ["w"], "actions": ["all"], "topics": [">"]})
    assert not everything.decide("w", "consume", "_queue/orders").is_allowed


def test_a_refusal_names_the_rule_or_that_there_is_none() -> None:
    rules = access(DESKS, SECRET)
    assert rules.refusal("desk-7", "subscribe", "prices/ACME") is None
    assert rules.refusal("desk-7", "publish", "prices/ACME") == (
        "'desk-7' may not publish prices/ACME: no rule of rules.toml allows it."
    )
    denied = rules.refusal("desk-7", "subscribe", "prices/secret/a")
    assert denied is not None
    assert "the rule 'no secrets' of rules.toml denies it" in denied


def test_the_first_quota_that_names_a_principal_counts() -> None:
    rules = access(
        quotas=[{"principals": ["desk-1"], "connections": 9}, {"principals": ["desk-*"], "connections": 2}]
    )
    found = [rules.quota(name) for name in ("desk-1", "desk-2", "bot")]
    assert [None if each is None else each.connections for each in found] == [9, 2, None]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"rules": []}, "[[rule]] and [[quota]]"),
        ({"rule": {}}, "must be tables [[rule]]"),
        ({"rule": [{"principals": ["a"], "actions": ["fly"], "topics": [">"]}]}, "publish, subscribe"),
        ({"rule": [{"principals": ["a"], "actions": ["publish"]}]}, "topics is ()"),
        ({"rule": [{"principals": "a", "actions": ["publish"], "topics": [">"]}]}, "a list of texts"),
        ({"rule": [{"principal": ["a"]}]}, "did you mean 'principals'?"),
        ({"rule": [{"principals": ["a"], "actions": ["publish"], "topics": ["a//b"]}]}, "rule 1"),
        ({"quota": [{"principals": ["a"], "connections": 0}]}, "at least 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)) as caught:
        Access.of(given, "rules.toml")
    assert "rules.toml" in str(caught.value)


def test_a_file_that_changed_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nprincipals = ["a"]\nactions = ["publish"]\ntopics = ["x"]\n')
    file = AccessFile(path)
    assert file.access.decide("a", "publish", "x").is_allowed
    path.write_text('[[rule]]\nprincipals = ["b"]\nactions = ["publish"]\ntopics = ["x", "y"]\n')
    assert file.refresh() is None
    assert not file.access.decide("a", "publish", "x").is_allowed
    path.write_text("[[rule")
    wrong = file.refresh()
    assert wrong is not None
    assert "cannot be read" in wrong
    assert file.access.decide("b", "publish", "y").is_allowed


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a/*", "a/b", True),
        ("a/*", "*/b", True),
        ("a/>", "a/b/c", True),
        ("a/>", "a", False),
        (">", "a/b", True),
        (">", "_queue/x", False),
        ("_queue/>", "_queue/*", True),
        ("a/b", "a/c", False),
        ("a/*/c", "a/b", False),
    ],
)
def test_patterns_meet_if_a_topic_could_match_both(one: str, other: str, meet: bool) -> None:
    assert could_meet(one, other) is meet
    assert could_meet(other, one) is meet
    assert not (covers(one, other) and not meet)
