"""Algebra of the few rows and columns that a capacity model has."""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

Matrix = Sequence[Sequence[float]]

#: A pivot smaller than this share of the largest entry makes a system singular.
PIVOT_MIN = 1e-13


class SingularError(ArithmeticError):
    """The rows do not determine every unknown."""


def solve(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """Solve a square system by elimination with row pivots."""
    size = len(right)
    rows = [[*map(float, matrix[i]), float(right[i])] for i in range(size)]
    largest = max((abs(value) for row in rows for value in row[:size]), default=0.0)
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        if abs(rows[pivot][column]) <= PIVOT_MIN * largest:
            raise SingularError(f"column {column} depends on the others")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for below in range(column + 1, size):
            factor = rows[below][column] / rows[column][column]
            for i in range(column, size + 1):
                rows[below][i] -= factor * rows[column][i]
    result = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * result[j] for j in range(i + 1, size))
        result[i] = (rows[i][size] - known) / rows[i][i]
    return result


def inverse(matrix: Matrix) -> list[list[float]]:
    """Invert a square matrix."""
    size = len(matrix)
    columns = [solve(matrix, [float(i == j) for i in range(size)]) for j in range(size)]
    return [[columns[j][i] for j in range(size)] for i in range(size)]


def submatrix(matrix: Matrix, kept: Sequence[int]) -> list[list[float]]:
    """Keep these rows and columns."""
    return [[matrix[i][j] for j in kept] for i in kept]


def solve_non_negative(gram: Matrix, moment: Sequence[float]) -> tuple[list[float], list[int]]:
    """Least squares with no negative unknown, from the normal equations; also which unknowns are above 0.

    The optimum is the unconstrained optimum of some subset of the unknowns. With five unknowns there are 31
    subsets, so this tries them all and keeps the best one that is not negative.
    """
    size = len(moment)
    scales = [sqrt(gram[i][i]) or 1.0 for i in range(size)]
    scaled = [[gram[i][j] / (scales[i] * scales[j]) for j in range(size)] for i in range(size)]
    target = [moment[i] / scales[i] for i in range(size)]
    best: tuple[float, list[float], list[int]] = (0.0, [0.0] * size, [])
    for count in range(1, size + 1):
        for kept in combinations(range(size), count):
            try:
                solved = solve(submatrix(scaled, kept), [target[i] for i in kept])
            except SingularError:
                continue
            if min(solved) < 0:
                continue
            # The residual is a constant minus this.
            gain = sum(value * target[i] for value, i in zip(solved, kept, strict=True))
            if gain > best[0] * (1 + 1e-12):
                full = [0.0] * size
                for value, i in zip(solved, kept, strict=True):
                    full[i] = value / scales[i]
                best = (gain, full, list(kept))
    return best[1], best[2]


def condition(gram: Matrix) -> float:
    """The ratio of the extreme eigenvalues, columns scaled to 1: how much errors are amplified at worst."""
    size = len(gram)
    scales = [sqrt(gram[i][i]) for i in range(size)]
    if min(scales, default=0.0) == 0.0:
        return float("inf")
    values = _eigenvalues([[gram[i][j] / (scales[i] * scales[j]) for j in range(size)] for i in range(size)])
    return float("inf") if min(values) <= 0 else max(values) / min(values)


def _eigenvalues(matrix: list[list[float]]) -> list[float]:
    """Eigenvalues of a symmetric matrix by Jacobi's rotations."""
    size = len(matrix)
    for _sweep in range(50):
        if sum(matrix[i][j] ** 2 for i in range(size) for j in range(i)) < 1e-28:
            break
        for p in range(size):
            for q in range(p + 1, size):
                if matrix[p][q] == 0.0:
                    continue
                theta = (matrix[q][q] - matrix[p][p]) / (2 * matrix[p][q])
                tangent = (1.0 if theta >= 0 else -1.0) / (abs(theta) + sqrt(theta * theta + 1))
                cosine = 1 / sqrt(tangent * tangent + 1)
                sine = tangent * cosine
                for k in range(size):
                    at_p, at_q = matrix[k][p], matrix[k][q]
                    matrix[k][p], matrix[k][q] = cosine * at_p - sine * at_q, sine * at_p + cosine * at_q
                for k in range(size):
                    at_p, at_q = matrix[p][k], matrix[q][k]
                    matrix[p][k], matrix[q][k] = cosine * at_p - sine * at_q, sine * at_p + cosine * at_q
    return [matrix[i][i] for i in range(size)]
