"""Every page and every act of the console, in a browser, against a real domain."""

import http.server
import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from console_world import DOMAIN, EDGE, Open, World, wait_until

from shoal.processes.daemon import DaemonProcess

PAGES = {
    "map": "Map",
    "topics": "Topics",
    "queues": "Queues",
    "subscriptions": "Subscriptions",
    "stores": "Stores",
    "history": "History",
    "daemons": "Daemons",
    "alarms": "Alarms",
    "tokens": "Tokens",
    "audit": "Audit",
}
AXE = "axe_playwright_python"


def axe_script() -> str:
    module = pytest.importorskip(AXE)
    return next(Path(module.__file__).parent.rglob("axe.min.js")).read_text(encoding="utf-8")


def findings(page: Any) -> list[str]:
    """What axe finds that is serious or worse."""
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


def test_every_page_shows_and_has_no_serious_finding_of_axe(open_page: Open) -> None:
    script = axe_script()
    page = open_page("admin")
    # The strict policy lets no page add scripts; the browser's own tools may.
    page.evaluate(script)
    for name, title in PAGES.items():
        page.evaluate(f"location.hash = '/{name}'")
        page.wait_for_selector(f"h1:text-is('{title}')")
        if name in ("topics", "queues", "subscriptions", "stores"):
            page.locator("tbody tr[data-key]").first.click()
            page.wait_for_selector(".side")
        assert findings(page) == [], name


