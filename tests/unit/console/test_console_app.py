"""Who may do what over HTTP: roles, sessions, other origins, other hosts, and the audit log of all of it."""

import asyncio
import json
from typing import Any

import pytest
from console_desk import COOKIE, HOST, ORIGIN, Desk

from shoal.config.tokens import Token, read_principals, write_principals
from shoal.console.access import Caller
from shoal.console.guard import BODY_BYTES_MAX
from shoal.console.look import Look
from shoal.console.routes import live
from shoal.console.sessions import REFUSALS_MAX

PURGE: dict[str, Any] = {"name": "orders", "confirm": "orders"}
#: Every act: its path, a body that is right, and the least role.
ACTS: dict[str, tuple[dict[str, Any], str]] = {
    "topics/publish": ({"name": "a/b", "body": "x"}, "operator"),
    "queues/send": ({"name": "orders", "body": "x"}, "operator"),
    "queues/move": ({"name": "orders", "to": "other"}, "operator"),
    "queues/purge": (PURGE, "operator"),
    "queues/delete": (PURGE, "operator"),
    "queues/release": ({"name": "job"}, "operator"),
    "subscriptions/unsubscribe": ({"name": "audit", "confirm": "audit"}, "operator"),
    "alarms/acknowledge": ({"key": "none"}, "operator"),
    "hosts/order": ({"host": "h", "daemon": "d", "order": "start"}, "admin"),
    "tokens/new": ({"principal": "bob"}, "admin"),
    "tokens/revoke": ({"principal": "one-client", "confirm": "one-client"}, "admin"),
}
READS = {"state": "viewer", "series": "viewer", "session": "viewer", "tokens": "admin", "audit": "admin"}
RANKS = {"client": -1, "daemon": -1, "viewer": 0, "operator": 1, "admin": 2}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("role", RANKS)
def test_an_act_needs_its_role_and_is_noted_either_way(desk: Desk, act: str, role: str) -> None:
    body, least = ACTS[act]
    answer = desk.as_program(role, "POST", f"/api/v1/{act}", json=body)
    (*_, noted) = desk.audit() or [{}]
    if RANKS[role] < RANKS[least]:
        assert answer.status_code == 403
        assert noted["result"].startswith("refused")
        assert (noted["who"], noted["act"]) == (f"one-{role}", act)
        assert not desk.acts.done
    else:
        # There is no such alarm, and no host.
        assert answer.status_code == {"alarms/acknowledge": 404, "hosts/order": 503}.get(act, 200), (
            answer.text
        )
        if answer.status_code == 200:
            assert (noted["result"], noted["who"]) == ("done", f"one-{role}")


@pytest.mark.parametrize("path", READS)
def test_looking_needs_a_token_and_the_role(desk: Desk, path: str) -> None:
    assert desk.call("GET", f"/api/v1/{path}").status_code == 401
    for role, rank in RANKS.items():
        answer = desk.as_program(role, "GET", f"/api/v1/{path}")
        assert answer.status_code == (200 if rank >= RANKS[READS[path]] else 403)


def test_a_browser_acts_with_its_cookie_its_csrf_value_and_its_own_origin(desk: Desk) -> None:
    cookie, csrf = desk.browser("operator")
    right = {"Cookie": f"{COOKIE}={cookie}", "Origin": ORIGIN, "X-Shoal-CSRF": csrf}
    wrong: list[tuple[dict[str, str], int]] = [
        (right | {"Origin": "http://evil.example"}, 403),
        (right | {"Origin": "https://" + HOST}, 403),
        (right | {"Origin": "null"}, 403),
        ({name: value for name, value in right.items() if name != "Origin"}, 403),
        ({name: value for name, value in right.items() if name != "X-Shoal-CSRF"}, 403),
        (right | {"X-Shoal-CSRF": "x" * len(csrf)}, 403),
        (right | {"Cookie": f"{COOKIE}=nobody"}, 401),
        ({"Origin": ORIGIN, "X-Shoal-CSRF": csrf}, 401),
    ]
    for headers, status in wrong:
        assert desk.call("POST", "/api/v1/queues/purge", json=PURGE, headers=headers).status_code == status
    plain = right | {"Content-Type": "text/plain"}
    assert (
        desk.call("POST", "/api/v1/queues/purge", content=json.dumps(PURGE), headers=plain).status_code == 415
    )
    assert not desk.acts.done
    assert desk.call("POST", "/api/v1/queues/purge", json=PURGE, headers=right).json() == {"messages": 3}
    assert desk.acts.done == [("purge", "orders", None)]
    noted = [entry["result"].partition(":")[0] for entry in desk.audit()]
    assert noted == ["done", *["refused"] * 7, "begun", "done"]
    assert desk.audit()[-2]["before"] == 3
    assert desk.audit()[-1]["of"] == desk.audit()[-2]["n"]


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(desk: Desk) -> None:
    answer = desk.call("POST", "/api/v1/session", json={"token": desk.tokens["viewer"].text})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie


