"""How sure a mean of few runs is: the study's 99.99 % interval."""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

#: Student's t at 99.995 %, by the number of runs.
STUDENT = {3: 99.99, 4: 28.00, 5: 15.54, 6: 11.18, 7: 9.082, 8: 7.885, 9: 7.120, 10: 6.594}
RUNS_MIN, RUNS_MAX = min(STUDENT), max(STUDENT)
#: Wider than this share of the mean, and another run is added.
WIDTH_MAX = 0.05


def half_width(values: Sequence[float]) -> float | None:
    """Half the interval as a share of the mean; none with fewer than three runs."""
    if len(values) < RUNS_MIN:
        return None
    return STUDENT[len(values)] * stdev(values) / sqrt(len(values)) / mean(values)


def is_enough(values: Sequence[float]) -> bool:
    """Whether no run has to be added."""
    width = half_width(values)
    return len(values) >= RUNS_MAX or (width is not None and width <= WIDTH_MAX)
