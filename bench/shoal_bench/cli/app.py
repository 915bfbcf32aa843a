"""`shoal bench`: measure Shoal, alone and beside its peers. One command per experiment of `shoal_bench`."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated, Any, Protocol, TypeVar

import typer

from shoal.cli.progress import Progress, RoundPace
from shoal.errors import ProcessFailedError
from shoal_bench import availability, report
from shoal_bench import churn as churn_experiment
from shoal_bench import failover as failover_experiment
from shoal_bench import fec as fec_experiment
from shoal_bench import jms as jms_experiment
from shoal_bench import lan as lan_experiment
from shoal_bench import latency as latency_experiment
from shoal_bench import locate as locate_experiment
from shoal_bench import norm as norm_experiment
from shoal_bench import route as route_experiment
from shoal_bench import sharing as sharing_experiment
from shoal_bench import slow as slow_experiment
from shoal_bench import throughput as throughput_experiment
from shoal_bench import tunnel as tunnel_experiment
from shoal_bench.cli import agent as agent_command
from shoal_bench.cli import seeds as seeds_command
from shoal_bench.cli import selectors as selectors_command
from shoal_bench.rounds import Follow

app = typer.Typer(help="Measure Shoal, alone and beside its peers.", no_args_is_help=True)

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.")
]
#: None compares with the default peers that can run here; a name must be able to run.
Peers = Annotated[
    str | None,
    typer.Option(
        help="Contestants beside Shoal: zenoh, zmq, nats, or '' for none. [default: those installed]"
    ),
]
Link = Annotated[str, typer.Option(help="What carries Shoal's messages: norm or tcp.")]
Rounds = Annotated[int, typer.Option(help="How often each contestant runs; medians are reported.")]


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for command in app.registered_commands:
        if command.callback is not None and command.callback is not list_experiments:
            summary = (command.callback.__doc__ or "").strip().splitlines()[0]
            typer.echo(f"{command.name:<12} {summary}")


@app.command("norm")
def norm(
    segment: Annotated[int, typer.Option(help="Bytes of stream data in a segment.")] = 1400,
    loss: Annotated[float, typer.Option(help="Percent of datagrams dropped at the receiver.")] = 0.0,
    fec: Annotated[str, typer.Option(help="Parity: none, or rs for Reed-Solomon.")] = "none",
    parity: Annotated[int, typer.Option(help="Parity symbols that follow each block.")] = 8,
    block: Annotated[int, typer.Option(help="Segments of a block.")] = 64,
    key: Annotated[
        bool, typer.Option("--key", help="Encrypt Shoal's datagrams, and run it without as well.")
    ] = False,
    peers: Annotated[
        str | None,
        typer.Option(help="Contestants beside Shoal: libnorm, or '' for none. [default: those installed]"),
    ] = None,
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(help="About how long each transfer takes.")] = 2.0,
    bytes_: Annotated[
        int | None, typer.Option("--bytes", help="How much each transfer moves instead.")
    ] = None,
    json: Json = None,
) -> None:
    """Goodput of one NORM stream between two processes on loopback multicast."""
    with _options_checked():
        options = norm_experiment.NormOptions(
            segment_bytes=segment,
            loss_percent=loss,
            fec=fec,
            parity_symbols=parity,
            block_symbols=block,
            key=key,
            peers=_peers(peers, norm_experiment.NormOptions.peers, norm_experiment.NEEDS),
            rounds=rounds,
            seconds=seconds,
            bytes=bytes_,
        )

    def run(options: norm_experiment.NormOptions, follow: Follow) -> dict[str, Any]:
        def follow_rate(number: int, contestant: str, gbit_s: float | None) -> None:
            follow(number, contestant, "" if gbit_s is None else f"{gbit_s:.2f} Gbit/s")

        return norm_experiment.run(options, follow_rate)

    coded = f", parity {block} + {parity}" if fec == "rs" else ""
    _show(f"NORM, {segment}-byte segments, {loss:g} % loss{coded}", options, run, json)


@app.command("route")
def route(
    sizes: Annotated[
        str, typer.Option(help="Bytes of each message's body, several with commas.")
    ] = "64,1024",
    peers: Peers = None,
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(help="About how long each transfer takes.")] = 2.0,
    count: Annotated[int | None, typer.Option(help="How many messages each transfer moves instead.")] = None,
    selectors: Annotated[int, typer.Option(help="Different selectors behind the router.")] = 1000,
    json: Json = None,
) -> None:
    """Messages per second through a router, from Python, on loopback."""
    with _options_checked():
        options = route_experiment.RouteOptions(
            sizes=tuple(int(size) for size in _names(sizes)),
            peers=_peers(peers, route_experiment.RouteOptions.peers, availability.PUBSUB),
            rounds=rounds,
            seconds=seconds,
            count=count,
            selectors=selectors,
        )
    _show(f"{sizes}-byte messages through a router", options, route_experiment.run, json)


@app.command("failover")
def failover(
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 1024,
    rate: Annotated[int, typer.Option(help="Messages that are published in a second.")] = 10_000,
    peers: Annotated[
        str | None,
        typer.Option(
            help="Contestants beside Shoal: zenoh, nats, or '' for none. [default: those installed]"
        ),
    ] = None,
    rounds: Rounds = 5,
    kills: Annotated[int, typer.Option(help="How often the serving router is killed in a round.")] = 4,
    seconds: Annotated[float, typer.Option(help="How long the load goes on after each kill.")] = 8.0,
    json: Json = None,
) -> None:
    """Two LANs and two routers, of which the serving one is killed under load (needs root)."""
    with _options_checked():
        options = failover_experiment.FailoverOptions(
            size=size,
            rate=rate,
            peers=_peers(peers, failover_experiment.FailoverOptions.peers, failover_experiment.PEERS),
            rounds=rounds,
            kills=kills,
            seconds=seconds,
        )
    _show(f"{rate:,} messages/s of {size} bytes, a router fails", options, failover_experiment.run, json)


@app.command("throughput")
def throughput(
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 64,
    subscribers: Annotated[int, typer.Option(help="Subscribers, a process each; the slowest counts.")] = 1,
    peers: Peers = None,
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(help="About how long each transfer takes.")] = 2.0,
    count: Annotated[int | None, typer.Option(help="How many messages each transfer moves instead.")] = None,
    link: Link = "norm",
    json: Json = None,
) -> None:
    """Messages per second from one publisher to its subscribers, from Python, on loopback."""
    with _options_checked():
        options = throughput_experiment.ThroughputOptions(
            size=size,
            subscribers=subscribers,
            peers=_peers(peers, throughput_experiment.ThroughputOptions.peers, availability.PUBSUB),
            rounds=rounds,
            seconds=seconds,
            count=count,
            link=link,
        )
    _show(f"{size}-byte messages to {subscribers} over {link}", options, throughput_experiment.run, json)


@app.command("latency")
def latency(
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 64,
    peers: Peers = None,
    rounds: Rounds = 5,
    count: Annotated[int, typer.Option(help="Round trips in each round.")] = 10_000,
    link: Link = "norm",
    json: Json = None,
) -> None:
    """Round trips between two processes, from Python, on loopback."""
    with _options_checked():
        options = latency_experiment.LatencyOptions(
            size=size,
            peers=_peers(peers, latency_experiment.LatencyOptions.peers, availability.PUBSUB),
            rounds=rounds,
            count=count,
            link=link,
        )
    _show(f"{size}-byte messages, there and back", options, latency_experiment.run, json)


@app.command("lan")
def lan(
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 1024,
    rate: Annotated[int, typer.Option(help="Mbit/s of every cable.")] = 100,
    subscribers: Annotated[int, typer.Option(help="Subscribers beside the measurement with one.")] = 8,
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(help="About how long each transfer takes.")] = 5.0,
    json: Json = None,
) -> None:
    """Goodput to one and to many hosts on a switched LAN made of network namespaces (needs root)."""
    with _options_checked():
        options = lan_experiment.LanOptions(
            size=size, rate_mbit_s=rate, many=subscribers, rounds=rounds, seconds=seconds
        )
    _show(f"{size}-byte messages on a LAN of {rate} Mbit/s", options, lan_experiment.run, json)


@app.command("locate")
def locate(
    daemons: Annotated[int, typer.Option(help="Daemons that the registry knows.")] = 12,
    clients: Annotated[int, typer.Option(help="Clients, which ask 19 times a second each.")] = 120,
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(help="How long clients ask.")] = 5.0,
    json: Json = None,
) -> None:
    """Answers of a registry to clients that ask for a daemon, with a live test of each, on loopback."""
    with _options_checked():
        options = locate_experiment.LocateOptions(
            daemons=daemons, clients=clients, rounds=rounds, seconds=seconds
        )
    _show(f"{clients} clients ask for one of {daemons} daemons", options, locate_experiment.run, json)


@app.command("slow")
def slow(
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 1024,
    subscribers: Annotated[int, typer.Option(help="Subscribers, one of them in trouble.")] = 8,
    rounds: Rounds = 3,
    seconds: Annotated[float, typer.Option(help="How long is published.")] = 8.0,
    stopped: Annotated[float, typer.Option(help="Seconds for which the stopped one is.")] = 5.0,
    json: Json = None,
) -> None:
    """What one subscriber that is stopped, slow or loses much costs the others, from Python, on loopback."""
    with _options_checked():
        options = slow_experiment.SlowOptions(
            size=size, subscribers=subscribers, rounds=rounds, seconds=seconds, stopped_s=stopped
        )
    _show(
        f"{size}-byte messages to {subscribers}, one of them in trouble", options, slow_experiment.run, json
    )


@app.command("churn")
def churn(
    nodes: Annotated[int, typer.Option(help="Nodes of the crowd, at any time.")] = 200,
    msg_s: Annotated[
        int, typer.Option("--rate", help="Messages that the publisher sends in a second.")
    ] = 2000,
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 256,
    rounds: Rounds = 3,
    seconds: Annotated[float, typer.Option(help="How long is published.")] = 10.0,
    life: Annotated[float, typer.Option(help="Seconds that a node of the crowd stays.")] = 5.0,
    kill_every: Annotated[float, typer.Option(help="Seconds from one killed process to the next.")] = 2.5,
    json: Json = None,
) -> None:
    """What nodes that join, leave and die cost a publisher at a fixed rate, on loopback."""
    with _options_checked():
        options = churn_experiment.ChurnOptions(
            nodes=nodes,
            msg_s=msg_s,
            size=size,
            rounds=rounds,
            seconds=seconds,
            life_s=life,
            kill_every_s=kill_every,
        )
    _show(f"{msg_s} messages/s beside {nodes} nodes that come and go", options, churn_experiment.run, json)


@app.command("jms")
def jms(
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 64,
    rounds: Rounds = 5,
    count: Annotated[int, typer.Option(help="How many messages each transfer moves.")] = 500_000,
    peers: Annotated[
        str | None,
        typer.Option(
            help="Contestants beside Shoal: artemis (scripts/peers fetches it), or '' for none. "
            "[default: those installed]"
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Messages with headers and five properties through shoal.jms, beside the bus and Artemis's client."""
    with _options_checked():
        named = _peers(peers, jms_experiment.JmsOptions.peers, jms_experiment.NEEDS)
        options = jms_experiment.JmsOptions(size=size, rounds=rounds, count=count, peers=named)
    _show(f"{size}-byte messages with headers and properties", options, jms_experiment.run, json)


