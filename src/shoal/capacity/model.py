"""What a message costs at a node, and what the node can carry: B and (r + 1)/B of the FioranoMQ study."""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from shoal.capacity.fit import Fit

#: The factors of each form, in the order of the coefficients.
FORMS: Mapping[str, tuple[str, ...]] = {
    # The study's: filters that are installed.
    "filters": ("t_rcv", "t_fltr", "t_tx"),
    # Ours: an index looks at few of the installed filters, and bytes are copied.
    "evaluations": ("t_rcv", "t_eval", "t_tx", "t_byte"),
    # Ours with many copies: their buffers leave the processor's cache, and a further copy costs more.
    "crowd": ("t_rcv", "t_eval", "t_tx", "t_crowd"),
}
VERSION = 1
#: The file of the packaged model.
PACKAGED = "packaged.json"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a node is asked to do with each message."""

    #: Filters that are installed.
    filters: float
    #: Copies of a message that leave the node, on average.
    replication: float
    #: Bytes of a body.
    size: float = 0.0
    #: Filters that the node looks at for a message; by default what was measured with as many `filters`.
    evaluated: float | None = None

    def __post_init__(self) -> None:
        for name in ("filters", "replication", "size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        if self.evaluated is not None and self.evaluated < 0:
            raise ValueError(f"evaluated must be at least 0, not {self.evaluated}")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Coefficients in seconds for one contestant and kind of filter, and the range they were fitted in."""

    form: str
    coefficients: tuple[float, ...]
    standard_errors: tuple[float, ...] = ()
    contestant: str = "routed"
    kind: str = "property"
    #: The lowest and highest value of each factor among the fitted rows.
    fitted: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: Filters looked at for a message, by the number of filters: measured, straight lines between.
    evaluated: Sequence[tuple[float, float]] = ()
    rows: int = 0
    #: Errors on cells that the fit did not see, as shares.
    held_out_median: float | None = None
    held_out_worst: float | None = None

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {self.form!r}")
        wanted = len(FORMS[self.form])
        if len(self.coefficients) != wanted:
            raise ValueError(
                f"a model of form {self.form} has {wanted} coefficients, not {len(self.coefficients)}"
            )

    @classmethod
    def packaged(cls) -> "Model":
        """What a router costs on the machine of `docs/results`: a beginning, to be scaled to yours."""
        return _packaged()

    @classmethod
    def of(cls, fit: Fit, *, form: str, **facts: Any) -> "Model":
        """The model that a fit makes."""
        errors = fit.standard_errors
        return cls(form=form, coefficients=fit.coefficients, standard_errors=errors, rows=fit.rows, **facts)

    def factors(self, load: Workload) -> tuple[float, ...]:
        """What the coefficients are multiplied by."""
        if self.form == "filters":
            return (1.0, load.filters, load.replication)
        looked_at = self.looked_at(load.filters) if load.evaluated is None else load.evaluated
        last = load.replication**2 if self.form == "crowd" else load.size
        return (1.0, looked_at, load.replication, last)

    def looked_at(self, filters: float) -> float:
        """Filters looked at for a message when this number is installed."""
        table = sorted(self.evaluated)
        if not table:
            return filters
        at = bisect_left(table, (filters, float("-inf")))
        if at == 0:
            return table[0][1]
        if at == len(table):
            return table[-1][1]
        (left, low), (right, high) = table[at - 1], table[at]
        return low + (high - low) * (filters - left) / (right - left)

    def processing_s(self, load: Workload) -> float:
        """B: what one message costs."""
        return sum(a * b for a, b in zip(self.coefficients, self.factors(load), strict=True))

    def send_s(self, replication: float) -> float:
        """t_tx: what a copy costs, on average, where this number is sent."""
        crowd_s = self.coefficients[3] * replication if self.form == "crowd" else 0.0
        return self.coefficients[2] + crowd_s

    def received_msg_s(self, load: Workload) -> float:
        """Messages that the node can receive in a second: 1/B."""
        return 1 / self.processing_s(load)

    def overall_msg_s(self, load: Workload) -> float:
        """Messages received and sent in a second: (r + 1)/B."""
        return (load.replication + 1) / self.processing_s(load)

    def outside(self, load: Workload) -> list[str]:
        """Which factors of a workload lie outside the range that was fitted."""
        values = {"filters": load.filters, "replication": load.replication, "size": load.size}
        return [
            name
            for name, (low, high) in self.fitted.items()
            if name in values and not low <= values[name] <= high
        ]

    def to_json(self) -> str:
        """The model as text."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Model":
        """Read what `to_json` wrote."""
        try:
            told = json.loads(text)
            if told.pop("version") != VERSION:
                raise ValueError("it has another version")
            told["fitted"] = {name: (low, high) for name, (low, high) in told["fitted"].items()}
            told["evaluated"] = tuple((a, b) for a, b in told["evaluated"])
            told["coefficients"] = tuple(map(float, told["coefficients"]))
            told["standard_errors"] = tuple(map(float, told["standard_errors"]))
            return cls(**told)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"this is no capacity model of version {VERSION}: {error}") from error


@cache
def _packaged() -> Model:
    return Model.from_json((resources.files("shoal.capacity") / PACKAGED).read_text(encoding="utf-8"))
