"""`shoal history`: look at what a store recorded, count it, follow it, take it away as Parquet."""

import base64
import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.connection import plain_endings
from shoal.cli.message_text import body_text, printable
from shoal.cli.progress import Progress
from shoal.errors import ConfigError
from shoal.selector import Selector

if TYPE_CHECKING:
    # Imported when the command runs: everything else of the command line works without pyarrow.
    import pyarrow as pa

    from shoal.history import History

EPILOG = """
Examples:

  shoal history 'prices/>' --store ./data                  the first twenty, as a table

  shoal history --store ./data --topics                    which topics there are

  shoal history 'prices/>' --from 10m --count              how many in the last ten minutes

  shoal history 'prices/*' --selector "region = 'EU'" --follow --json | jq .body

  shoal history --from 2026-01-31T08:00 --to 2026-01-31T18:00 --export day.parquet
"""

SHOWN_COLUMNS = ("offset", "stored", "topic", "body_kind", "body", "properties")
JSON_KINDS = ("mapping", "list", "scalar")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SPAN_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def history(
    patterns: Annotated[
        list[str] | None, typer.Argument(help="Topics: * is one level, > all that follow. None: everything.")
    ] = None,
    store: Annotated[
        str,
        typer.Option(envvar="SHOAL_STORE", help="A store's directory on this machine, or grpc://host:port."),
    ] = "grpc://127.0.0.1:7475",
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token that the store asks for; SHOAL_TOKEN_FILE names one, too."),
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="Over TLS: the fingerprint of the store's certificate.")
    ] = None,
    selector: Annotated[str | None, typer.Option(help="Only messages that this selects.")] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help="An offset, a time, how long ago (10m), earliest, latest."
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="WHERE", help="The same; what is there is not included.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Messages at the most. Without it, a table shows 20.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns, separated by commas, in this order.")] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NAME:TYPE", help="A property as a column: string, int64, float64, bool."
        ),
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Only say how many there are.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    topics: Annotated[bool, typer.Option("--topics", help="List the topics.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Parquet file.", dir_okay=False)
    ] = None,
) -> None:
    """Look at what a store recorded."""
    with plain_endings("history"):
        _one_of({"--count": count, "--follow": follow, "--topics": topics, "--export": export is not None})
        from shoal.history import connect

        if selector is not None:
            # What is wrong with it is shown where it is, as `shoal sub` does.
            Selector(selector)
        query = {
            "selector": selector,
            "columns": _columns(columns, export is not None or as_json),
            "properties": dict(_property(text) for text in property_ or ()),
            "limit": limit,
            **_place("from", start),
            **_place("to", end),
        }
        with connect(store, token_file=token_file, fingerprint=fingerprint) as reader:
            if topics:
                _list_topics(reader, patterns or [], as_json)
            elif count:
                answer = reader.latest(patterns or [], max_rows=query.pop("limit"), **query)
                typer.echo(json.dumps(answer) if as_json else answer["rows"])
            elif export is not None:
                _export(reader, patterns or [], query, export)
            elif follow:
                _print(reader.follow(patterns or [], **query), as_json)
            else:
                shown = query | ({"limit": 20} if limit is None and not as_json else {})
                _show(reader, patterns or [], shown, as_json)


def _one_of(chosen: dict[str, bool]) -> None:
    given = [name for name, wanted in chosen.items() if wanted]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} do not go together: give one of them")


def _columns(listed: str | None, all_of_them: bool) -> list[str] | None:
    if listed is not None:
        return [name.strip() for name in listed.split(",") if name.strip()]
    return None if all_of_them else list(SHOWN_COLUMNS)


def _property(text: str) -> tuple[str, str]:
    name, colon, kind = text.rpartition(":")
    if not (name and colon):
        raise ConfigError(f"a property is given as NAME:TYPE, such as region:string, not {text!r}")
    return name, kind


def _place(option: str, text: str | None) -> dict[str, Any]:
    """An offset or a time as the arguments of a query."""
    at, at_time = ("start", "from_time") if option == "from" else ("end", "to_time")
    if text is None:
        return {}
    if text.isdecimal():
        return {at: int(text)}
    if text in ("earliest", "latest") and option == "from":
        return {at: text}
    if span := _SPAN.fullmatch(text):
        return {at_time: int((time.time() - float(span[1]) * _SPAN_S[span[2]]) * 1e6)}
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        names = ", earliest or latest" if option == "from" else ""
        wanted = f"an offset, a time such as 2026-01-31T08:00, a span such as 10m{names}"
        raise ConfigError(f"--{option} is {text!r}, and must be {wanted}") from None
    # A time without a zone is this machine's.
    return {at_time: moment.astimezone()}