@app.command("sharing")
def sharing(
    rate: Annotated[float, typer.Option(help="Mbit/s of the bottleneck.")] = 30.0,
    queue: Annotated[float, typer.Option(help="Milliseconds a packet waits in its full queue.")] = 50.0,
    contests: Annotated[
        str, typer.Option(help=f"Which of {', '.join(sharing_experiment.CONTESTS)}; all by default.")
    ] = "",
    tcp: Annotated[str, typer.Option(help="The kernel's congestion control: cubic, reno, bbr.")] = "cubic",
    rounds: Rounds = 3,
    seconds: Annotated[float, typer.Option(help="How long flows run; a quarter of it is warm-up.")] = 20.0,
    json: Json = None,
) -> None:
    """Rate control on a bottleneck between network namespaces: alone, beside TCP, two flows (needs root)."""
    with _options_checked():
        options = sharing_experiment.SharingOptions(
            rate_mbit_s=rate,
            queue_ms=queue,
            tcp=tcp,
            rounds=rounds,
            seconds=seconds,
            warm_up_s=seconds / 4,
            contests=_names(contests) or tuple(sharing_experiment.CONTESTS),
        )
    _show(
        f"a bottleneck of {rate:g} Mbit/s with a queue of {queue:g} ms", options, sharing_experiment.run, json
    )


