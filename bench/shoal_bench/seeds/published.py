"""What the FioranoMQ study measured, where its text gives the figure: overall messages/s of its server."""

from shoal.capacity import Model, Workload
from shoal_bench.seeds.cell import Cell

#: Table 1 of the study.
TABLE_1 = {
    "correlation": Model(form="filters", coefficients=(8.52e-7, 7.02e-6, 1.70e-5), kind="correlation"),
    "property": Model(form="filters", coefficients=(4.10e-6, 1.46e-5, 1.62e-5), kind="property"),
}
#: Limits that its sections state, in messages received and sent in a second.
STATED = {"fiorano-size": 61_000.0, "fiorano-topics": 35_000.0}


def overall_msg_s(cell: Cell) -> float | None:
    """What the study reached with these parameters; none where only its figures, which are lost, had it."""
    if cell.experiment == "fiorano-joint":
        load = Workload(filters=cell.n + cell.r, replication=cell.r)
        return TABLE_1[cell.kind].overall_msg_s(load)
    return STATED.get(cell.experiment)
