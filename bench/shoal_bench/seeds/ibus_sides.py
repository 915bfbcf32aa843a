"""The publisher of iBus's tuning guide, in a process of its own: epochs that all acknowledge."""

import time
from collections.abc import Mapping
from statistics import mean
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, run_role, wait_told
from shoal_bench.bodies import Bodies
from shoal_bench.errors import ExperimentError
from shoal_bench.seeds.thesis_sides import TOPIC

PATIENCE_S = 60.0


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish epochs for the time asked for; wait at the end of each until all acknowledged it."""
    bodies = Bodies(options["size"])
    with shoal.connect(options["url"], **options["connection"]) as bus:
        if not bus.wait_for_subscribers(TOPIC, options["subscribers"], PATIENCE_S):
            raise ExperimentError(f"only {len(bus.members)} of {options['subscribers']} subscribers came")
        report(1)
        wait_told()
        count = 0
        acked_s: list[float] = []
        began = time.monotonic()
        while time.monotonic() < began + options["seconds"]:
            for _ in range(options["epoch"]):
                bus.publish(TOPIC, bodies[count])
                count += 1
                if options["send_delay_s"]:
                    time.sleep(options["send_delay_s"])
            epoch_ended = time.monotonic()
            bus.flush(PATIENCE_S)
            acked_s.append(time.monotonic() - epoch_ended)
        failed = [
            event
            for event in bus.events(timeout_s=0.0)
            if isinstance(event, shoal.MemberLeft) and event.failed
        ]
        return {
            "sent": count,
            "seconds": time.monotonic() - began,
            "epoch_ack_s": mean(acked_s),
            "requests": bus.stats()["nacks_received"],
            "failed": len(failed),
        }


ROLES: dict[str, Role] = {"publish": publish}

if __name__ == "__main__":
    run_role(ROLES)