def test_dark_and_narrow_pages_are_readable_too(open_page: Open) -> None:
    script = axe_script()
    page = open_page("operator", viewport={"width": 375, "height": 740}, color_scheme="dark")
    page.evaluate(script)
    for name in ("map", "queues", "history", "alarms"):
        page.evaluate(f"location.hash = '/{name}'")
        page.wait_for_selector(f"h1:text-is('{PAGES[name]}')")
        assert findings(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, (
            f"{name} is wider than the screen"
        )


def test_a_wrong_token_is_told_and_a_right_one_logs_in_and_out(world: World, open_page: Open) -> None:
    page = open_page(None)
    page.fill("input[name=token]", "shoal-token-1:one-viewer:nothing")
    page.click("text=Log in")
    page.wait_for_selector("[role=alert]:has-text('unknown')")
    page.fill("input[name=token]", world.tokens["viewer"].text)
    page.click("text=Log in")
    page.wait_for_selector(".who:has-text('one-viewer')")
    assert "token" not in page.url
    page.click("text=Log out")
    page.wait_for_selector("input[name=token]")
    page.reload()
    page.wait_for_selector("input[name=token]")


def test_a_viewer_can_look_but_not_purge(world: World, open_page: Open) -> None:
    page = open_page("viewer", "queues?at=store%2Fbilling")
    page.wait_for_selector("[data-act=purge]:disabled")
    answer = page.evaluate(
        """async () => {
          const { session } = await import("/static/api.js");
          const body = JSON.stringify({ name: "billing", confirm: "billing" });
          const answer = await fetch("/api/v1/queues/purge", { method: "POST", body,
            headers: { "Content-Type": "application/json", "X-Shoal-CSRF": session.csrf } });
          return answer.status;
        }"""
    )
    assert answer == 403
    assert len(list(world.bus.queue("billing").browse())) == 5
    assert page.locator("nav >> text=Audit").count() == 0


def test_dead_letters_are_browsed_and_moved_back_and_a_queue_is_purged(world: World, open_page: Open) -> None:
    page = open_page("operator", "queues?at=store%2Forders-dead")
    page.click("[data-browse]")
    page.wait_for_selector(".message >> nth=2")
    page.locator(".message summary").first.click()
    page.wait_for_selector("dd:has-text('orders')")
    page.click("[data-act=move]")
    wait_until(lambda: page.locator("input[name=to]").input_value() == "orders")
    page.click("dialog button.main")
    page.wait_for_selector(".toast:has-text('3 messages moved to orders')")
    page.evaluate("location.hash = '/queues?at=store%2Forders'")
    page.click("[data-act=purge]")
    assert page.locator("dialog button.main").is_disabled()
    page.fill("[data-confirm]", "orders")
    page.click("dialog button.main")
    page.wait_for_selector(".toast:has-text('3 messages dropped')")
    assert not list(world.bus.queue("orders").browse())


def test_a_message_is_published_and_seen_live(world: World, open_page: Open) -> None:
    page = open_page("operator", "topics?at=prices%2FEURUSD")
    page.click("[data-watch]")
    page.wait_for_selector(".message:has-text('bid')")
    heard = world.bus.subscribe("hello/*")
    page.click("[data-publish]")
    page.fill("dialog input[name=topic]", "hello/world")
    page.fill("dialog textarea[name=body]", "<script>alert(1)</script>")
    page.click("dialog button.main")
    page.wait_for_selector(".toast:has-text('Published to hello/world')")
    message = heard.receive(5.0)
    assert message is not None
    assert message.body == "<script>alert(1)</script>"
    heard.close()


def test_markup_in_a_body_is_shown_as_text(world: World, open_page: Open) -> None:
    world.bus.queue("markup").send("<img src=x onerror=\"document.title='owned'\">")
    page = open_page("viewer", "queues?at=store%2Fmarkup")
    page.click("[data-browse]")
    page.wait_for_selector(".message:has-text('<img src=x')")
    assert page.locator(".message img").count() == 0
    assert "owned" not in page.title()


def test_a_durable_subscription_is_removed(world: World, open_page: Open) -> None:
    page = open_page("operator", "subscriptions")
    page.click("tr:has-text('audit')")
    page.click("[data-act=unsubscribe]")
    page.fill("[data-confirm]", "audit")
    page.click("dialog button.main")
    page.wait_for_selector(".toast:has-text('audit is deleted')")
    page.wait_for_selector("tr:has-text('audit')", state="detached")


def test_history_is_searched_charted_and_exported(world: World, open_page: Open, tmp_path: Path) -> None:
    page = open_page("operator", "history?patterns=prices%2F%3E")
    page.wait_for_selector(".message:has-text('prices/EURUSD')")
    page.wait_for_selector("figure canvas")
    with page.expect_download() as download:
        page.click("[data-export]")
    download.value.save_as(tmp_path / "day.parquet")
    table = pq.read_table(tmp_path / "day.parquet")
    assert table.num_rows > 0
    assert set(table.column("topic").to_pylist()) == {"prices/EURUSD"}


def look_period_s(world: World) -> float:
    """The time between two looks of the console now: a second, or more on a busy machine."""
    times = [at for at, *_ in list(world.server._console.picture.series)[-8:]]
    return max(1.0, *(later - earlier for earlier, later in itertools.pairwise(times)))


def test_a_daemon_that_is_killed_shows_within_three_seconds(world: World, open_page: Open) -> None:
    page = open_page("viewer", "map")
    page.wait_for_selector(".tile")
    with DaemonProcess(EDGE.format(domain=DOMAIN).replace('"edge"', '"victim"')) as victim:
        page.wait_for_selector("[data-node=victim][data-state=up]")
        victim._process.kill()
        killed = time.monotonic()
        page.wait_for_selector("[data-node=victim].bad")
        took_s = time.monotonic() - killed
    # A look takes a second; on a busy machine it takes longer.
    assert took_s <= 3.0 * look_period_s(world)
    page.wait_for_selector(".badge")


def test_a_daemon_is_started_and_stopped_through_its_host(world: World, open_page: Open) -> None:
    page = open_page("admin", "daemons")
    row = page.locator("tr[data-daemon=edge]")
    row.locator("[data-order=start]").click()
    page.wait_for_selector(".toast:has-text('edge: started')")
    page.wait_for_selector("tr[data-key]:has-text('edge')")
    row.locator("button:text-is('Log')").click()
    page.wait_for_selector(".log:has-text('is ready')")
    page.click("[data-close]")
    row.locator("[data-order=stop]").click()
    page.fill("[data-confirm]", "edge")
    page.click("dialog button.main")
    page.wait_for_selector(".toast:has-text('edge: stopped')")
    row.locator("text=ended with 0").wait_for()


def test_tokens_are_made_once_and_revoked_and_all_of_it_is_audited(world: World, open_page: Open) -> None:
    page = open_page("admin", "tokens")
    page.click("[data-new]")
    page.fill("input[name=principal]", "bob")
    page.click("dialog button.main:text-is('Make')")
    token = page.locator("[data-token]").text_content()
    assert token.startswith("shoal-token-1:bob:")
    page.click("text=Done")
    bob = open_page(None)
    # A new address, and not a place of the page that is there.
    bob.goto("about:blank")
    bob.goto(f"{world.url}/#token={token}")
    bob.wait_for_selector(".who:has-text('bob')")
    page.locator("tr[data-principal=bob] button").click()
    page.fill("[data-confirm]", "bob")
    page.click("dialog button.main")
    page.wait_for_selector("tr[data-principal=bob]", state="detached")
    bob.reload()
    bob.wait_for_selector("input[name=token]")
    page.evaluate("location.hash = '/audit'")
    page.wait_for_selector("td:text-is('token revoke')")
    page.click("[data-verify]")
    page.wait_for_selector("text=The chain is whole")


def test_an_alarm_is_acknowledged(world: World, open_page: Open) -> None:
    world.bus.queue("failing", dead_letter="failing-dead")
    world.bus.queue("failing-dead").send("given up")
    page = open_page("operator", "alarms")
    row = page.locator("tr[data-alarm='dead:store/failing-dead']")
    world.bus.queue("failing").send("x")
    row.locator("[data-acknowledge]").click()
    row.wait_for(state="detached")
    page.click("text=also those that are over or known")
    row.locator("text=known to one-operator").wait_for()


def test_the_keyboard_is_enough(open_page: Open) -> None:
    page = open_page("operator", "map")
    page.wait_for_selector(".tile")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_selector("h1:text-is('Queues')")
    page.wait_for_selector("tr[data-key]")
    page.keyboard.press("/")
    page.keyboard.type("billing")
    page.wait_for_selector("tbody tr[data-key]:only-child")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.key ?? ''"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".side h2:text-is('billing')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".side", state="detached")
    page.keyboard.press("?")
    page.wait_for_selector("dialog:has-text('Keys')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


class _Evil(http.server.BaseHTTPRequestHandler):
    target = ""

    def do_GET(self) -> None:
        body = f"""<!doctype html><title>evil</title>
<form id=f method=post enctype="text/plain" action="{self.target}/api/v1/queues/purge">
<input name='{{"name":"billing","confirm":"billing","x":"' value='"}}'></form>
<iframe src="{self.target}"></iframe>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_page_of_another_origin_can_neither_act_nor_read_nor_frame(world: World, open_page: Open) -> None:
    page = open_page("operator", "queues")
    page.wait_for_selector("tr[data-key]")
    handler = type("Handler", (_Evil,), {"target": world.url})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The same browser, with the session's cookie; another port is the same site, so SameSite lets it pass.
    evil = page.context.new_page()
    evil.goto(f"http://127.0.0.1:{server.server_port}/")
    tried = evil.evaluate(
        """async (target) => {
          const body = JSON.stringify({ name: "billing", confirm: "billing" });
          const results = [];
          for (const options of [
            { method: "POST", body, credentials: "include", headers: { "Content-Type": "application/json" } },
            { method: "POST", body, credentials: "include", mode: "no-cors" },
            { credentials: "include" },
          ]) {
            try {
              const got = await fetch(target + "/api/v1/queues/purge", options);
              results.push(got.type);
            } catch { results.push("blocked"); }
          }
          return results;
        }""",
        world.url,
    )
    assert tried == ["blocked"] * 3
    with evil.expect_navigation():
        evil.evaluate("document.getElementById('f').submit()")
    assert json.loads(evil.inner_text("body"))["detail"] == "Send application/json."
    assert len(list(world.bus.queue("billing").browse())) == 5
    evil.close()
    server.shutdown()
    server.server_close()
