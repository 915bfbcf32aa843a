"""One side of a transfer by Shoal, libnorm or the bare kernel, for a process of its own (see `workers`)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from shoal import _core
from shoal.processes.worker import Report, Role, run_role
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError

SENDER, RECEIVER = 1, 2
MESSAGE_BYTES = 1 << 16
#: With loss, 2 to 16 MB differ by less than runs do; 8 MB varied least. Without loss 2 MB are faster.
WINDOW_BYTES = 8 << 20
SOCKET_BUFFER_BYTES = 32 << 20
PATIENCE_S = 10.0


def _shoal_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "group": options["group"],
        "port": options["port"],
        "interface": options.get("interface", "lo"),
        "segment_bytes": options["segment_bytes"],
        "block_symbols": options.get("block_symbols", 64),
        "parity_symbols": options.get("parity_symbols", 0),
        "auto_parity": options.get("parity_symbols", 0),
        # One receiver has nobody to wait for before it asks for repair.
        "backoff_factor": 0,
        "sync": "start",
        "receive_buffer_bytes": SOCKET_BUFFER_BYTES,
        "window_bytes": options.get("window_bytes", WINDOW_BYTES),
        "cache_bytes": 2 * options.get("window_bytes", WINDOW_BYTES),
        "keys": options.get("keys"),
    }


def send_by_shoal(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Send the bytes asked for, and wait until the receiver has acknowledged them."""
    used = CpuClock()
    sent = _core.norm_send_bulk(
        SENDER,
        options["bytes"],
        MESSAGE_BYTES,
        linger_s=PATIENCE_S,
        progress=report,
        ackers=[RECEIVER],
        **_shoal_options(options),
    )
    return _checked(sent) | {"cpu_s": used.elapsed_s()}


def receive_by_shoal(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Receive until the stream ends, and compare every byte."""
    used = CpuClock()
    received = _core.norm_receive_bulk(
        RECEIVER,
        MESSAGE_BYTES,
        patience_s=PATIENCE_S,
        progress=report,
        drop_received=options["loss_percent"] / 100,
        **_shoal_options(options),
    )
    return _checked(received) | {"cpu_s": used.elapsed_s()}


def _checked(report: dict[str, Any]) -> dict[str, Any]:
    if report["fault"] is not None:
        raise ExperimentError(report["fault"])
    return report


def _libnorm(options: Mapping[str, Any], send: bool) -> Mapping[str, Any]:
    # Peers are no part of the wheel.
    from shoal_bench.peers import libnorm
    from shoal_bench.peers.libnorm import transfer

    wanted = transfer.TransferOptions(
        group=options["group"],
        port=options["port"],
        total_bytes=options["bytes"],
        segment_bytes=options["segment_bytes"],
        loss_percent=options["loss_percent"],
        block_symbols=options["block_symbols"],
        parity_symbols=options["parity_symbols"],
    )
    try:
        return asdict(transfer.send(wanted) if send else transfer.receive(wanted))
    except libnorm.LibnormError as error:
        raise ExperimentError(str(error)) from error


def send_by_libnorm(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """The same by libnorm, at its best settings (`peers.libnorm.transfer`)."""
    return _libnorm(options, send=True)


def receive_by_libnorm(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """The same by libnorm; it compares every byte as well."""
    return _libnorm(options, send=False)


def send_by_kernel(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Send runs of datagrams with no protocol, for a while."""
    count, seconds = _core.raw_send(
        options["segment_bytes"], options["seconds"], group=options["group"], port=options["port"]
    )
    return {"bytes": count, "seconds": seconds}


def receive_by_kernel(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Count what arrives of them."""
    count, seconds = _core.raw_receive(group=options["group"], port=options["port"], patience_s=PATIENCE_S)
    return {"bytes": count, "seconds": seconds}


ROLES: dict[str, Role] = {
    "shoal send": send_by_shoal,
    "shoal receive": receive_by_shoal,
    "libnorm send": send_by_libnorm,
    "libnorm receive": receive_by_libnorm,
    "kernel send": send_by_kernel,
    "kernel receive": receive_by_kernel,
}

if __name__ == "__main__":
    run_role(ROLES)
