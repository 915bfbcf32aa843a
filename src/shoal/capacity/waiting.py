"""How long a message waits for a node that others keep busy: M/GI/1-∞, with a replication grade that varies.

Arrivals are Poisson. A message takes B = a + R·t_tx, where R is drawn for each message. So the moments of B
follow from those of R, and the first two moments of the waiting time W from those of B (Pollaczek and
Khinchine). A message waits with a probability equal to the load. A Gamma distribution with the same two
moments approximates the waiting time of those that wait, as Menth and Henjes did (ICDCS 2006).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, lgamma, log


@dataclass(frozen=True)
class Replication:
    """How many copies of a message leave: the first three moments of R."""

    mean: float
    square: float
    cube: float

    @classmethod
    def fixed(cls, mean: float) -> "Replication":
        """Every message goes to as many subscribers."""
        return cls(mean, mean**2, mean**3)

    @classmethod
    def all_or_none(cls, mean: float, share: float) -> "Replication":
        """A share of the messages goes to all subscribers, the others to none."""
        each = mean / _checked(share)
        return cls(mean, share * each**2, share * each**3)

    @classmethod
    def binomial(cls, mean: float, share: float) -> "Replication":
        """Each of mean/share subscribers wants a message with probability `share`, independently."""
        count = mean / _checked(share)
        # By factorial moments, which stay right where the count is no whole number.
        second, third = count * (count - 1) * share**2, count * (count - 1) * (count - 2) * share**3
        return cls(mean, second + mean, third + 3 * second + mean)

    @classmethod
    def parse(cls, law: str, mean: float) -> "Replication":
        """Read `fixed`, `all-or-none:0.1` or `binomial:0.1`."""
        name, _, text = law.partition(":")
        makers: dict[str, Callable[[float, float], Replication]] = {
            "all-or-none": cls.all_or_none,
            "binomial": cls.binomial,
        }
        if law == "fixed":
            return cls.fixed(mean)
        try:
            return makers[name](mean, float(text))
        except (KeyError, ValueError):
            raise ValueError(
                "the law must be fixed, all-or-none:SHARE or binomial:SHARE, "
                f"with a share from above 0 to 1, not {law!r}"
            ) from None


def _checked(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError(f"a share is from above 0 to 1, not {share}")
    return share


@dataclass(frozen=True)
class Waiting:
    """The waiting time of messages at one load."""

    load: float
    mean_s: float
    #: Mean and shape of the Gamma distribution of those that wait.
    waiting_mean_s: float
    shape: float

    @classmethod
    def of(cls, fixed_s: float, send_s: float, replication: Replication, load: float) -> "Waiting":
        """Wait for a node that is busy for the share `load`; a message takes `fixed_s` + R·`send_s`.

        Raises:
            ValueError: the load is not from 0 to less than 1; at 1 the queue grows without end.
        """
        if not 0 <= load < 1:
            raise ValueError(
                f"the load must be from 0 to less than 1, not {load:g}: at 1 the queue grows without end"
            )
        r1, r2, r3 = replication.mean, replication.square, replication.cube
        a, t = fixed_s, send_s
        b1 = a + t * r1
        b2 = a * a + 2 * a * t * r1 + t * t * r2
        b3 = a**3 + 3 * a * a * t * r1 + 3 * a * t * t * r2 + t**3 * r3
        if load == 0 or b1 == 0:
            return cls(load, 0.0, 0.0, 1.0)
        rate = load / b1
        w1 = rate * b2 / (2 * (1 - load))
        w2 = 2 * w1 * w1 + rate * b3 / (3 * (1 - load))
        mean, square = w1 / load, w2 / load
        return cls(load, w1, mean, mean * mean / (square - mean * mean))

    def above(self, time_s: float) -> float:
        """The share of messages that wait longer."""
        if time_s <= 0 or self.waiting_mean_s == 0:
            return self.load if time_s <= 0 else 0.0
        return self.load * (1 - gamma_share(self.shape, self.shape * time_s / self.waiting_mean_s))

    def quantile_s(self, share: float) -> float:
        """The time that this share of the messages waits at most."""
        if not 0 <= share < 1:
            raise ValueError(f"a quantile is from 0 to less than 1, not {share}")
        if 1 - share >= self.load:
            return 0.0
        low, high = 0.0, self.waiting_mean_s
        while self.above(high) > 1 - share:
            low, high = high, 2 * high
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if self.above(middle) > 1 - share else (low, middle)
        return high


def gamma_share(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function P(shape, x)."""
    if x <= 0:
        return 0.0
    front = exp(shape * log(x) - x - lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        number = shape
        while abs(term) > abs(total) * 1e-16:
            number += 1
            term *= x / number
            total += term
        return min(1.0, total * front)
    # Lentz's continued fraction of the upper function.
    tiny = 1e-300
    b = x + 1 - shape
    c, d = 1 / tiny, 1 / b
    fraction = d
    for i in range(1, 10_000):
        a = -i * (i - shape)
        b += 2
        d = 1 / (a * d + b or tiny)
        c = b + a / c or tiny
        fraction *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return max(0.0, 1 - front * fraction)
