"""What connections and NORM sessions have in common: how fast they send, and with what parity."""

import math
from typing import Literal

from shoal.config.checks import Checked

Congestion = Literal["fixed", "nack_driven", "norm_cc", "delivery"]

#: What a stream keeps for repair is taken from memory when it is opened.
CACHE_BYTES_MAX = 1 << 32
#: Symbols of a Reed-Solomon block, its parity among them.
SYMBOLS_MAX = 255


class Sending(Checked):
    """A configuration of something that sends."""

    rate_bytes_per_s: float | None
    rate_min_bytes_per_s: float
    congestion: Congestion
    block_symbols: int
    parity_symbols: int
    auto_parity: int

    def check_rate(self) -> None:
        """Refuse rates that contradict each other, or the rate control."""
        self.check_range("rate_bytes_per_s", 1)
        most = math.inf if self.rate_bytes_per_s is None else self.rate_bytes_per_s
        fine = 0 <= self.rate_min_bytes_per_s <= most
        self.check("rate_min_bytes_per_s", fine, "at least 0, and at most rate_bytes_per_s")
        is_constant = self.congestion == "fixed" and self.rate_bytes_per_s is not None
        fine = self.rate_min_bytes_per_s == 0 or not is_constant
        self.check("rate_min_bytes_per_s", fine, "0 beside a fixed rate_bytes_per_s, which nothing changes")

    def check_parity(self) -> None:
        """Refuse more parity than a block takes."""
        self.check_range("block_symbols", 1, SYMBOLS_MAX)
        self.check_range("parity_symbols", 0)
        most = SYMBOLS_MAX - self.block_symbols
        fine = self.parity_symbols <= most
        self.check("parity_symbols", fine, f"at most {most}: with block_symbols, a block has {SYMBOLS_MAX}")
        self.check_range("auto_parity", 0)
        self.check("auto_parity", self.auto_parity <= self.parity_symbols, "at most parity_symbols")
