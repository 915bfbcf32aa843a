"""Our Reed-Solomon code against zfec's: the same parity, and each recovers losses from the other's."""

import random
from collections.abc import Iterator

import pytest
import zfec

from shoal._core import ReedSolomon

SHAPES = [(1, 1), (3, 3), (8, 4), (64, 8), (128, 127), (200, 55), (254, 1)]


def random_symbols(seed: int, count: int, symbol_bytes: int) -> list[bytes]:
    print(f"seed {seed}")
    source = random.Random(seed)
    return [source.randbytes(symbol_bytes) for _ in range(count)]


@pytest.mark.parametrize(("k", "parity"), SHAPES)
def test_our_parity_is_zfecs(k: int, parity: int) -> None:
    source = random_symbols(k, k, 101)
    assert ReedSolomon(k, parity).encode(source) == zfec.Encoder(k, k + parity).encode(source)[k:]


@pytest.mark.parametrize(("k", "parity"), SHAPES)
def test_zfec_recovers_from_our_parity_what_we_recover_from_zfecs(k: int, parity: int) -> None:
    source = random_symbols(k, k, 40)
    theirs = zfec.Encoder(k, k + parity).encode(source)[k:]
    lost = set(random.Random(k).sample(range(k), min(k, parity)))
    kept = [None if index in lost else symbol for index, symbol in enumerate(source)]
    assert ReedSolomon(k, parity).decode(kept, theirs) == source

    ours = ReedSolomon(k, parity).encode(source)
    have = {index: symbol for index, symbol in enumerate(kept) if symbol is not None}
    have |= {k + index: symbol for index, symbol in enumerate(ours[: len(lost)])}
    assert zfec.Decoder(k, k + parity).decode(list(have.values()), list(have)) == source


def powers_of_alpha() -> Iterator[int]:
    value = 1
    while True:
        yield value
        value = (value << 1) ^ (0x11D if value & 0x80 else 0)


def rfc_5510_code_extends(block: list[int], k: int) -> bool:
    """Whether one byte of each symbol is a word of RFC 5510's code: a polynomial's values at alpha's powers.

    Its degree is below k exactly when the k-th divided difference over any k + 1 points is zero.
    """
    points = [point for point, _ in zip(powers_of_alpha(), block, strict=False)]
    logarithm = {value: exponent for exponent, value in zip(range(255), powers_of_alpha(), strict=False)}
    power = {exponent: value for value, exponent in logarithm.items()}

    def divide(a: int, b: int) -> int:
        return 0 if a == 0 else power[(logarithm[a] - logarithm[b]) % 255]

    differences = block
    for order in range(1, k + 1):
        differences = [
            divide(differences[i] ^ differences[i + 1], points[i] ^ points[i + order])
            for i in range(len(differences) - 1)
        ]
    return not any(differences)


def test_the_matrix_of_libnorm_and_zfec_is_not_rfc_5510s() -> None:
    """The page docs/design/fec.md says so; a code of degree 0 (one source symbol) is the same in both."""
    assert rfc_5510_code_extends([7, *(symbol[0] for symbol in ReedSolomon(1, 3).encode([b"\x07"]))], 1)
    source = [b"\x01", b"\x02", b"\x03"]
    word = [symbol[0] for symbol in source + ReedSolomon(3, 3).encode(source)]
    assert not rfc_5510_code_extends(word, 3)