@app.command("tunnel")
def tunnel(
    rate: Annotated[float, typer.Option(help="Mbit/s of the path between the LANs.")] = 50.0,
    round_trip: Annotated[float, typer.Option(help="Milliseconds there and back.")] = 40.0,
    loss: Annotated[float, typer.Option(help="Percent of packets lost on it, each way.")] = 1.0,
    queue: Annotated[float, typer.Option(help="Milliseconds a packet waits in its full queue.")] = 50.0,
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 1024,
    contests: Annotated[
        str, typer.Option(help=f"Which of {', '.join(tunnel_experiment.CONTESTS)}; all by default.")
    ] = "",
    rounds: Rounds = 3,
    seconds: Annotated[float, typer.Option(help="How long tunnels run; a quarter of it is warm-up.")] = 12.0,
    json: Json = None,
) -> None:
    """Two LANs joined over a long path that loses, by NORM and by TCP (needs root)."""
    with _options_checked():
        options = tunnel_experiment.TunnelOptions(
            rate_mbit_s=rate,
            round_trip_ms=round_trip,
            loss_percent=loss,
            queue_ms=queue,
            size=size,
            rounds=rounds,
            seconds=seconds,
            warm_up_s=seconds / 4,
            contests=_names(contests) or tuple(tunnel_experiment.CONTESTS),
        )
    title = f"a path of {rate:g} Mbit/s, {round_trip:g} ms and {loss:g} % loss"
    _show(title, options, tunnel_experiment.run, json)


