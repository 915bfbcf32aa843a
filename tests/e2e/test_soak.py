"""Ten seconds of the soak; `make soak` runs ten minutes of it."""

import random

import pytest
import soak


@pytest.mark.timeout(120)
def test_ten_seconds_of_load_and_trouble_lose_nothing_and_leave_nothing() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    soak.run(10, seed)
