"""Parameters beyond those of `test_norm_matrix`: segments, blocks and parity drawn at random, both ways.

`make soak` runs it. `SEED=7 pytest tests/interop/long_matrix.py` draws others.
"""

import os
import random
from pathlib import Path

import pytest
import test_norm_matrix as matrix
from test_norm_matrix import FEC_NAMES, KINDS, Case

#: So many each way.
COUNT = 96
SEED = int(os.environ.get("SEED", "1"))


def draw() -> list[Case]:
    """Cases that are not in the matrix."""
    chance, cases = random.Random(SEED), {}
    while len(cases) < COUNT:
        parity = chance.choice((0, 1, 4, 16, 32))
        case = Case(
            kind=chance.choice(KINDS),
            fec_id=chance.choice(tuple(FEC_NAMES)),
            parity=parity,
            loss_percent=chance.choice((0.0, 2.0, 10.0)),
            congestion_control=chance.random() < 0.25,
            receivers=chance.choice((1, 2)),
            watermark=chance.random() < 0.5,
            auto_parity=chance.randrange(parity // 2 + 1),
            segment_bytes=chance.choice((64, 200, 1000, 1400, 4000)),
            block_symbols=chance.choice((4, 10, 64, 200)),
        )
        cases[str(case)] = case
    return list(cases.values())


CASES = draw()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_libnorm_receives_with_other_parameters(free_udp_port: int, tmp_path: Path, case: Case) -> None:
    matrix.test_libnorm_receives_what_shoal_sends(free_udp_port, tmp_path, case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shoal_receives_with_other_parameters(free_udp_port: int, tmp_path: Path, case: Case) -> None:
    matrix.test_shoal_receives_what_libnorm_sends(free_udp_port, tmp_path, case)
