"""`shoal store`: run a store, or inspect one."""

import contextlib
import json as json_module
import logging
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.connection import Domain, Interface, Url, plain_endings
from shoal.cli.progress import Progress
from shoal.cli.store_group import app as group_app
from shoal.config import resolve as resolve_connection
from shoal.config.tokens import token_of
from shoal.errors import ConfigError
from shoal.store.config import load_toml, parse_duration, parse_size, resolve, rules
from shoal.system import bytes_read, raise_descriptor_limit

app = typer.Typer(
    help="Run a store, or inspect one.", pretty_exceptions_show_locals=False, add_completion=False
)

EPILOG = """
Examples:

  shoal store --data ./data --record 'prices/>'

  shoal store --data ./data --record 'prices/>' --record 'orders/*' --keep 7d --keep 'orders/*=90d'

  shoal store --config store.toml

  shoal store status --data ./data

  shoal store forward status --data ./data

  shoal store verify --data ./data

  shoal store backup ./copy --data ./data

  shoal store restore ./copy --data ./new

  shoal store seek ticker 2026-11-18T04:00:00Z --client-id desk-7 --data ./data

  shoal store unsubscribe desk-7 --client-id desk --data ./data
"""

forward = typer.Typer(
    help="Look at the rules by which a store forwards messages, or change one.", add_completion=False
)
app.add_typer(forward, name="forward")

app.add_typer(group_app, name="group")

Data = Annotated[Path | None, typer.Option(help="The store's directory, made if it is missing.")]


@app.callback(invoke_without_command=True, epilog=EPILOG)
def store(
    context: typer.Context,
    data: Data = None,
    record: Annotated[
        list[str] | None, typer.Option(help="A pattern of topics to record; may be given several times.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="How long to keep messages, such as 7d, or for one pattern 'prices/>=7d'."),
    ] = None,
    keep_bytes: Annotated[
        list[str] | None,
        typer.Option(help="How much to keep, such as 10GB, or for one pattern 'prices/>=1GB'."),
    ] = None,
    flight: Annotated[
        str | None, typer.Option(help="Serve history over Arrow Flight, such as 127.0.0.1:7475.")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="The token file: clients and readers must show a token of it.")
    ] = None,
    access: Annotated[
        Path | None, typer.Option(help="The access rules: which principal may do what with which topics.")
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Encrypt; makes a certificate, whose fingerprint clients pin.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate to show, with --tls-key.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of --tls-cert.")] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(help="Persistent messages it keeps: topics and queues; may be given several times."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Where clients connect, such as 10.0.0.7:7480, or off.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What it calls itself.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Keep the log together with other stores: the name of their group.")
    ] = None,
    bootstrap: Annotated[
        int | None, typer.Option(help="Found the group once this number of stores is here; for one of them.")
    ] = None,
    group_token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that members prove to each other.")
    ] = None,
    group_listen: Annotated[
        str | None, typer.Option(help="Where members of the group connect, such as 10.0.0.7:7490.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file, in place of the options above.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Serve /metrics for Prometheus and /health, such as 127.0.0.1:9464.")
    ] = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Record topics into a directory, until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    with plain_endings("store"):
        given: dict[str, Any] = {"domain": domain, "interface": interface}
        connection = {name: value for name, value in given.items() if value is not None}
        if config is not None:
            others = (data, record, keep, keep_bytes, flight, tokens, access, tls, tls_cert, pattern, listen)
            if any((*others, name)):
                raise ConfigError("--config has everything: leave out --data, --record, --keep and the like")
            store_config, options = load_toml(config)
            connection = {**options, **connection}
            url = url or connection.pop("url", None)
        else:
            if data is None:
                raise ConfigError("--data names no directory: add --data ./data, or --config FILE")
            retention = _retention(record or [], keep or [], keep_bytes or [])
            told = {
                "patterns": pattern or None,
                "listen": listen,
                "name": name,
                "tokens": tokens,
                "access": access,
                "tls": tls or None,
            }
            told |= {"tls_cert": tls_cert and str(tls_cert), "tls_key": tls_key and str(tls_key)}
            told = {key: value for key, value in told.items() if value is not None}
            store_config = resolve(data, **retention, flight=flight, **told)
        connected = resolve_connection(url, connection)
        if group is None:
            if any((bootstrap, group_token_file, group_listen)):
                raise ConfigError(
                    "--bootstrap, --group-token-file and --group-listen are for a group: add --group NAME"
                )
            _run(store_config, connected, metrics)
        else:
            _run_member(
                store_config,
                connected,
                name=group,
                bootstrap=bootstrap,
                token_file=group_token_file,
                listen=group_listen,
                metrics=metrics,
            )