@app.command("fec")
def fec(rounds: Rounds = 5, json: Json = None) -> None:
    """Reed-Solomon coding: the thesis's table, and blocks as a stream sends them."""
    if rounds < 1:
        raise typer.BadParameter(f"rounds must be at least 1, not {rounds}")
    result = fec_experiment.run(rounds=rounds)
    title = f"Reed-Solomon, kernel {result['shoal']['kernel']}, Gbit/s of source data"
    headings = ("block", "symbol bytes", "symbols", "encode", "decode", "times scalar")
    rows = fec_experiment.table_rows(result)
    report.show(title, result, json, shown=report.table(title, headings, rows))


@app.command("spark")
def spark(
    rows: Annotated[int, typer.Option(help="Rows that each contestant reads.")] = 2_000_000,
    rate: Annotated[int, typer.Option(help="Rows per second while latency is measured.")] = 20_000,
    seconds: Annotated[float, typer.Option(help="How long latency is measured.")] = 20.0,
    rounds: Rounds = 5,
    json: Json = None,
) -> None:
    """A store's history read by Spark, beside Parquet files; writing, and latency exactly once."""
    if find_spec("pyspark") is None:
        raise typer.BadParameter("Spark is not installed: pip install 'shoal[spark]'")
    from shoal_bench import spark as spark_experiment

    with _options_checked():
        options = spark_experiment.SparkOptions(rows=rows, rounds=rounds, rate=rate, seconds=seconds)
    _show(f"Spark, {rows:,} rows", options, spark_experiment.run, json)


@app.command("history")
def history(
    rows: Annotated[int, typer.Option(help="Rows that are read.")] = 5_000_000,
    messages: Annotated[
        int, typer.Option(help="Messages of 64 bytes that each round records; of 1 KB a quarter of it.")
    ] = 2_000_000,
    stored: Annotated[
        int, typer.Option(help="Messages of the store whose memory and recovery are measured.")
    ] = 10_000_000,
    directory: Annotated[
        str | None, typer.Option(help="Where the store is made, on the disk to be measured.")
    ] = None,
    rounds: Rounds = 5,
    json: Json = None,
) -> None:
    """Recording what a publisher sends, and reading it back over Arrow Flight."""
    with _options_checked():
        # Everything else works without pyarrow.
        from shoal_bench import history as history_experiment

        options = history_experiment.HistoryOptions(
            rows=rows, messages=messages, rounds=rounds, stored=stored, directory=directory
        )
    _show("a store and its history", options, history_experiment.run, json)


