"""`shoal queue`, and what workers share, with a store in a process of its own."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import PATIENCE_S
from typer.testing import CliRunner

import shoal
from shoal import history
from shoal.cli import finding
from shoal.cli.app import app
from shoal.processes.store import StoreProcess
from shoal.store.status import read_status


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    directory: Path = tmp_path_factory.mktemp("queues") / "data"
    with StoreProcess(directory, record="recorded/>") as running:
        yield running


def run(store: StoreProcess, *arguments: str) -> str:
    where = ("--domain", store.domain, "--interface", "lo", "--timeout", str(PATIENCE_S))
    result = CliRunner().invoke(app, ["queue", *arguments, *where])
    assert result.exit_code == 0, result.output
    return result.output


def test_queues_are_listed_looked_into_moved_and_emptied(store: StoreProcess) -> None:
    run(store, "send", "orders", "wrong", "--count", "1200", "--property", "region=EU")
    run(store, "send", "orders", "right", "--property", "region=US")
    (listed,) = [json.loads(line) for line in run(store, "list", "--json").splitlines()]
    assert (listed["name"], listed["messages"]) == ("orders", 1201)
    titles, row = run(store, "list").splitlines()
    assert titles.split()[:2] == ["name", "messages"]
    assert row.split()[:2] == ["orders", "1201"]
    (seen,) = run(store, "peek", "orders", "--selector", "region = 'US'", "--json").splitlines()
    assert json.loads(seen)["body"] == "right"
    moved = run(store, "move", "orders", "failed", "--selector", "region = 'EU'", "--count", "1150")
    assert moved.startswith("1150 messages moved"), "also more than a store moves at once"
    assert run(store, "purge", "failed").startswith("1150 messages dropped")
    assert run(store, "move", "orders", "again").startswith("51 messages moved")
    assert run(store, "peek", "orders") == ""


def test_a_queue_is_told_where_its_dead_letters_go(store: StoreProcess) -> None:
    told = run(store, "declare", "jobs", "--deliveries-max", "3", "--dead-letter", "bad", "--backoff", "2s")
    assert "delivered 3 times" in told
    assert "goes to bad" in told
    (listed,) = [
        each
        for line in run(store, "list", "--json").splitlines()
        if (each := json.loads(line))["name"] == "jobs"
    ]
    assert (listed["deliveries_max"], listed["dead_letter"], listed["backoff_s"]) == (3, "bad", 2.0)
    assert "until they are acknowledged" in run(store, "declare", "jobs", "--deliveries-max", "0")


@pytest.mark.parametrize(
    "arguments",
    [
        ("queue", "list"),
        ("queue", "peek", "orders"),
        ("queue", "send", "orders", "tea"),
        ("pub", "orders", "tea", "--persistent"),
        ("sub", "orders", "--durable", "desk"),
    ],
)
def test_without_a_store_a_command_says_within_a_second_or_two_what_to_start(
    arguments: tuple[str, ...], store: StoreProcess
) -> None:
    domain = f"{store.domain}-empty"
    began = time.monotonic()
    result = CliRunner().invoke(app, [*arguments, "--domain", domain, "--interface", "lo"])
    assert time.monotonic() - began < 5 * finding.LOOK_S
    assert result.exit_code == 1
    assert "No store answered within 1.0 s" in result.output
    assert f"Start one: shoal store --data ./data --domain {domain}" in result.output
    assert "connect(" not in result.output, "no Python"


def test_a_store_is_found_by_its_address_alone(store: StoreProcess) -> None:
    run(store, "send", "by-address", "tea")
    url = read_status(store.directory)["urls"][0]
    result = CliRunner().invoke(app, ["queue", "peek", "by-address", "--url", url, "--domain", store.domain])
    assert result.exit_code == 0, result.output
    assert "tea" in result.output


def test_a_persistent_last_value_needs_no_publisher(store: StoreProcess) -> None:
    where = ["--domain", store.domain, "--interface", "lo"]
    published = CliRunner().invoke(app, ["pub", "prices/ACME", "10.25", "--retain", "--persistent", *where])
    assert published.exit_code == 0, published.output
    arguments = ["prices/*", "--retained", "--count", "1", "--timeout", str(PATIENCE_S)]
    shown = CliRunner().invoke(app, ["sub", *arguments, *where])
    assert shown.exit_code == 0, shown.output
    assert shown.output.endswith("prices/ACME 10.25\n")


def test_queues_that_a_program_holds_in_memory_are_listed(store: StoreProcess) -> None:
    where = {"domain": f"{store.domain}-memory", "interface": "lo"}
    with shoal.connect(**where) as worker:
        worker.queue("jobs").send("work", persistent=False, timeout_s=PATIENCE_S)
        arguments = ["queue", "list", "--json", "--domain", where["domain"], "--interface", "lo"]
        result = CliRunner().invoke(app, [*arguments, "--timeout", str(PATIENCE_S)])
        assert result.exit_code == 0, result.output
        assert json.loads(result.output)["name"] == "jobs"


def test_what_a_job_reserved_is_given_back(store: StoreProcess) -> None:
    run(store, "send", "jobs", "work")
    with history.connect(store.address) as client:
        assert client.reserve("billing", "jobs")["messages"] == 1
        store.kill()
        store.start()
    assert run(store, "peek", "jobs") == "", "it stays reserved, whatever happens"
    assert run(store, "release", "billing") == "1 messages given back\n"
    assert "work" in run(store, "receive", "jobs", "--count", "1")


def test_workers_of_a_shared_durable_subscription_share_what_came_while_they_were_away(
    store: StoreProcess,
) -> None:
    options = {"shared": "workers", "durable": True, "prefetch": 1}
    with (
        shoal.connect(domain=store.domain, interface="lo") as one,
        shoal.connect(domain=store.domain, interface="lo") as two,
    ):
        with one.subscribe("tasks", **options) as mine, two.subscribe("tasks", **options) as yours:
            for number in range(4):
                one.publish("tasks", number, persistent=True, timeout_s=PATIENCE_S)
            got = [each.receive(PATIENCE_S) for each in (mine, yours)]
            assert None not in got, "each of them is given one"
            # Of the others the store may give both to whoever it heard first to be done.
            deadline = time.monotonic() + PATIENCE_S
            while len(got) < 4 and time.monotonic() < deadline:
                got += [message for each in (mine, yours) if (message := each.receive(0.05)) is not None]
            assert sorted(message.body for message in got if message is not None) == [0, 1, 2, 3]
        one.publish("tasks", 4, persistent=True, timeout_s=PATIENCE_S)
        with two.subscribe("tasks", **options) as yours:
            last = yours.receive(PATIENCE_S)
            assert last is not None
            assert last.body == 4, "it is kept while nobody reads, and what was done does not come again"
