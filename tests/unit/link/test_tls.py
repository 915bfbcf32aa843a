"""Links over TLS: whom to believe."""

import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tls_options import shown, trusting

import shoal
from shoal.errors import ConfigError, LinkRefusedError
from shoal.link.authority import make_authority, make_node

SCHEMES = ["tls", "wss"]


def listen(scheme: str, **options: Any) -> shoal.Bus:
    return shoal.listen(f"{scheme}://127.0.0.1:0", **options)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_certificate_of_another_authority_is_refused(scheme: str, certs: Path, strangers: Path) -> None:
    with listen(scheme, **shown(strangers, "stranger")) as hub:
        url = hub.links[-1].url
        with pytest.raises(LinkRefusedError, match="refuses us: its certificate is not signed by"):
            shoal.connect(url, **trusting(certs))
        with shoal.connect(url, **trusting(strangers)) as leaf:
            assert leaf.members == [hub.node]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_certificate_for_another_name_is_refused_unless_that_name_is_asked_for(
    scheme: str, certs: Path
) -> None:
    with listen(scheme, **shown(certs, "elsewhere")) as hub:
        url = hub.links[-1].url
        with pytest.raises(LinkRefusedError, match="its certificate is not for the name we asked for"):
            shoal.connect(url, **trusting(certs))
        with shoal.connect(url, **trusting(certs), tls_name="elsewhere") as leaf:
            assert leaf.members == [hub.node]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_who_shows_no_certificate_or_a_strangers_is_not_let_in_where_both_have_to(
    scheme: str, certs: Path, strangers: Path
) -> None:
    with listen(scheme, **shown(certs, "localhost"), **trusting(certs)) as hub:
        url = hub.links[-1].url
        for extra in ({}, shown(strangers, "stranger")):
            bus = None
            try:
                bus = shoal.connect(url, **trusting(certs), **extra, connect_timeout_s=2)
                assert bus.members == []
            except LinkRefusedError as error:
                assert "certificate" in str(error) or "TLS" in str(error)  # noqa: PT017
            finally:
                if bus is not None:
                    bus.close()
        refused = [event for event in hub.events(timeout_s=0.5) if isinstance(event, shoal.LinkRefused)]
        assert len(refused) >= 2
        with shoal.connect(url, **trusting(certs), **shown(certs, "leaf")) as leaf:
            assert leaf.members == [hub.node]


def test_who_connects_without_tls_and_the_other_way_round_is_told(certs: Path) -> None:
    with (
        listen("tls", **shown(certs, "localhost")) as secure,
        shoal.listen("tcp://127.0.0.1:0") as plain,
    ):
        url = plain.links[-1].url.replace("tcp", "tls")
        with shoal.connect(url, **trusting(certs), connect_timeout_s=2, reconnect_max_s=9) as leaf:
            assert leaf.members == []
        (refused,) = [one for one in plain.events(timeout_s=0.3) if isinstance(one, shoal.LinkRefused)]
        assert "speaks TLS" in refused.why
        with shoal.connect(secure.links[-1].url.replace("tls", "tcp"), reconnect_max_s=9) as leaf:
            assert leaf.members == []
        (refused,) = [one for one in secure.events(timeout_s=0.3) if isinstance(one, shoal.LinkRefused)]
        assert "does not speak TLS" in refused.why


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_older_than_tls_1_3_is_spoken(scheme: str, certs: Path) -> None:
    context = ssl.create_default_context(cafile=certs / "ca.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with listen(scheme, **shown(certs, "localhost")) as hub:
        host, port = hub.links[-1].address.split(":")
        with (
            socket.create_connection((host, int(port)), timeout=10) as sock,
            pytest.raises((ssl.SSLError, ConnectionResetError)),
        ):
            context.wrap_socket(sock, server_hostname="localhost")


def test_another_implementation_agrees_with_ours(certs: Path) -> None:
    """`openssl s_client` verifies our certificate, and speaks TLS 1.3 with our listener."""
    with listen("tls", **shown(certs, "localhost")) as hub:
        command = ["openssl", "s_client", "-connect", hub.links[-1].address, "-CAfile", certs / "ca.pem"]
        done = subprocess.run(
            [*command, "-verify_return_error", "-verify_hostname", "localhost", "-brief"],
            input="not Shoal",
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert "TLSv1.3" in done.stderr
        assert "Verification: OK" in done.stderr
        (refused,) = [one for one in hub.events(timeout_s=1) if isinstance(one, shoal.LinkRefused)]
        assert "does not speak Shoal's protocol" in refused.why


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "without a certificate"),
        ({"tls_cert": "a.pem"}, "tls_key"),
        ({"tls_cert": "/none.pem", "tls_key": "/none.key"}, "/none.pem"),
    ],
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_listening_without_a_certificate_that_can_be_read_is_refused(
    scheme: str, options: dict[str, str], names: str
) -> None:
    with pytest.raises(ConfigError, match=names):
        listen(scheme, **options)


