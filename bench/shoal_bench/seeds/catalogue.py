"""Every experiment by its name."""

from collections.abc import Callable
from dataclasses import dataclass

from shoal_bench.seeds import fiorano
from shoal_bench.seeds.cell import Cell


@dataclass(frozen=True)
class Experiment:
    """A published experiment: what makes its cells, and what its authors found."""

    name: str
    source: str
    cells: Callable[[bool], list[Cell]]
    found: str

    @property
    def what(self) -> str:
        """Its one line."""
        return (self.cells.__doc__ or "").strip().partition(": ")[2]


_LISTED = (
    Experiment("fiorano-publishers", "FioranoMQ 4.1", fiorano.publishers, "four publishers fill the server"),
    Experiment("fiorano-subscribers", "FioranoMQ 4.2", fiorano.subscribers, "falls slightly up to 320"),
    Experiment("fiorano-size", "FioranoMQ 4.3", fiorano.sizes, "61,000 messages/s; 600 Mbit/s"),
    Experiment("fiorano-activation", "FioranoMQ 4.4", fiorano.activation, "property filters halve it"),
    Experiment("fiorano-topics", "FioranoMQ 4.5", fiorano.topics, "35,000 messages/s with 20 topics"),
    Experiment(
        "fiorano-select", "FioranoMQ 4.6", fiorano.select, "property filters: half of correlation ids"
    ),
    Experiment("fiorano-or", "FioranoMQ 4.7", fiorano.any_of, "OR-filters double it from 40 on"),
    Experiment("fiorano-and", "FioranoMQ 4.8", fiorano.all_of, "the deciding property belongs first"),
    Experiment("fiorano-joint", "FioranoMQ 4.9", fiorano.joint, "n = 160, r = 1: 1,742 messages/s"),
    Experiment("fiorano-aging", "FioranoMQ 4.10", fiorano.aging, "30 % less after four weeks"),
    Experiment("presumo-filters", "Presumo", fiorano.presumo, "10,000 evaluations/s"),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _LISTED}


def chosen(name: str) -> list[Experiment]:
    """The experiment of this name, or all of them."""
    if name == "all":
        return list(_LISTED)
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}. There are: all, {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name]]
