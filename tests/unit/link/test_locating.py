"""How a `locate://` connection finds its daemon: registries asked in turn, failed daemons avoided."""

from pathlib import Path

import pytest

from shoal.config import parse_url
from shoal.errors import LinkError, LinkRefusedError
from shoal.link.directory import Endpoint
from shoal.link.locating import AVOID_S, KEEP_S, Locator, registry_urls
from shoal.link.registry_client import Candidate, Located


class Clock:
    now = 1e6

    def __call__(self) -> float:
        return self.now


class Registry:
    """Answers like one registry, with the daemons it is given."""

    def __init__(self, *ports: int) -> None:
        self.ports = list(ports)
        self.error: LinkError | None = None
        self.asked = 0

    def locate(self, *, transport: str | None, exclude: tuple[str, ...]) -> Located:
        self.asked += 1
        if self.error is not None:
            raise self.error
        found = [Candidate(Endpoint("tcp", "10.0.0.1", port), f"{port:016x}", "") for port in self.ports]
        return Located(tuple(each for each in found if each.publisher not in exclude))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def locator(tmp_path: Path, clock: Clock, *registries: Registry) -> Locator:
    made = Locator("127.0.0.1:1", "plant", cache=tmp_path, clock=clock)
    made._clients = list(registries)  # type: ignore[arg-type]
    return made


def test_https_is_used_beyond_this_machine() -> None:
    assert registry_urls("reg,reg2:7481, localhost:1,127.0.0.1,[::1]:5") == [
        "https://reg:7480",
        "https://reg2:7481",
        "http://localhost:1",
        "http://127.0.0.1:7480",
        "http://[::1]:5",
    ]
    assert registry_urls("127.0.0.1", has_authority=True) == ["https://127.0.0.1:7480"]


def test_a_url_names_registries_domain_and_what_they_ask_for() -> None:
    config = parse_url("locate://r1:7480,r2:7480/plant?transport=tls&token_file=t&ca=ca.pem")
    assert (config.host, config.domain, config.transport) == ("r1:7480,r2:7480", "plant", "tls")
    assert (config.registry_token_file, config.registry_ca) == ("t", "ca.pem")
    assert config.where() == "locate://r1:7480,r2:7480/plant"


def test_a_daemon_that_failed_is_avoided_for_a_while(tmp_path: Path, clock: Clock) -> None:
    found = locator(tmp_path, clock, Registry(1, 2))
    first = found.find()
    assert first.port == 1
    found.avoid(first)
    assert found.find().port == 2
    clock.now += AVOID_S
    assert found.find().port == 1


def test_the_only_daemon_is_tried_again_though_it_failed(tmp_path: Path, clock: Clock) -> None:
    found = locator(tmp_path, clock, Registry(1))
    found.avoid(found.find())
    assert found.find().port == 1


def test_another_registry_is_asked_if_one_is_away(tmp_path: Path, clock: Clock) -> None:
    away, there = Registry(), Registry(7)
    away.error = LinkError("away")
    assert {locator(tmp_path, clock, away, there).find().port for _ in range(8)} == {7}
    assert away.asked > 0


def test_a_refusal_is_final(tmp_path: Path, clock: Clock) -> None:
    denied = Registry()
    denied.error = LinkRefusedError("no token")
    with pytest.raises(LinkRefusedError):
        locator(tmp_path, clock, denied).find()


def test_without_a_registry_the_last_answer_is_used_for_a_day(tmp_path: Path, clock: Clock) -> None:
    one = Registry(1, 2)
    locator(tmp_path, clock, one).find()
    one.error = LinkError("away")
    later = locator(tmp_path, clock, one)
    assert later.find().port == 1
    later.avoid(later.find())
    assert later.find().port == 2
    clock.now += KEEP_S + 1
    with pytest.raises(LinkError, match="away"):
        locator(tmp_path, clock, one).find()


def test_a_damaged_or_missing_cache_is_no_trouble(tmp_path: Path, clock: Clock) -> None:
    one = Registry(1)
    made = locator(tmp_path, clock, one)
    made.find()
    made._cache.write_text("{")
    one.error = LinkError("away")
    with pytest.raises(LinkError, match="away"):
        made.find()


def test_no_daemon_with_room_is_an_error(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(LinkError, match="No daemon"):
        locator(tmp_path, clock, Registry()).find()
