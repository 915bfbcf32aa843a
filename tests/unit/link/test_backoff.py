"""Waits grow, are random, and have a bound."""

from shoal.link.backoff import FIRST_S, Backoff


def test_waits_double_up_to_their_bound_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(0.3, chance=lambda: 1.0)
    assert [backoff.next_s() for _ in range(5)] == [FIRST_S, 0.1, 0.2, 0.3, 0.3]
    backoff.reset()
    assert backoff.next_s() == FIRST_S


def test_a_wait_is_between_half_of_its_length_and_all_of_it() -> None:
    assert Backoff(10, chance=lambda: 0.0).next_s() == FIRST_S / 2
    assert Backoff(0.01, chance=lambda: 1.0).next_s() == 0.01
