"""A daemon's file becomes one checked configuration; errors name line, key, value and what would do."""

from pathlib import Path

import pytest

from shoal.console.config import ConsoleConfig
from shoal.daemon.config import DaemonConfig, RegistryOptions, load
from shoal.errors import ConfigError
from shoal.registry.config import RegistryConfig

LAN = "[link.lan]\nurl = 'norm://?interface=lo'\n"


def loaded(directory: Path, text: str) -> DaemonConfig:
    path = directory / "shoald.toml"
    path.write_text(text)
    return load(path)


def refused(directory: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(directory, text)
    return str(caught.value)


def test_a_link_is_all_that_a_daemon_needs(tmp_path: Path) -> None:
    config = loaded(tmp_path, LAN)
    assert (config.domain, config.roles.router, config.http, config.store) == ("default", True, None, None)
    assert config.name
    link = config.links["lan"]
    assert (link.connection.scheme, link.connection.interface, link.listens) == ("norm", "lo", False)


def test_everything_can_be_said(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
name = "hall-1"
domain = "desk"
answer = false

[roles]
router = true
listener = true
store = true

[link.lan]
url = "norm://"
interface = "eth0"

[link.far]
url = "norm://192.0.2.7:7475?listen_port=7475&congestion=delivery"
parity_symbols = 16
auto_parity = 2
key_file = "key"

[connection]
connections_max = 50
tls_ca = "ca.pem"

[link.clients]
listen = "tcp://0.0.0.0:7474"

[link.spare]
url = "tcp://spare:7474"
enabled = false

[store]
data = "data"
record = ["prices/>"]
keep = "7d"

[http]
listen = "[::1]:0"

[log]
format = "json"
level = "warning"
""",
    )
    assert (config.name, config.domain, config.answer) == ("hall-1", "desk", False)
    assert all(link.connection.domain == "desk" for link in config.links.values())
    assert config.links["far"].connection.congestion == "delivery"
    assert config.links["far"].connection.key_file == str(tmp_path / "key")
    assert config.links["clients"].listens
    assert config.connection.connections_max == 50
    assert config.connection.tls_ca == str(tmp_path / "ca.pem")
    assert config.connection.router
    assert list(config.open_links()) == ["lan", "far", "clients"]
    assert config.store is not None
    assert config.store.path == tmp_path / "data"
    assert config.http is not None
    assert config.http.address() == ("::1", 0)
    assert (config.log.format, config.log.level) == ("json", "warning")


def test_listening_can_be_switched_off_as_a_whole(tmp_path: Path) -> None:
    config = loaded(tmp_path, f"[roles]\nlistener = false\n{LAN}[link.clients]\nlisten = 'tcp://:7474'\n")
    assert list(config.open_links()) == ["lan"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["there is no link", "[link.lan]"]),
        ("link = 3", ["line 1", "link is 3", "[link]"]),
        ("[link.lan]\n", ["line 1", "[link.lan]", "url", "listen"]),
        ("[link.lan]\nurl = 'norm://'\nlisten = 'tcp://:1'\n", ["line 1", "one of them"]),
        ("[link.lan]\nurl = 7\n", ["line 2", "link.lan.url is 7", "a URL"]),
        ("[link.lan]\nurl = ''\n", ["line 2", "link.lan.url is ''", "a URL"]),
        ("[link.lan]\nurl = 'ftp://x'\n", ["line 2", "'ftp://x'", "norm://"]),
        ("[link.lan]\nurl = 'inproc://'\n", ["line 2", "inproc://", "norm://, tcp://"]),
        ("[link.lan]\nurl = 'udp://'\n", ["line 2", "udp://", "norm://, tcp://", "lost on udp://"]),
        ("[link.lan]\nurl = 'norm://'\nheartbeat_s = 0\n", ["line 3", "heartbeat_s is 0", "more than 0"]),
        (
            "[link.lan]\nurl = 'norm://'\nintervace = 'lo'\n",
            ["line 3", "intervace", "did you mean 'interface'?"],
        ),
        ("[link.lan]\nurl = 'norm://?intervace=lo'\n", ["line 2", "did you mean 'interface'?"]),
        ("[link.a]\nurl = 'tcp://x'\nresume_s = 3\n", ["line 3", "resume_s", "[connection]"]),
        (f"{LAN}[connection]\nresume_s = -1\n", ["line 4", "resume_s is -1"]),
        (f"{LAN}[connection]\nport = 1\n", ["line 4", "connection.port", "leave it out"]),
        (f"{LAN}[connection]\nresume = 1\n", ["line 4", "did you mean 'resume_s'?"]),
        (f"{LAN}[connection]\ninterface = 'lo'\n", ["line 4", "interface", "means nothing"]),
        ("[link.lan]\nlisten = 'norm://'\n", ["line 2", "cannot be listened at", "tcp://"]),
        ("[link.'a b']\nurl = 'norm://'\n", ["link.a b", "letters"]),
        ("[link.lan]\nurl = 'norm://'\nenabled = 1\n", ["line 3", "enabled is 1", "true or false"]),
        ("[link.lan]\nurl = 'norm://'\ndomain = 'x'\n", ["line 3", "'x'", "'default'", "one domain"]),
        (LAN + "[link.b]\nurl = 'norm://?interface=lo'\n", ["line 3", "[link.b]", "[link.lan]"]),
        (f"nane = 'x'\n{LAN}", ["line 1", "'nane'", "did you mean 'name'?"]),
        (f"name = 'a b'\n{LAN}", ["line 1", "'a b'", "letters"]),
        (f"domain = 3\n{LAN}", ["line 1", "domain is 3", "a text"]),
        (f"answer = 'yes'\n{LAN}", ["line 1", "answer is 'yes'", "true or false"]),
        (f"[roles]\nrouter = 1\n{LAN}", ["line 2", "roles.router is 1", "True or False"]),
        (f"[roles]\nrooter = true\n{LAN}", ["line 2", "did you mean 'router'?"]),
        (f"{LAN}[gateway]\nstomp = []\n", ["line 3", "gateway = true"]),
        (f"{LAN}[roles]\ngateway = true\n[gateway]\nstomp = 'x'\n", ["line 6", "a list"]),
        (
            f"{LAN}[roles]\ngateway = true\n[gateway]\nstomp = ['tcp://0.0.0.0']\n",
            ["line 6", "other machines", "tokens"],
        ),
        (f"{LAN}[roles]\ngateway = true\n[gateway]\nstamp = ['x']\n", ["line 6", "did you mean 'stomp'?"]),
        (f"{LAN}[registry.server]\n", ["line 3", "registry = true"]),
        (f"{LAN}[roles]\nregistry = true\n[registry.server]\nsites = 'x'\n", ["line 6", "a list"]),
        (
            f"{LAN}[roles]\nregistry = true\n[registry.server]\nlisten = '0.0.0.0:1'\n",
            ["line 6", "other machines", "tokens"],
        ),
        (
            f"{LAN}[roles]\nregistry = true\n[registry.server]\nsite = []\n",
            ["line 6", "did you mean 'sites'?"],
        ),
        (f"{LAN}[registry]\ntoken_file = 'x'\n", ["registry.urls is None", "https://reg:7480"]),
        (f"{LAN}[store]\ndata = 'x'\n", ["line 3", "store = true"]),
        (f"{LAN}[roles]\nstore = true\n", ["store.data is None", "directory"]),
        (
            f"{LAN}[roles]\nstore = true\n[store]\ndata = 'x'\nkeep = 'soon'\n",
            ["line 7", "keep is 'soon'", "7d"],
        ),
        (f"{LAN}[http]\nlisten = 'here'\n", ["line 4", "http.listen is 'here'", "127.0.0.1:7480"]),
        (f"{LAN}[http]\nlisten = '0.0.0.0:80'\n", ["line 4", "'0.0.0.0:80'", "beyond_loopback"]),
        (f"{LAN}[http]\nport = 80\n", ["line 4", "'port'", "listen"]),
        (f"{LAN}[log]\nformat = 'xml'\n", ["line 4", "log.format is 'xml'", "text or json"]),
        ("name = \n", ["no TOML", "line 1"]),
    ],
)
def test_what_cannot_work_is_named_with_its_line_and_what_would_do(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    message = refused(tmp_path, text)
    assert message.startswith(str(tmp_path / "shoald.toml"))
    for word in words:
        assert word in message, message


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file"):
        load(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "bytes.toml")


def test_a_daemon_may_serve_a_registry_and_register_with_it(tmp_path: Path) -> None:
    role = f"{LAN}[roles]\nregistry = true\n"
    served = "[registry.server]\nlisten = '127.0.0.1:0'\naudit = 'audit.db'\nsites = ['10.1.0.0/16']\n"
    alone = loaded(tmp_path, role + served)
    assert alone.directory == RegistryConfig(
        listen="127.0.0.1:0", audit=tmp_path / "audit.db", sites=("10.1.0.0/16",)
    )
    assert alone.registry is None
    both = loaded(tmp_path, f"{role}[registry]\nurls = ['http://127.0.0.1:7480']\n{served}")
    assert both.directory == alone.directory
    assert both.registry == RegistryOptions(urls=("http://127.0.0.1:7480",))
    assert loaded(tmp_path, role).directory == RegistryConfig()


def test_a_daemon_may_have_a_console(tmp_path: Path) -> None:
    role = f"{LAN}[roles]\nconsole = true\n"
    table = "[console]\ntokens = 'tokens'\ndata = 'acts'\nhost_keys = ['a.key']\nnames = ['ops']\n"
    assert loaded(tmp_path, role + table).console == ConsoleConfig(
        tokens=tmp_path / "tokens",
        data=tmp_path / "acts",
        host_keys=(tmp_path / "a.key",),
        names=("ops",),
    )
    assert "console = true" in refused(tmp_path, LAN + table)
    assert "shoal token new" in refused(tmp_path, role)
    assert "did you mean 'listen'?" in refused(tmp_path, f"{role}[console]\nlisen = 'x'\n")


def test_a_metrics_endpoint_beyond_loopback_has_to_be_meant(tmp_path: Path) -> None:
    text = f"{LAN}[http]\nlisten = '0.0.0.0:7480'\nbeyond_loopback = true\n"
    config = loaded(tmp_path, text)
    assert config.http is not None
    assert config.http.address() == ("0.0.0.0", 7480)


CLIENTS = "[link.clients]\nlisten = 'tls://0.0.0.0:7474'\n"
WITH_CA = "[connection]\ntls_ca = 'ca.pem'\ntls_cert = 'a.pem'\ntls_key = 'a.key'\n"


def test_a_listener_may_have_a_list_of_those_who_are_let_in(tmp_path: Path) -> None:
    config = loaded(tmp_path, CLIENTS + "allow = ['sensor*', '10.0.0.0/8']\n" + WITH_CA)
    assert config.links["clients"].allow == ("sensor*", "10.0.0.0/8")
    assert loaded(tmp_path, LAN + "cost = 7\n").links["lan"].connection.cost == 7
    plain = "[link.clients]\nlisten = 'tcp://0.0.0.0:7474'\nallow = ['10.0.0.0/8']\n"
    assert loaded(tmp_path, plain).links["clients"].allow == ("10.0.0.0/8",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAN + "cost = 0\n", "[link.lan] 'norm://?interface=lo': cost is 0, and must be from 1 to 1000000"),
        (LAN + "cost = 'much'\n", "cost is 'much', and must be a whole number"),
        (LAN + "allow = ['10.0.0.0/8']\n", "says who may connect, and [link.lan] has no listen"),
        (CLIENTS + "allow = []\n" + WITH_CA, "allow is [], and must be a list of names"),
        (CLIENTS + "allow = 'sensor1'\n" + WITH_CA, "allow is 'sensor1', and must be a list"),
        (CLIENTS + "allow = ['10.0.0.1/8']\n" + WITH_CA, "'10.0.0.1/8' is no network"),
        (CLIENTS + "allow = ['sensor1']\n", "without tls_ca in [connection] no program is asked"),
        (
            CLIENTS.replace("tls", "ws") + "allow = ['sensor1']\n" + WITH_CA,
            "ws:// asks for no certificate",
        ),
    ],
)
def test_a_list_that_cannot_work_is_refused(tmp_path: Path, text: str, why: str) -> None:
    told = refused(tmp_path, text)
    assert why in told
    assert "line " in told
