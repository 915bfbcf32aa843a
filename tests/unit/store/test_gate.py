"""Who may speak with a store: forged tokens, replayed challenges, sessions and subscriptions of others."""

from pathlib import Path
from typing import Any

import pytest
from desk import Client, Desk

from shoal.bus.store_greeting import Greeting
from shoal.config.tokens import Principal, Principals, Token, write_principals
from shoal.errors import StoreDeniedError
from shoal.store.gate import PATIENCE_S, Gate, Via
from shoal.store.machine import Machine


class Stranger(Client):
    """A client at the store's own door."""

    def __init__(
        self, desk: Desk, name: str, token: Token | None = None, peer: int = 5, **hello: Any
    ) -> None:
        super().__init__(desk, name)
        self.greeting, self.peer, self.via, self.extra = Greeting(token), peer, "door", hello
        desk.clients[name] = self

    via: Via

    def tell(self, op: str, **fields: Any) -> None:
        request = {"op": op, "session": self.name, "n": self.n, **fields}
        self.desk.machine.handle(self.desk.now, request, self.via, self.peer)
        self.desk.run()

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        self.n += 1
        before = len(self.heard)
        self.tell(op, **fields)
        return self.heard[before] if len(self.heard) > before else {}

    def greet(self) -> dict[str, Any]:
        hello = {"version": 1, "publisher": self.publisher, **self.extra}
        answer = self.ask("hello", **hello, **self.greeting.hello())
        if answer.get("op") == "challenge":
            answer = self.ask(**self.greeting.prove(self.name, answer))
        return answer


class Guarded:
    """A store that asks for tokens."""

    def __init__(self, path: Path) -> None:
        self.tokens = {name: Token.new(name) for name in ("ann", "bob", "chief", "gw", "eye")}
        roles = {"chief": "operator", "gw": "daemon", "eye": "viewer"}
        write_principals(
            path, [Principal(name, roles.get(name, "client"), t.verifier) for name, t in self.tokens.items()]
        )
        self.desk = Desk()
        self.gate = Gate(Principals(path), f"{7:016x}", "r")
        self.desk.machine = Machine(self.desk.log, self.desk.machine.identity, self.desk.now, gate=self.gate)

    def client(self, name: str, who: str, **hello: Any) -> Stranger:
        client = Stranger(self.desk, name, self.tokens[who], **hello)
        assert client.greet()["op"] == "answer"
        return client


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path / "tokens")


def test_both_sides_prove_themselves_and_the_session_begins(guarded: Guarded) -> None:
    ann = guarded.client("a", "ann")
    assert ann.greeting.is_proven
    assert ann.ask("declare", queue="q")["op"] == "answer"
    assert guarded.desk.machine.status()["sessions"][0]["principal"] == "ann"


def test_without_a_token_nothing_can_be_asked(guarded: Guarded) -> None:
    nobody = Stranger(guarded.desk, "x")
    assert nobody.greet()["error"] == "DENIED"
    for op in ("browse", "consume", "subscribe", "unsubscribe", "status", "declare"):
        assert nobody.ask(op, queue="q", name="n")["error"] == "NO_SESSION"


@pytest.mark.parametrize("who", ["gw", "eye"])
def test_tokens_for_registries_open_no_store(guarded: Guarded, who: str) -> None:
    answer = Stranger(guarded.desk, "x", guarded.tokens[who]).greet()
    assert answer["error"] == "DENIED"
    assert "registries" in answer["text"]


def test_a_forged_token_and_an_unknown_principal_are_told_the_same(guarded: Guarded) -> None:
    answers = []
    for name, token in (("f", Token.new("ann")), ("u", Token.new("nobody-knows"))):
        forger = Stranger(guarded.desk, name, token)
        challenge = forger.ask("hello", version=1, publisher=5, **forger.greeting.hello())
        with pytest.raises(StoreDeniedError, match="did not prove"):
            forger.greeting.prove(name, challenge)
        answer = forger.ask("prove", proof=b"x" * 32)
        answers.append((sorted(challenge), answer["error"], answer["text"]))
    assert answers[0] == answers[1]
    assert guarded.gate.denied == 2


