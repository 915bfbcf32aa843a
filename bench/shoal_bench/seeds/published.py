"""What the FioranoMQ study measured, where its text gives the figure: overall messages/s of its server."""

from shoal.capacity import Model, Workload
from shoal_bench.seeds.cell import Cell

#: Table 1 of the study.
TABLE_1 = {
    "correlation": Model(form="filters", coefficients=(8.52e-7, 7.02e-6, 1.70e-5), kind="correlation"),
    "property": Model(form="filters", coefficients=(4.10e-6, 1.46e-5, 1.62e-5), kind="property"),
}
#: Limits that its sections 4.3 and 4.5 state: messages received and sent in a second, Mbit/s of bodies.
SMALL_MSG_S, LARGE_MBIT_S, TOPICS_MSG_S = 61_000.0, 600.0, 35_000.0
#: The number of topics for which 4.5 and 4.6 state it.
TOPICS = 20


def overall_msg_s(cell: Cell) -> float | None:
    """What the study reached with these parameters; none where only its figures, which are lost, had it."""
    match cell.experiment:
        case "fiorano-joint":
            load = Workload(filters=cell.n + cell.r, replication=cell.r)
            return TABLE_1[cell.kind].overall_msg_s(load)
        case "fiorano-size":
            return min(SMALL_MSG_S, LARGE_MBIT_S * 1e6 / 8 / max(1, cell.size))
        case "fiorano-topics" | "fiorano-select" if len(cell.topics) == TOPICS:
            return TOPICS_MSG_S
    return None