@app.command("persistent")
def persistent(
    peers: Annotated[
        str | None,
        typer.Option(
            help="Contestants beside Shoal: artemis, nats (scripts/peers fetches them), or '' for none. "
            "[default: those installed]"
        ),
    ] = None,
    publishers: Annotated[int, typer.Option(help="Publishers, a process each.")] = 8,
    seconds: Annotated[float, typer.Option(help="No publisher sends for longer.")] = 3.0,
    waiting: Annotated[
        int, typer.Option(help="Messages of each publisher that waits for each, at the most.")
    ] = 20_000,
    windowed: Annotated[
        int, typer.Option(help="Messages of each publisher that does not, at the most.")
    ] = 20_000,
    window: Annotated[int, typer.Option(help="How many those have on their way.")] = 1000,
    queued: Annotated[int, typer.Option(help="Messages that are sent, received and acknowledged.")] = 50_000,
    behind: Annotated[
        int, typer.Option(help="Messages that a durable subscriber catches up with.")
    ] = 200_000,
    boxed: Annotated[int, typer.Option(help="Messages into an outbox.")] = 5000,
    large: Annotated[
        int, typer.Option(help="Messages of the queue whose memory and start are measured; 0 leaves it out.")
    ] = 0,
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 1024,
    directory: Annotated[
        str | None, typer.Option(help="Where everything is made, on the disk to be measured.")
    ] = None,
    rounds: Rounds = 5,
    json: Json = None,
) -> None:
    """What must not be lost: sent, received, caught up with, recovered, beside Artemis and JetStream."""
    with _options_checked():
        from shoal_bench import persistent as persistent_experiment

        options = persistent_experiment.PersistentOptions(
            peers=_peers(peers, persistent_experiment.PersistentOptions.peers, persistent_experiment.NEEDS),
            publishers=publishers,
            seconds=seconds,
            waiting=waiting,
            windowed=windowed,
            window=window,
            queued=queued,
            behind=behind,
            boxed=boxed,
            large=large,
            size=size,
            directory=directory,
            rounds=rounds,
        )
    _show(f"persistent messages of {size} bytes", options, persistent_experiment.run, json)


@app.command("replicated")
def replicated(
    peers: Annotated[
        str | None,
        typer.Option(
            help="Contestants beside Shoal: nats (scripts/peers fetches it), or '' for none. "
            "[default: those installed]"
        ),
    ] = None,
    publishers: Annotated[int, typer.Option(help="Publishers, a process each.")] = 8,
    seconds: Annotated[float, typer.Option(help="No publisher sends for longer.")] = 3.0,
    messages: Annotated[int, typer.Option(help="Messages of each publisher, at the most.")] = 20_000,
    window: Annotated[int, typer.Option(help="How many are on their way, without waiting for each.")] = 1000,
    kills: Annotated[int, typer.Option(help="How often the owner is killed; 0 leaves it out.")] = 10,
    size: Annotated[int, typer.Option(help="Bytes of each message's body.")] = 1024,
    directory: Annotated[
        str | None, typer.Option(help="Where everything is made, on the disk to be measured.")
    ] = None,
    rounds: Rounds = 5,
    json: Json = None,
) -> None:
    """What survives the loss of a disk: three stores of a group, beside one store and JetStream."""
    with _options_checked():
        from shoal_bench import replicated as replicated_experiment

        options = replicated_experiment.ReplicatedOptions(
            peers=_peers(peers, replicated_experiment.ReplicatedOptions.peers, replicated_experiment.NEEDS),
            publishers=publishers,
            seconds=seconds,
            messages=messages,
            window=window,
            kills=kills,
            size=size,
            directory=directory,
            rounds=rounds,
        )
    _show(f"replicated messages of {size} bytes", options, replicated_experiment.run, json)


app.command("selectors")(selectors_command.selectors)
app.command("seeds")(seeds_command.seeds)
app.command("agent")(agent_command.agent)
app.command("check")(agent_command.check)


class _HasRounds(Protocol):
    """What the options of an experiment have that takes turns."""

    @property
    def rounds(self) -> int: ...


Options = TypeVar("Options", bound=_HasRounds)


def _show(
    title: str, options: Options, run: Callable[[Options, Follow], dict[str, Any]], json: str | None
) -> None:
    """Run an experiment, say on standard error how far it is, and show what it found."""
    try:
        with Progress() as progress:
            rounds = RoundPace(progress.pace, options.rounds)

            def follow(number: int, contestant: str, reached: str) -> None:
                rounds.follow(number, report.contestant(contestant), reached, time.monotonic())

            result = run(options, follow)
    except ProcessFailedError as error:
        raise _failed(error) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    report.show(title, result, json)


@contextmanager
def _options_checked() -> Iterator[None]:
    """What an experiment's options refuse is a mistake on the command line."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _peers(listed: str | None, default: tuple[str, ...], needs: availability.Needs) -> tuple[str, ...]:
    """The peers to compare with; a default one that cannot run here is skipped with a note."""
    if listed is not None:
        return _names(listed)

    def skipped(peer: str, advice: str) -> None:
        typer.echo(f"Skipping the peer {report.contestant(peer)}: to compare with it, {advice}.", err=True)

    return availability.present(default, needs, skipped)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _failed(error: ProcessFailedError) -> typer.Exit:
    typer.echo(f"shoal bench: {error}", err=True)
    return typer.Exit(1)
