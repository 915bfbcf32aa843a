"""A console over HTTPS, as a process has it."""

import ssl
import time
from pathlib import Path

import httpx

from shoal.config.tokens import Principal, Token, write_principals
from shoal.console.config import ConsoleConfig
from shoal.console.look import Look
from shoal.console.service import ConsoleServer
from shoal.link.authority import make_self_signed


class Still:
    """A domain in which nothing happens."""

    def look(self) -> Look:
        return Look(at_s=time.monotonic(), wall_s=time.time())

    def hurry(self) -> None:
        pass


def test_over_tls_the_cookie_is_for_this_host_alone_and_tokens_of_other_domains_are_unknown(
    tmp_path: Path,
) -> None:
    cert, key, tokens = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "tokens"
    make_self_signed(cert, key, "127.0.0.1", [], 3)
    here, elsewhere = Token.new("here"), Token.new("elsewhere")
    write_principals(
        tokens,
        [
            Principal("here", "viewer", here.verifier, ("plant",)),
            Principal("elsewhere", "viewer", elsewhere.verifier, ("lab",)),
        ],
    )
    config = ConsoleConfig(
        listen="127.0.0.1:0", tls_cert=cert, tls_key=key, tokens=tokens, data=tmp_path / "data"
    )
    context = ssl.create_default_context(cafile=cert)
    with ConsoleServer(config, source=Still(), domain="plant") as server:
        assert server.login_url is None
        with httpx.Client(base_url=server.url, verify=context, timeout=30.0) as client:
            client.headers["Origin"] = server.url
            refused = client.post("/api/v1/session", json={"token": elsewhere.text})
            assert refused.status_code == 401
            answer = client.post("/api/v1/session", json={"token": here.text})
            assert answer.status_code == 200
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith("__Host-shoal-console=")
            assert "secure" in cookie.lower()
            assert client.get("/api/v1/session").json()["principal"] == "here"
            headers = {"X-Shoal-CSRF": answer.json()["csrf"], "Content-Type": "application/json"}
            plain = {"Origin": server.url.replace("https", "http")}
            assert client.request("DELETE", "/api/v1/session", headers=headers | plain).status_code == 403
            assert client.request("DELETE", "/api/v1/session", headers=headers).status_code == 204
    server.close()


def test_without_a_token_file_there_is_a_token_for_one_run(tmp_path: Path) -> None:
    config = ConsoleConfig(listen="127.0.0.1:0", data=tmp_path)
    with ConsoleServer(config, source=Still(), domain="plant") as server:
        assert server.login_url == f"{server.url}/#token={server.token}"
        with httpx.Client(base_url=server.url, timeout=30.0) as client:
            headers = {"Authorization": f"Bearer {server.token}"}
            assert client.get("/api/v1/session", headers=headers).json()["role"] == "admin"
            assert client.get("/api/v1/tokens", headers=headers).status_code == 404
            assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
