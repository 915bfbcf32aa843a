"""Ends that do not speak the same language: whoever connects learns which one to use."""

import time
from pathlib import Path

import pytest
from tls_options import shown, trusting

import shoal
from shoal.errors import LinkRefusedError

WITHIN_S = 30.0


def why_not(url: str, certs: Path) -> str:
    """What is said to somebody who connects."""
    try:
        trusted = trusting(certs) if url.startswith(("tls", "wss")) else {}
        # It is told at once, and not because nobody said anything for long.
        bus = shoal.connect(url, connect_timeout_s=2 * WITHIN_S, **trusted)
    except LinkRefusedError as refusal:
        return str(refusal)
    with bus:
        deadline = time.monotonic() + WITHIN_S
        while not (why := bus.links[-1].why) and time.monotonic() < deadline:
            bus.run(0.01)
        return why


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        ("tls", "tcp", "it speaks TLS, and this end does not"),
        ("tcp", "tls", "before TLS began: use tls:// at both ends"),
        ("tcp", "ws", "instead of answering: use ws:// at both ends, or wss://"),
        ("tcp", "wss", "use wss:// at both ends"),
        ("ws", "wss", "use wss:// at both ends"),
        ("wss", "ws", "instead of answering: use ws:// at both ends, or wss://"),
        ("ws", "tcp", "it speaks HTTP: use ws:// at both ends"),
        ("ws", "tls", "use tls:// at both ends"),
        ("wss", "tcp", "it speaks TLS, and this end does not"),
    ],
)
def test_whoever_connects_learns_what_the_other_end_speaks(
    there: str, here: str, said: str, certs: Path
) -> None:
    options = shown(certs, "localhost") if there in ("tls", "wss") else {}
    with shoal.listen(f"{there}://127.0.0.1:0", **options) as hub:
        url = hub.links[-1].url.replace(f"{there}://", f"{here}://", 1)
        assert said in why_not(url, certs)


def test_both_ends_name_the_domains_as_they_see_them() -> None:
    with shoal.listen("tcp://127.0.0.1:0", domain="desk") as hub:
        with pytest.raises(LinkRefusedError, match=r'its domain is "desk", and ours "floor"'):
            shoal.connect(hub.links[-1].url, domain="floor")
        refused = next(event for event in hub.events(WITHIN_S) if isinstance(event, shoal.LinkRefused))
        assert refused.why == 'its domain is "floor", and ours "desk"'