def test_a_session_over_tls_has_a_host_cookie() -> None:
    from shoal.console.access import Access, OneToken, cookie_name

    name = cookie_name(443, is_tls=True)
    assert name.startswith("__Host-")
    assert Access(OneToken(), name, is_tls=True).cookie_options()["secure"]


def test_five_failed_logins_have_to_wait_and_a_right_token_too(desk: Desk) -> None:
    wrong = {"token": Token.new("one-viewer").text}
    for _ in range(5):
        assert desk.call("POST", "/api/v1/session", json=wrong).status_code == 401
    right = {"token": desk.tokens["viewer"].text}
    refused = desk.call("POST", "/api/v1/session", json=right)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 50
    assert desk.as_program("viewer", "GET", "/api/v1/state").status_code == 429


def test_refused_acts_fill_the_audit_log_only_so_far(desk: Desk) -> None:
    answers = [
        desk.as_program("viewer", "POST", "/api/v1/queues/purge", json=PURGE).status_code
        for _ in range(REFUSALS_MAX + 5)
    ]
    assert answers == [403] * REFUSALS_MAX + [429] * 5
    assert len(desk.audit()) == REFUSALS_MAX
    # It may look, and others may act.
    assert desk.as_program("viewer", "GET", "/api/v1/state").status_code == 200
    assert desk.as_program("operator", "POST", "/api/v1/queues/purge", json=PURGE).status_code == 200


def test_clients_and_daemons_have_no_use_for_a_console(desk: Desk) -> None:
    for role in ("client", "daemon"):
        answer = desk.call("POST", "/api/v1/session", json={"token": desk.tokens[role].text})
        assert answer.status_code == 403


def test_a_login_from_another_page_is_refused(desk: Desk) -> None:
    headers = {"Origin": "http://evil.example"}
    token = {"token": desk.tokens["viewer"].text}
    assert desk.call("POST", "/api/v1/session", json=token, headers=headers).status_code == 403


def test_logging_out_ends_the_session(desk: Desk) -> None:
    cookie, csrf = desk.browser("viewer")
    headers = {"Cookie": f"{COOKIE}={cookie}", "Origin": ORIGIN, "X-Shoal-CSRF": csrf}
    assert desk.call("GET", "/api/v1/session", headers=headers).json()["principal"] == "one-viewer"
    headers["Content-Type"] = "application/json"
    assert desk.call("DELETE", "/api/v1/session", headers=headers).status_code == 204
    assert desk.call("GET", "/api/v1/session", headers=headers).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:7481.evil.example", ""]
)
def test_a_request_for_another_host_is_refused(desk: Desk, host: str) -> None:
    assert desk.call("GET", "/", headers={"Host": host}).status_code == 421


def test_long_bodies_are_refused(desk: Desk) -> None:
    body = json.dumps({"name": "a", "body": "x" * BODY_BYTES_MAX})
    headers = {"Content-Type": "application/json"}
    answer = desk.as_program("operator", "POST", "/api/v1/topics/publish", content=body, headers=headers)
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/v1/state", "/nothing", "/static/../app.py"])
def test_every_answer_has_the_headers_that_browsers_obey(desk: Desk, path: str) -> None:
    answer = desk.call("GET", path)
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")


def test_what_loses_something_has_to_be_typed(desk: Desk) -> None:
    for act in ("queues/purge", "queues/delete", "subscriptions/unsubscribe"):
        for typed in ("", "order", "Orders"):
            answer = desk.as_program(
                "operator", "POST", f"/api/v1/{act}", json={"name": "orders", "confirm": typed}
            )
            assert answer.status_code == 409
    assert not desk.acts.done


def test_an_act_that_fails_says_why_and_is_noted(desk: Desk) -> None:
    for name, status in (("missing", 404), ("busy", 409)):
        body = {"name": name, "confirm": name}
        answer = desk.as_program("operator", "POST", "/api/v1/queues/delete", json=body)
        assert answer.status_code == status
        assert name in answer.json()["detail"]
        assert desk.audit()[-1]["result"].startswith("failed")


