"""The binding of the Reed-Solomon code."""

import pytest

from shoal._core import ReedSolomon


def test_every_kernel_recovers_what_it_encoded() -> None:
    source = [bytes([index]) * (10 + index) for index in range(6)]
    for kernel in ReedSolomon.kernels():
        code = ReedSolomon(6, 3, kernel=kernel)
        assert (code.kernel, code.source_symbols, code.parity_symbols) == (kernel, 6, 3)
        parity = code.encode(source)
        recovered = code.decode([None, *source[1:4], None, source[5]], [parity[0], None, parity[2]])
        assert recovered == [source[0].ljust(15, b"\0"), *source[1:4], source[4].ljust(15, b"\0"), source[5]]


def test_too_many_losses_are_refused() -> None:
    code = ReedSolomon(3, 2)
    parity = code.encode([b"a", b"b", b"c"])
    with pytest.raises(ValueError, match="2 missing source symbols need as many parity symbols"):
        code.decode([None, b"b", None], [None, parity[1]])


def test_an_impossible_code_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 255 together"):
        ReedSolomon(200, 56)
    with pytest.raises(ValueError, match="this processor has no kernel 'abacus', but scalar"):
        ReedSolomon(4, 2, kernel="abacus")
