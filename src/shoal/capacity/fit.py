"""Least squares from sums: `Moments` are added up wherever the rows are, and solved where they meet.

A row says that a message took `seconds` at these factors. Rows are weighted by 1/seconds², so that relative
errors count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from shoal.capacity.algebra import SingularError, inverse, solve_non_negative, submatrix


@dataclass(frozen=True)
class Moments:
    """The weighted normal equations of some rows, and how many rows they are made of."""

    #: XᵀWX.
    gram: tuple[tuple[float, ...], ...]
    #: XᵀWy.
    moment: tuple[float, ...]
    #: yᵀWy, which is the number of rows with these weights.
    square: float
    rows: int

    @classmethod
    def of(cls, rows: Iterable[tuple[Sequence[float], float]]) -> "Moments":
        """Sum up rows of (factors, seconds)."""
        total: Moments | None = None
        for factors, seconds in rows:
            if not seconds > 0:
                raise ValueError(f"a message takes more than 0 s, not {seconds}")
            scaled = [factor / seconds for factor in factors]
            one = cls(tuple(tuple(a * b for b in scaled) for a in scaled), tuple(scaled), 1.0, 1)
            total = one if total is None else total + one
        if total is None:
            raise ValueError("there are no rows to fit")
        return total

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            tuple(
                tuple(a + b for a, b in zip(*rows, strict=True))
                for rows in zip(self.gram, other.gram, strict=True)
            ),
            tuple(a + b for a, b in zip(self.moment, other.moment, strict=True)),
            self.square + other.square,
            self.rows + other.rows,
        )

    def scaled(self, factor: float) -> "Moments":
        """The same rows with other weights: what forgets old rows."""
        return Moments(
            tuple(tuple(value * factor for value in row) for row in self.gram),
            tuple(value * factor for value in self.moment),
            self.square * factor,
            self.rows,
        )

    def solve(self) -> "Fit":
        """The coefficients that fit best, none of them negative."""
        values, used = solve_non_negative(self.gram, self.moment)
        explained = sum(value * moment for value, moment in zip(values, self.moment, strict=True))
        # Of weighted rows, each y is 1: the remainder is a share of the whole.
        left = max(0.0, self.square - explained)
        free = max(1, self.rows - len(used))
        errors = [0.0] * len(values)
        try:
            for at, row in zip(used, range(len(used)), strict=True):
                errors[at] = sqrt(max(0.0, inverse(submatrix(self.gram, used))[row][row]) * left / free)
        except SingularError:
            errors = [float("inf")] * len(values)
        return Fit(tuple(values), tuple(errors), sqrt(left / max(1, self.rows)), self.rows)


@dataclass(frozen=True)
class Fit:
    """Coefficients in seconds, their standard errors, and the mean relative error of the rows."""

    coefficients: tuple[float, ...]
    standard_errors: tuple[float, ...]
    relative_error: float
    rows: int