def test_a_new_token_works_at_once_and_a_revoked_one_no_more(desk: Desk) -> None:
    body = {"principal": "bob", "role": "viewer"}
    made = desk.as_program("admin", "POST", "/api/v1/tokens/new", json=body).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert desk.call("GET", "/api/v1/state", headers=headers).status_code == 200
    assert desk.as_program("admin", "POST", "/api/v1/tokens/new", json=body).status_code == 409
    assert made["token"] not in (desk.path / "tokens").read_text()
    assert made["token"] not in (desk.path / "audit.jsonl").read_text()
    cookie, _ = desk.browser("operator")
    for principal in ("bob", "one-operator"):
        revoke = {"principal": principal, "confirm": principal}
        assert desk.as_program("admin", "POST", "/api/v1/tokens/revoke", json=revoke).status_code == 200
    assert desk.call("GET", "/api/v1/state", headers=headers).status_code == 401
    assert desk.call("GET", "/api/v1/state", headers={"Cookie": f"{COOKIE}={cookie}"}).status_code == 401
    own = {"principal": "one-admin", "confirm": "one-admin"}
    assert desk.as_program("admin", "POST", "/api/v1/tokens/revoke", json=own).status_code == 409


def test_a_token_ends_with_its_last_day(desk: Desk) -> None:
    made = {}
    for day in ("2020-01-31", "2999-01-31"):
        body = {"principal": f"until-{day}", "expires": day}
        made[day] = desk.as_program("admin", "POST", "/api/v1/tokens/new", json=body).json()["token"]
    statuses = [
        desk.call("GET", "/api/v1/state", headers={"Authorization": f"Bearer {token}"}).status_code
        for token in made.values()
    ]
    assert statuses == [401, 200]
    listed = desk.as_program("admin", "GET", "/api/v1/tokens").json()["principals"]
    assert [each["expired"] for each in listed if each["expires"]] == [True, False]
    wrong = {"principal": "x", "expires": "2020-13-41"}
    assert desk.as_program("admin", "POST", "/api/v1/tokens/new", json=wrong).status_code == 400


def test_the_stream_begins_with_whole_tables_and_resumes_by_id(desk: Desk) -> None:
    answer = desk.as_program("viewer", "GET", "/api/v1/events?tables=queues&once=true")
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = dict(line.split(": ", 1) for line in answer.text.splitlines() if ": " in line)
    assert lines["id"] == desk.console.picture.state.id
    told = json.loads(lines["data"])
    assert told["whole"]
    assert list(told["tables"]["queues"]["set"]) == ["main/orders"]
    again = desk.as_program(
        "viewer", "GET", "/api/v1/events?tables=queues&once=true", headers={"Last-Event-ID": lines["id"]}
    )
    assert "data" not in again.text
    assert desk.console.viewers == 0
    assert desk.as_program("viewer", "GET", "/api/v1/events?tables=secrets").status_code == 400


@pytest.mark.parametrize("how", ["token", "session"])
def test_a_stream_ends_when_its_viewer_may_not_look_any_more(desk: Desk, how: str) -> None:
    access, file = desk.console.parts.access, desk.path / "tokens"
    principals = read_principals(file)
    viewer = next(each for each in principals if each.role == "viewer")
    session = access.sessions.begin(access._clock(), viewer) if how == "session" else None
    caller = Caller(viewer, "127.0.0.1", session)

    async def read() -> list[str]:
        told = []
        async for text in live._events(desk.console, caller, ("queues",), "", False):
            told.append(text)
            if text.startswith("event"):
                write_principals(file, [each for each in principals if each is not viewer])
                access.tokens.refresh()
                queues = [{"queue": "orders", "messages": 4}]
                desk.console.picture.update(Look(at_s=1e6, wall_s=1e9, stores={"main": {"queues": queues}}))
        return told

    told = asyncio.run(asyncio.wait_for(read(), 10.0))
    assert sum(text.startswith("event") for text in told) == 1


def test_more_viewers_than_there_may_be_are_refused(desk: Desk) -> None:
    desk.console.viewers = 64
    assert desk.as_program("viewer", "GET", "/api/v1/events?once=true").status_code == 503


def test_an_audit_log_that_cannot_be_written_refuses_acts(desk: Desk) -> None:
    with (desk.path / "audit.jsonl").open("rb") as readable:
        writable, desk.console.parts.audit._file = desk.console.parts.audit._file, readable
        answer = desk.as_program("operator", "POST", "/api/v1/queues/purge", json=PURGE)
        desk.console.parts.audit._file = writable
        assert answer.status_code == 503
        assert "audit log" in answer.json()["detail"]
    assert not desk.acts.done


def test_the_audit_page_verifies_the_chain(desk: Desk) -> None:
    desk.browser("viewer")
    assert desk.as_program("admin", "GET", "/api/v1/audit/verify").json()["whole"]
    path = desk.path / "audit.jsonl"
    path.write_text(path.read_text().replace("one-viewer", "one-nobody"))
    verdict = desk.as_program("admin", "GET", "/api/v1/audit/verify").json()
    assert (verdict["whole"], verdict["wrong_line"]) == (False, 1)
