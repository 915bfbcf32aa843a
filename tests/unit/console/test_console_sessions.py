"""Sessions end when they must, and failed logins have to wait."""

from shoal.config.tokens import Principal, Token
from shoal.console.sessions import (
    ADDRESSES_MAX,
    FAILURES_MAX,
    FAILURES_S,
    IDLE_S,
    LIFE_S,
    SESSIONS_MAX,
    Failures,
    Sessions,
    is_csrf,
)


def principal(role: str = "viewer") -> Principal:
    return Principal("ada", role, Token.new("ada").verifier)


def test_a_session_lasts_while_it_is_used_but_not_for_ever() -> None:
    sessions, ada = Sessions(), principal()
    session = sessions.begin(0.0, ada)
    now = 0.0
    while now + IDLE_S - 1 < LIFE_S:
        now += IDLE_S - 1
        assert sessions.find(now, session.id, ada) is session
    assert sessions.find(LIFE_S + 1, session.id, ada) is None
    idle = sessions.begin(0.0, ada)
    assert sessions.find(IDLE_S + 1, idle.id, ada) is None
    assert len(sessions) == 0


def test_a_session_ends_with_its_token_and_takes_a_new_role_at_once() -> None:
    sessions, ada = Sessions(), principal()
    session = sessions.begin(0.0, ada)
    promoted = Principal("ada", "admin", ada.verifier)
    found = sessions.find(1.0, session.id, promoted)
    assert found is not None
    assert found.principal.role == "admin"
    assert sessions.find(2.0, session.id, principal()) is None, "the token was replaced"
    session = sessions.begin(0.0, ada)
    assert sessions.find(1.0, session.id, None) is None, "the token was revoked"


def test_sessions_are_bounded_and_the_one_used_least_recently_gives_way() -> None:
    sessions, ada = Sessions(), principal()
    first, second = sessions.begin(0.0, ada), sessions.begin(0.0, ada)
    sessions.find(1.0, first.id, ada)
    for _ in range(SESSIONS_MAX - 1):
        sessions.begin(2.0, ada)
    assert sessions.find(3.0, first.id, ada) is not None
    assert sessions.find(3.0, second.id, ada) is None


def test_only_its_own_value_proves_a_session() -> None:
    sessions = Sessions()
    one, other = sessions.begin(0.0, principal()), sessions.begin(0.0, principal())
    assert is_csrf(one, one.csrf)
    for shown in ("", other.csrf, one.csrf + "x", "é"):
        assert not is_csrf(one, shown)


def test_an_address_that_fails_five_times_in_a_minute_has_to_wait() -> None:
    failures = Failures()
    for number in range(FAILURES_MAX):
        assert failures.wait_s(float(number), "a") == 0.0
        failures.add(float(number), "a")
    assert failures.wait_s(5.0, "a") == FAILURES_S - 5.0
    assert failures.wait_s(5.0, "b") == 0.0
    assert failures.wait_s(FAILURES_S, "a") == 0.0
    failures.forget("a")
    for number in range(ADDRESSES_MAX + 1):
        failures.add(0.0, str(number))
    assert len(failures._of) == ADDRESSES_MAX
