"""zenoh's programs of `failover`: clients that know two routers, and routers that know each other.

`BLOCK` and `RELIABLE` are what loses nothing on a link that holds. Clients try to connect again every 100 ms
(by default after one second, then two and four).
"""

import json
import time
from collections.abc import Callable, Sequence

import zenoh

from shoal_bench.failover_sides import TICK_S, Pace, Tally

KEY = "failover/data"
PORT = 7447
RETRY = {"period_init_ms": 100, "period_max_ms": 100, "period_increase_factor": 1}


def _open(mode: str, *, listen: Sequence[str], connect: Sequence[str]) -> zenoh.Session:
    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("listen/endpoints", json.dumps([f"tcp/{address}:{PORT}" for address in listen]))
    config.insert_json5("connect/endpoints", json.dumps([f"tcp/{address}:{PORT}" for address in connect]))
    config.insert_json5("connect/timeout_ms", "-1" if mode == "client" else "0")
    config.insert_json5("connect/exit_on_failure", "false")
    config.insert_json5("connect/retry", json.dumps(RETRY))
    return zenoh.open(config)


def router(listen: Sequence[str], connect: Sequence[str]) -> zenoh.Session:
    """A session that routes between its addresses, linked with the other router."""
    return _open("router", listen=listen, connect=connect)


def publish(addresses: list[str], pace: Pace, over: Callable[[], bool]) -> None:
    """Put what is due until it is over."""
    with _open("client", listen=(), connect=addresses) as session:
        put = session.declare_publisher(
            KEY, congestion_control=zenoh.CongestionControl.BLOCK, reliability=zenoh.Reliability.RELIABLE
        ).put
        while not over():
            for body in pace.due():
                put(body)
            time.sleep(TICK_S)


def subscribe(addresses: list[str], tally: Tally, over: Callable[[], bool]) -> int:
    """Take what comes until it is over; zenoh reports no losses."""
    with _open("client", listen=(), connect=addresses) as session:
        session.declare_subscriber(KEY, lambda sample: tally.take(sample.payload.to_bytes()))
        while not over():
            time.sleep(0.05)
    return 0