def test_files_that_are_no_certificates_are_refused_by_name(certs: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("hello")
    with pytest.raises(ConfigError, match="tls_ca"):
        shoal.connect("tls://127.0.0.1:1", tls_ca=str(nothing))
    with pytest.raises(ConfigError, match="tls_cert"):
        listen("tls", tls_cert=str(nothing), tls_key=str(certs / "leaf.key"))
    with pytest.raises(ConfigError, match="do not fit"):
        listen("tls", tls_cert=str(certs / "leaf.pem"), tls_key=str(certs / "elsewhere.key"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_certificate_that_has_expired_is_refused(scheme: str, tmp_path: Path) -> None:
    make_authority(tmp_path, "old CA", 30)
    make_node(tmp_path, "localhost", ["127.0.0.1"], -1)
    with (
        listen(scheme, **shown(tmp_path, "localhost")) as hub,
        pytest.raises(LinkRefusedError, match="expired"),
    ):
        shoal.connect(hub.links[-1].url, **trusting(tmp_path))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_certificates_are_read_again_when_asked_and_wrong_ones_change_nothing(
    scheme: str, tmp_path: Path
) -> None:
    make_authority(tmp_path, "CA", 30)
    make_node(tmp_path, "localhost", ["127.0.0.1"], -1)
    with listen(scheme, **shown(tmp_path, "localhost")) as hub:
        url = hub.links[-1].url
        with pytest.raises(LinkRefusedError, match="expired"):
            shoal.connect(url, **trusting(tmp_path))
        for name in ("localhost.pem", "localhost.key"):
            (tmp_path / name).unlink()
        with pytest.raises(ConfigError, match="tls_cert"):
            hub.reload_keys()
        make_node(tmp_path, "localhost", ["127.0.0.1"], 30)
        with pytest.raises(LinkRefusedError, match="expired"):
            shoal.connect(url, **trusting(tmp_path))
        hub.reload_keys()
        with shoal.connect(url, **trusting(tmp_path)) as leaf:
            assert leaf.members == [hub.node]


def test_who_opens_a_connection_and_says_nothing_is_gone_after_a_while(certs: Path) -> None:
    with listen("tls", **shown(certs, "localhost")) as hub:
        host, port = hub.links[-1].address.split(":")
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            silent.sendall(b"\x16\x03\x01")
            while silent.recv(100):
                pass
        (refused,) = [one for one in hub.events(timeout_s=1) if isinstance(one, shoal.LinkRefused)]
        assert refused.why == "it did not say who it is within 5 s"


def test_the_store_of_a_program_that_listens_needs_no_certificate(certs: Path, tmp_path: Path) -> None:
    with (
        listen("tls", store=tmp_path, router=True, **shown(certs, "localhost")) as hub,
        shoal.connect(hub.links[-1].url, **trusting(certs)) as leaf,
    ):
        # Beside those who connect from elsewhere.
        assert {(link.role, link.url) for link in hub.links if link.address == "this process"} == {
            ("accept", "inproc://")
        }
        leaf.queue("orders").send(7, timeout_s=60)
        message = leaf.queue("orders").receive(60)
        assert message is not None
        assert message.body == 7
