"""iBus's tuning guide as an experiment: send delay, epoch size and missed heartbeats under loss."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.errors import ExperimentError
from shoal_bench.norm import free_port
from shoal_bench.seeds.frame import NOT_JUDGED, Note, Reading, Site, Trial
from shoal_bench.seeds.thesis import GROUP

SIDES, LISTENERS = "shoal_bench.seeds.ibus_sides", "shoal_bench.seeds.thesis_sides"
SUBSCRIBERS, SIZE = 2, 1024
#: The guide's printed statistics: 0.7825 % retransmission requests, 254 ms for an epoch's acknowledgement.
EPOCH_ACK_MS = 254.0
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Tuning(Trial):
    """What iBus calls SD, ES and MH, and the loss at each receiver."""

    loss_percent: float
    send_delay_ms: float = 0.0
    epoch: int = 200
    missed_heartbeats: int = 5


def tune(quick: bool) -> list[Tuning]:
    """Tuning: repair requests and acknowledged epochs by loss, send delay, epoch size, missed heartbeats."""
    if quick:
        grid = [(0.0, 0.0, 200, 5), (5.0, 0.0, 200, 5), (20.0, 1.0, 50, 5), (20.0, 0.0, 200, 2)]
    else:
        losses = (0.0, 1.0, 5.0, 20.0)
        grid = [*product(losses, (0.0, 1.0, 5.0, 10.0), (50, 200), (5,))]
        grid += [*product(losses, (0.0,), (200,), (2, 10, 15))]
    return [
        Tuning(
            experiment="ibus-tune",
            name=f"loss{loss:g}-sd{delay:g}-es{epoch}-mh{missed}",
            series=f"SD {delay:g} ms, ES {epoch}, MH {missed}",
            x=loss,
            loss_percent=loss,
            send_delay_ms=delay,
            epoch=epoch,
            missed_heartbeats=missed,
        )
        for loss, delay, epoch, missed in grid
    ]


def measure(trial: Tuning, _contestant: str, site: Site, _note: Note) -> Reading:
    """Publish epochs to receivers that drop a share of the datagrams."""
    port = free_port()
    common: dict[str, Any] = {
        "url": f"norm://{GROUP}:{port}",
        "size": SIZE,
        "seconds": site.rig.seconds,
        "api": "bus",
        "subscribers": SUBSCRIBERS,
    }
    own: dict[str, Any] = {"interface": "lo", "missed_heartbeats_max": trial.missed_heartbeats}
    own["when_slow"] = "wait"
    losing = {**own, "drop_received": trial.loss_percent / 100}
    sending: dict[str, Any] = {
        "epoch": trial.epoch,
        "send_delay_s": trial.send_delay_ms / 1e3,
        "connection": own,
    }
    with (
        Worker(SIDES, "publish", **common, **sending) as publisher,
        Worker(LISTENERS, "listen", **common, connection=losing) as one,
        Worker(LISTENERS, "listen", **common, connection=losing) as two,
    ):
        for side in (one, two, publisher):
            side.wait_progress(PATIENCE_S)
        publisher.tell()
        sent = publisher.result(PATIENCE_S + 2 * site.rig.seconds)
        for side in (one, two):
            side.tell()
        got = [side.result(PATIENCE_S) for side in (one, two)]
    for each in got:
        if each["received"] + each["lost"] < sent["sent"]:
            raise ExperimentError(
                f"{sent['sent']} messages were sent: {each['received']} arrived, {each['lost']} lost"
            )
    figures = {
        "epoch_ack_ms": sent["epoch_ack_s"] * 1e3,
        "requests_percent": 100 * sent["requests"] / max(1, sent["sent"]),
        "goodput_mbit_s": sent["sent"] * SIZE * 8 / sent["seconds"] / 1e6,
        "members_failed": float(sent["failed"]),
        "lost": float(max(each["lost"] for each in got)),
    }
    return Reading(figures=figures, why=None if site.rig.strict else NOT_JUDGED)


def published(trial: Tuning) -> float | None:
    """What the guide printed, of a network that loses little."""
    return EPOCH_ACK_MS if trial.loss_percent == 0 else None
