"""Many nodes that start together, and hear only so much: all know all soon, and few ask for repair.

`make storm` runs it with two hundred of them.
"""

import os

from shoal.testing import Domain, Link, Port

#: Of two cores that hear 200,000 datagrams a second each of two hundred nodes has a thousand or so.
PORT = Port(ingress_bytes_per_s=400_000.0, ingress_queue_bytes=400_000)
#: Requests for repair a second, all nodes together.
NACKS_PER_S_MAX = 2500.0
NODES = int(os.environ.get("STORM_NODES", "60"))
WITHIN_S = 10.0


def test_nodes_that_start_together_know_each_other_soon_and_do_not_storm() -> None:
    nodes, within_s = NODES, WITHIN_S
    domain = Domain(seed=nodes, link=Link(delay_s=0.0002, loss=0.005))
    # As with eight processes that connect one node after the other.
    for _ in range(0, nodes, 8):
        for _ in range(8):
            domain.add_node(port=PORT, heartbeat_s=4.0).subscribe("storm/>")
        domain.run_for(0.02)
    peak, before = 0.0, 0
    while not domain.everybody_knows_everybody():
        known = sorted(len(node.members) for node in domain.nodes.values())
        assert domain.now_s < within_s, f"{known[0]} of {nodes} are known after {domain.now_s:.1f} s"
        domain.run_for(0.25)
        nacks = sum(node.stats["nacks_sent"] for node in domain.nodes.values())
        peak, before = max(peak, (nacks - before) / 0.25), nacks
    print(f"{nodes} nodes: {domain.now_s:.2f} s, {before} NACKs, at most {peak:.0f} a second")
    assert peak <= NACKS_PER_S_MAX