def test_a_recorded_proof_is_worth_nothing(guarded: Guarded) -> None:
    ann = Stranger(guarded.desk, "a", guarded.tokens["ann"])
    hello = ann.greeting.hello()
    challenge = ann.ask("hello", version=1, publisher=5, **hello)
    proof = ann.greeting.prove("a", challenge)["proof"]
    # Somebody who heard all of it says it again, in a session of the same name and of another.
    for name in ("a", "b"):
        thief = Stranger(guarded.desk, name, peer=5)
        thief.n = 10
        again = thief.ask("hello", version=1, publisher=5, **hello)
        assert again["nonce"] != challenge["nonce"]
        assert thief.ask("prove", proof=proof)["error"] == "DENIED"
    assert thief.ask("prove", proof=proof)["error"] == "DENIED", "a challenge is over with its answer"


def test_a_challenge_is_not_good_for_long_and_for_nobody_else(guarded: Guarded) -> None:
    late = Stranger(guarded.desk, "a", guarded.tokens["ann"])
    challenge = late.ask("hello", version=1, publisher=5, **late.greeting.hello())
    proof = late.greeting.prove("a", challenge)["proof"]
    late.peer = 6
    assert late.ask("prove", proof=proof)["error"] == "DENIED"
    late.peer = 5
    guarded.desk.now_s += PATIENCE_S
    assert late.ask("prove", proof=proof)["error"] == "DENIED"


def test_a_store_that_proves_nothing_is_not_believed() -> None:
    greeting = Greeting(Token.new("ann"))
    greeting.hello()
    assert not greeting.is_proven
    for challenge in ({}, {"nonce": b"x" * 32, "store": "7", "run": "r", "proof": b"y" * 32}):
        with pytest.raises(StoreDeniedError, match="who poses as the store"):
            greeting.prove("s", challenge)
    assert not greeting.is_proven


def test_on_the_domains_bus_nobody_can_prove_anything(guarded: Guarded) -> None:
    ann = Stranger(guarded.desk, "a", guarded.tokens["ann"])
    ann.via = "domain"
    assert ann.greet()["error"] == "DENIED"


def test_nobody_speaks_in_a_session_that_another_began(guarded: Guarded) -> None:
    ann = guarded.client("a", "ann")
    thief = Stranger(guarded.desk, "a", peer=99)
    for op in ("bye", "declare", "hello", "prove"):
        thief.ask(op, queue="stolen", version=1, publisher=5)
    assert thief.heard == [], "what was answered would reach the session's own client"
    guarded.desk.clients["a"] = ann
    assert ann.ask("ping")["op"] == "answer"
    assert guarded.desk.machine.foreign == 4


def test_a_subscription_belongs_to_its_principal(guarded: Guarded) -> None:
    ann = guarded.client("a", "ann", client_id="desk")
    ann.subscribe("t/>", name="mine", durable=True)
    ann.ask("bye")
    bob = guarded.client("b", "bob", client_id="desk")
    asked = {"consumer": 1, "patterns": ["t/>"], "messages": 1, "bytes": 1, "name": "mine", "durable": True}
    assert bob.ask("subscribe", **asked)["error"] == "DENIED"
    assert bob.ask("subscribe", replace=True, **{**asked, "patterns": ["u"]})["error"] == "DENIED"
    assert bob.ask("unsubscribe", name="mine")["error"] == "DENIED"
    chief = guarded.client("c", "chief")
    assert chief.ask("unsubscribe", name="mine", client_id="desk")["op"] == "answer"


def test_without_tokens_a_subscription_belongs_to_its_client_id() -> None:
    desk = Desk()
    ann, eve = (Stranger(desk, name, client_id=name) for name in ("ann", "eve"))
    for each in (ann, eve):
        each.greet()
    ann.subscribe("t/>", name="mine", durable=True)
    ann.ask("cancel", consumer=1)
    refused = eve.ask("unsubscribe", name="mine", client_id="ann")
    assert refused["error"] == "DENIED"
    assert "connect with that client id" in refused["text"]
    assert ann.ask("unsubscribe", name="mine")["op"] == "answer"