def _retention(record: list[str], keep: list[str], keep_bytes: list[str]) -> dict[str, Any]:
    """Rules from options; `PATTERN=VALUE` is for one pattern, `VALUE` for all."""
    tables: dict[str, dict[str, Any]] = {pattern: {"pattern": pattern} for pattern in record}
    options: dict[str, Any] = {}
    for name, texts in (("keep", keep), ("keep_bytes", keep_bytes)):
        for text in texts:
            pattern, found, value = text.rpartition("=")
            if not found:
                options[name] = value
            elif pattern in tables:
                tables[pattern][name] = value
            else:
                raise ConfigError(f"--{name.replace('_', '-')} {text}: there is no --record {pattern!r}")
    # Said once more here, so that the error names the option.
    for name, parse in (("keep", parse_duration), ("keep_bytes", parse_size)):
        if name in options:
            parse(options[name], f"--{name.replace('_', '-')}")
    return {**options, "record": rules(list(tables.values()))}


def _run(store_config: Any, connection: Any, metrics: str | None) -> None:
    from shoal.store import Store
    from shoal.store.answering import StoreAnswers

    # Each reader of history takes a descriptor.
    raise_descriptor_limit()
    # An operator wants to see what a store does, not only what goes wrong.
    logging.getLogger("shoal.store").setLevel(logging.INFO)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with (
        Store(store_config, connection) as running,
        contextlib.closing(StoreAnswers(running, metrics)) as answers,
    ):
        try:
            served = f", metrics at {answers.metrics_url}/metrics" if answers.metrics_url else ""
            typer.echo(f"shoal store: {_described(running)}{served}", err=True)
            while not ended.is_set():
                running.wait(0.2)
                answers.turn()
        except KeyboardInterrupt:
            typer.echo("shoal store: closing", err=True)


def _run_member(
    store_config: Any,
    connection: Any,
    *,
    name: str,
    bootstrap: int | None,
    token_file: Path | None,
    listen: str | None,
    metrics: str | None,
) -> None:
    """Be a member of a group until Ctrl-C, and serve while it owns the group."""
    from shoal.store.answering import StoreAnswers
    from shoal.store.group import Group, GroupConfig, token_from

    raise_descriptor_limit()
    logging.getLogger("shoal.store").setLevel(logging.INFO)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    token = None if token_file is None else token_from(token_file)
    group = GroupConfig(name=name, bootstrap=bootstrap, token=token, listen=listen)
    with Group(store_config, connection, group) as running:
        answers: StoreAnswers | None = None
        try:
            typer.echo(f"shoal store: member {running.member:016x} of the group {name}", err=True)
            while not ended.is_set():
                former = running.store
                running.turn(0.2)
                if running.store is not former:
                    if answers is not None:
                        answers.close()
                        answers = None
                    if running.store is not None:
                        answers = StoreAnswers(running.store, metrics)
                        typer.echo(f"shoal store: owner, {_described(running.store)}", err=True)
                    else:
                        typer.echo("shoal store: another member owns the group", err=True)
                if answers is not None:
                    answers.turn()
        except KeyboardInterrupt:
            typer.echo("shoal store: closing", err=True)
        finally:
            if answers is not None:
                answers.close()


def _described(running: Any) -> str:
    """What a store keeps, and where it and its history are."""
    recorded = ", ".join(rule.pattern for rule in running.config.record)
    path, kept = running.config.path, "keeping queues and durable subscriptions"
    parts = [f"recording {recorded} into {path}", kept] if recorded else [f"{kept} in {path}"]
    parts += [f"at {url}" for url in running.urls[:1]]
    parts += [f"forwarding {', '.join(rule.patterns)} to {rule.to}" for rule in running.config.forward]
    parts += [f"history at {running.endpoint}"] if running.endpoint else []
    parts += [f"certificate {running.fingerprint}"] if running.fingerprint else []
    return ", ".join(parts)


