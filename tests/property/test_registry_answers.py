"""Whatever a registry answers, those who ask it get what it said or a `LinkError`."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import LinkError
from shoal.link.directory import Endpoint, Load, Record
from shoal.link.registry_client import REFRESH_S_MAX, RegistryClient

RECORD = Record(f"{1:016x}", "d", (Endpoint("tcp", "10.0.0.1", 1),), load=Load(1, 0.5, 2.0))
URL = Endpoint("tcp", "10.0.0.1", 7474).as_json()
ANSWERS: list[dict[str, Any]] = [
    {"stamp": 5, "refresh_s": 5.0, "key": "00", "unproved": {"tcp://a:1": "no"}},
    {"stamp": 5, "settling": False, "daemons": [RECORD.as_json()]},
    {"candidates": [URL | {"publisher": "a1", "why": "near", "load": 0.1}], "current": 0.5},
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def places(value: Any) -> list[Callable[[Any], None]]:
    """Functions that put something else at each place inside a value."""
    found = []
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        found += [lambda other, key=key: value.__setitem__(key, other), *places(each)]
    return found


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_answer_is_read_or_refused(data: st.DataObject) -> None:
    answer: Any = json.loads(json.dumps(data.draw(st.sampled_from(ANSWERS))))
    for _ in range(data.draw(st.integers(1, 3))):
        data.draw(st.sampled_from(places(answer)))(data.draw(ANYTHING))
    if data.draw(st.integers(0, 9)) == 0:
        answer = data.draw(ANYTHING)
    client = RegistryClient("http://127.0.0.1:1", "plant")
    client._ask = lambda *_, **__: answer  # type: ignore[method-assign]
    with contextlib.suppress(LinkError):
        assert 0 < client.register(RECORD, None, None).refresh_s <= REFRESH_S_MAX
    with contextlib.suppress(LinkError):
        client.listing()
    with contextlib.suppress(LinkError):
        client.locate()