def _list_topics(reader: "History", patterns: list[str], as_json: bool) -> None:
    wanted: list[str | None] = [*patterns] or [None]
    found = [topic for pattern in wanted for topic in reader.topics(pattern)]
    if as_json:
        for topic in found:
            typer.echo(json.dumps(topic, ensure_ascii=False))
        return
    table = Table("topic", box=None)
    for heading in ("messages", "first", "last"):
        table.add_column(heading, justify="right")
    for topic in found:
        table.add_row(topic["topic"], *(f"{topic[key]:,}" for key in ("count", "first", "last")))
    Console(highlight=False).print(table)


def _show(reader: "History", patterns: list[str], query: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _print(reader.batches(patterns, **query), as_json)
        return
    rows = reader.read(patterns, **query).to_pylist()
    _tell_of_gaps(reader, rows, query)
    if not rows:
        typer.echo("nothing matches")
        return
    names = [name for name in rows[0] if name != "body_kind" or "body" not in rows[0]]
    table = Table(*names, box=None)
    for row in rows:
        table.add_row(*(_cell(row, name) for name in names))
    Console(highlight=False, markup=False).print(table)
    if len(rows) == query["limit"]:
        typer.echo(f"the first {len(rows)}; --limit shows more, --count says how many there are", err=True)


def _tell_of_gaps(reader: "History", rows: list[dict[str, Any]], query: dict[str, Any]) -> None:
    """Print on standard error what the store missed in the range of the rows, of any publisher."""
    place = {name: query[name] for name in ("start", "from_time", "end", "to_time") if name in query}
    if rows and "offset" in rows[-1] and len(rows) == query["limit"]:
        place = {name: value for name, value in place.items() if name in ("start", "from_time")}
        place["end"] = rows[-1]["offset"] + 1
    gaps = reader.gaps(**place)
    lost = sum(gap["count"] for gap in gaps if gap["reason"] == "lost")
    away = sum(gap["count"] for gap in gaps if gap["reason"] == "away")
    if lost:
        typer.echo(f"about {lost:,} messages are missing: they were lost on their way to the store", err=True)
    if away:
        typer.echo(f"{away:,} messages may be missing: the store was not there", err=True)


def _print(batches: Iterator["pa.RecordBatch"], as_json: bool) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for batch in batches:
        for row in batch.to_pylist():
            if as_json:
                print(json.dumps(_plain_row(row), ensure_ascii=False, default=str), flush=True)
            else:
                names = (name for name in row if name != "body_kind" or "body" not in row)
                console.print("  ".join(_cell(row, name) for name in names))


def _cell(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    if name == "properties":
        return printable(" ".join(f"{key}={text}" for key, text in value))
    if isinstance(value, bytes):
        return body_text(value) if value else ""
    return printable(str(value))


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON has it: properties as an object, bodies as they were, other bytes as base64."""
    plain = {name: value for name, value in row.items() if value is not None}
    if "properties" in plain:
        plain["properties"] = dict(plain["properties"])
    if row.get("body_kind") in JSON_KINDS and "body" in plain:
        plain["body"] = json.loads(plain["body"])
    for name in ("body", "body_detail"):
        if isinstance(plain.get(name), bytes):
            value = plain.pop(name)
            try:
                plain[name] = value.decode()
            except UnicodeDecodeError:
                plain[f"{name}_base64"] = base64.b64encode(value).decode()
    return plain


def _export(reader: "History", patterns: list[str], query: dict[str, Any], path: Path) -> None:
    """Write to a file beside the one asked for, which appears when it is complete."""
    import pyarrow.parquet as pq

    from shoal.history.schema import DEFAULT_COLUMNS, schema_of

    # The range stays the same from counting to reading, whatever is recorded meanwhile.
    counted = reader.latest(patterns, max_rows=query["limit"], **{**query, "limit": None})
    fixed = {name: value for name, value in query.items() if name not in ("from_time", "to_time")}
    fixed |= {"start": counted["from"], "end": counted["end"], "incarnation": reader.info()["incarnation"]}
    schema = schema_of(query["columns"] or DEFAULT_COLUMNS, query["properties"])
    partial = path.with_name(path.name + ".part")
    written, total = 0, counted["rows"]
    try:
        with (
            pq.ParquetWriter(partial, schema, compression="zstd") as writer,
            Progress(f"writing {path.name}") as progress,
        ):
            for batch in reader.batches(patterns, **fixed):
                writer.write_batch(batch)
                written += batch.num_rows
                progress.tell(f"{path.name}: {written:,} of {total:,} messages", written / max(total, 1))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    typer.echo(f"{counted['rows']} messages are in {path}", err=True)