@app.command()
def status(
    data: Annotated[Path, typer.Option(help="The store's directory.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print queues, subscriptions, topics, offsets, disk, retention, sync time and rate of a store."""
    from shoal.store.status import read_status

    with plain_endings("store status"):
        found = read_status(data)
        if json:
            typer.echo(json_module.dumps(found))
            return
        for line in _lines(found):
            typer.echo(line)


@forward.command("status")
def forward_status(
    data: Annotated[Path, typer.Option(help="The store's directory.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print for each rule where it leads, whether it forwards, and what waits."""
    from shoal.store.status import read_status

    with plain_endings("store forward status"):
        found = read_status(data)
        rules_ = {"stale": found["stale"], "forwards": found["forwards"], "upstream": found["upstream"]}
        for line in [json_module.dumps(rules_)] if json else _forward_lines(found):
            typer.echo(line)


@forward.command("resume")
def forward_resume(
    name: Annotated[str, typer.Argument(help="The rule's name.")],
    data: Annotated[Path, typer.Option(help="The store's directory.")],
) -> None:
    """Let a rule go on that stopped because its next store was restored or replaced."""
    from shoal.store.asking import ask_store
    from shoal.store.status import read_status

    with plain_endings("store forward resume"):
        ask_store(read_status(data), "rule", name=name, act="resume")
        typer.echo(f"the rule {name} goes on")


@forward.command("drop")
def forward_drop(
    name: Annotated[str, typer.Argument(help="The rule's name.")],
    data: Annotated[Path, typer.Option(help="The store's directory.")],
) -> None:
    """Drop the messages that wait for a rule: they are not forwarded any more."""
    from shoal.store.asking import ask_store
    from shoal.store.status import read_status

    with plain_endings("store forward drop"):
        answer = ask_store(read_status(data), "rule", name=name, act="drop")
        typer.echo(f"dropped {answer['messages']} messages of the rule {name}")


@app.command()
def unsubscribe(
    name: Annotated[str, typer.Argument(help="The subscription's name.")],
    data: Annotated[Path, typer.Option(help="The store's directory.")],
    client_id: Annotated[str | None, typer.Option(help="Whose it is, unless it is shared.")] = None,
    shared: Annotated[bool, typer.Option("--shared", help="It is a shared one.")] = False,
) -> None:
    """Remove a durable subscription that no program uses; the store must run."""
    from shoal.store.asking import ask_store
    from shoal.store.status import read_status

    with plain_endings("store unsubscribe"):
        if not shared and client_id is None:
            raise ConfigError("whose subscription it is must be said: add --client-id ID, or --shared")
        # With a token its role decides; without one, a subscription belongs to its client id.
        known = token_of(None, None) is not None
        given = {} if client_id is None else {"client_id": client_id}
        as_client = None if known else client_id
        ask_store(read_status(data), "unsubscribe", as_client=as_client, name=name, shared=shared, **given)
        typer.echo(f"the subscription {name} is gone")


@app.command()
def backup(
    to: Annotated[Path, typer.Argument(help="An empty directory, made if it is missing.")],
    data: Annotated[Path, typer.Option(help="The store's directory.")],
) -> None:
    """Copy a store, also while it runs, and read the copy whole."""
    from shoal.store.backup import backup as copy_store

    with plain_endings("store backup"):
        with _reading("copying", data, passes=2):
            found = copy_store(data, to)
        typer.echo(
            f"{to} has everything that was durable when the copy began: {found['messages']} messages up to"
            f" offset {found['end']}, {_size(found['bytes'])};"
            f" to make a store from it: shoal store restore {to} --data DIRECTORY"
        )


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(help="A copy that `shoal store backup` made; it stays as it is.")],
    data: Annotated[Path, typer.Option(help="The new store's directory: empty, or made.")],
) -> None:
    """Make a store from a copy, with a new incarnation, so that readers know that it was restored."""
    from shoal.store.backup import restore as restore_store

    with plain_endings("store restore"):
        found = restore_store(copy, data)
        typer.echo(
            f"{data} has {found['messages']} messages up to offset {found['end']}, and is incarnation"
            f" {found['incarnation']} now; start it: shoal store --data {data}"
        )


@app.command()
def seek(
    name: Annotated[str, typer.Argument(help="The name of a durable subscription without a reader.")],
    to: Annotated[
        str, typer.Argument(help="An offset, a time such as 2026-11-18T04:00:00Z, earliest or latest.")
    ],
    data: Annotated[Path, typer.Option(help="The store's directory.")],
    client_id: Annotated[str | None, typer.Option(help="The client id it belongs to.")] = None,
    shared: Annotated[bool, typer.Option("--shared", help="It is shared, and has no client id.")] = False,
) -> None:
    """Have a durable subscription read on from an offset or a time: back, or forward past what waits."""
    from shoal.bus.seeking import place_of
    from shoal.store.asking import ask_store
    from shoal.store.status import read_status

    with plain_endings("store seek"):
        if not shared and client_id is None:
            raise ConfigError("whose subscription it is must be said: add --client-id ID, or --shared")
        as_client = None if token_of(None, None) is not None else client_id
        given = {} if client_id is None else {"client_id": client_id}
        answer = ask_store(
            read_status(data), "seek", as_client=as_client, name=name, shared=shared, **given, **place_of(to)
        )
        typer.echo(f"the subscription {name} reads on from offset {answer['from']}")


@app.command()
def renew(data: Annotated[Path, typer.Option(help="The store's directory.")]) -> None:
    """Begin a new incarnation: after the directory was restored from a copy, and before a program reads."""
    from shoal.store.role import renew as renew_store

    with plain_endings("store renew"):
        former, incarnation = renew_store(data)
        typer.echo(f"{data} was {former}, and is {incarnation} now: readers get an error and begin again")


@app.command()
def verify(
    data: Annotated[Path, typer.Option(help="The store's directory.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read every frame of a store that is closed, and say what is damaged and what can be read."""
    from shoal.store.verifying import verify as verify_store

    with plain_endings("store verify"):
        with _reading("reading", data):
            found = verify_store(data)
        for line in [json_module.dumps(found)] if json else _verdict(found):
            typer.echo(line)
        if not found["whole"]:
            raise typer.Exit(1)


def _reading(text: str, data: Path, passes: int = 1) -> Progress:
    """Show how much of a log is read, by what the system counts for this process; Linux alone does."""
    total = passes * sum(file.stat().st_size for file in data.glob("[0-9]*.log"))
    before = bytes_read()

    def look(progress: Progress) -> None:
        read = bytes_read() - before
        if read and total:
            progress.tell(f"{text}: {_size(min(read, total))} of {_size(total)}", min(read / total, 0.99))

    return Progress(f"{text} {_size(total)}", look=look)


def _verdict(found: dict[str, Any]) -> list[str]:
    lines = [
        f"store        {found['path']}, incarnation {found['incarnation']}",
        f"offsets      {found['first']} to {found['end']}, {found['messages']} messages can be read",
        f"segments     {len(found['segments'])}, {_size(found['bytes'])}",
    ]
    if found["torn_bytes"]:
        torn = found["torn_bytes"]
        lines.append(f"torn tail    {torn} bytes that cannot be read: the next start removes them")
    lines += [f"missing      {number:010}.log" for number in found["missing"]]
    for damage in found["damages"]:
        first, end = damage["first"], damage["end"]
        lost = f"offsets {first} to {end}" if end > first else "no message"
        where = f"{damage['file']}, bytes {damage['from']} to {damage['to']}"
        lines.append(f"damaged      {where}: {damage['why']}; {lost}")
    lines.append("whole" if found["whole"] else "not whole: restore what is named from a copy")
    return lines


def _lines(status: dict[str, Any]) -> list[str]:
    disk, sync, rate = status["disk_bytes"], status["sync"], status["rate"]
    mean = "-" if sync["mean_ms"] is None else f"{sync['mean_ms']:.2f} ms"
    state = f"{status['state']} (not heard of for a while)" if status["stale"] else status["state"]
    lines = [
        f"store        {status['name']} in {status['path']}, process {status['pid']}",
        f"state        {state}",
        f"offsets      {status['floor']} to {status['end']}, incarnation {status['incarnation']}",
        f"segments     {status['segments']}, {_size(disk['log'])}, {_size(disk['free'])} free",
        f"keeps        {_keeps(status)}",
        f"rate         {rate['messages_s']:.0f} messages/s, {_size(rate['bytes_s'])}/s",
        f"sync         {mean} on average, {sync['longest_ms']:.2f} ms at most, {sync['count']} so far",
    ]
    for rule in status["record"]:
        own = rule["keep_s"] is not None or rule["keep_bytes"] is not None
        lines.append(
            f"records      {rule['pattern']}" + (f"  {_keeps(_inherited(rule, status))}" if own else "")
        )
    lines += [f"hold         {name} at {offset}" for name, offset in sorted(status["holds"].items())]
    if status["flight"]:
        lines.append(f"history      {status['flight']}")
    lines += [f"clients at   {url}" for url in status["urls"]]
    lines += [_reader(each, "queue") for each in status["queues"]]
    lines += [_reader(each, "subscription") for each in status["subscriptions"]]
    lines += [
        f"reserved     {each['messages']} messages of {each['queue']} as {each['name']}"
        for each in status["reservations"]
    ]
    if status["pinned_by"] is not None:
        lines.append(f"oldest       needed by {status['pinned_by']}")
    if status.get("unheard"):
        lines.append(f"unheard      {status['unheard']} messages that are not persistent, for want of room")
    lines.append(f"sessions     {status['sessions_count']}")
    lines.append(f"topics       {status['topics_count']}")
    lines += [
        f"  {topic['topic']}  {topic['messages']} messages, {topic['first']} to {topic['last']}"
        for topic in status["topics"]
    ]
    return lines


def _forward_lines(status: dict[str, Any]) -> list[str]:
    """The rules of a store, and the stores that forward to it."""
    lines = ["the store does not run; this is what it said last"] if status["stale"] else []
    for rule in status["forwards"]:
        where = f"{rule['next']!r} at {rule['to']}" if rule["next"] else rule["to"]
        lines += [
            f"rule         {rule['name']}: {', '.join(rule['patterns'])} to {where}",
            f"  state      {rule['state']}" + (f": {rule['why']}" if rule["why"] else ""),
            f"  waiting    {rule['messages']} messages, {_size(rule['bytes'])}, from offset {rule['cursor']}",
        ]
    lines += [f"fed by       store {store}" for store in status["upstream"]]
    return lines or ["the store has no rules, and no store forwards to it"]


def _reader(found: dict[str, Any], kind: str) -> str:
    """A queue or a subscription, in a line."""
    whose = f" of {found['client_id']}" if found["client_id"] and not found["shared"] else ""
    what = found["queue"] or f"{found['name']}{whose} to {', '.join(found['patterns'])}"
    counted = f"{found['messages']} messages, {_size(found['bytes'])}, " if found["queue"] else ""
    return (
        f"{kind:<13}{what}  {counted}cursor {found['cursor']}, lag {found['lag']},"
        f" {found['in_flight']} in flight, {found['consumers']} consumers"
    )


def _inherited(rule: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """A rule without a time of its own has the store's."""
    return rule | {"keep_s": status["keep_s"] if rule["keep_s"] is None else rule["keep_s"]}


def _keeps(rule: dict[str, Any]) -> str:
    for_s = "for ever" if rule["keep_s"] is None else f"for {_span(rule['keep_s'])}"
    return for_s if rule["keep_bytes"] is None else f"{for_s}, at most {_size(rule['keep_bytes'])}"


def _span(seconds: float) -> str:
    """A time in the largest unit that it is a whole number of."""
    for unit, long in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= long and seconds % long == 0:
            return f"{seconds / long:g} {unit}"
    return f"{seconds:g} s"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
