import asyncio
import contextlib
import json
import random
import ssl

import pytest
from place import place

from shoal.config.tokens import Principal, Token, write_principals
from shoal.gateway import server
from shoal.gateway.frames import encode

JSON = "application/json"


def test_a_client_and_a_program_of_the_bus_exchange_messages():
    async def main():
        async with place() as here, here.client() as client:
            prices = here.bus.subscribe("prices/*")
            await client.done("SUBSCRIBE", id="1", destination="/topic/prices/*", selector="region = 'EU'")
            for region in ("US", "EU"):
                await client.done(
                    "SEND",
                    json.dumps({"bid": 1.5}).encode(),
                    destination="/topic/prices/ACME",
                    content_type=JSON,
                    region=region,
                    shoal_types="n=i",
                    n="3",
                    priority="7",
                )
            message = await client.message()
            assert message.headers["region"] == "EU"
            assert json.loads(message.body) == {"bid": 1.5}
            first, second = await prices.receive(), await prices.receive()
            assert (first.body, first.properties, first.priority) == (
                {"bid": 1.5},
                {"region": "US", "n": 3},
                7,
            )
            assert second.properties["region"] == "EU"
            await here.bus.publish("prices/X", "text", properties={"region": "EU"})
            message = await client.message()
            assert (message.body, message.headers["content-type"]) == (b"text", "text/plain")
            assert message.headers["destination"] == "/topic/prices/X"
            await client.done("UNSUBSCRIBE", id="1")
            await here.bus.publish("prices/X", "text", properties={"region": "EU"})
            assert await client.nothing()
            await client.done("DISCONNECT")
            assert await client.closed()

    asyncio.run(main())


def test_queues_deliver_what_was_kept_and_acknowledged_messages_do_not_come_again(tmp_path):
    async def main():
        async with place(tmp_path) as here, here.client() as client:
            for number in range(3):
                await client.done("SEND", b"%d" % number, destination="/queue/orders", persistent="true")
            await client.done("SUBSCRIBE", id="1", destination="/queue/orders", ack="client-individual")
            got = [await client.message() for _ in range(3)]
            assert [frame.body for frame in got] == [b"0", b"1", b"2"]
            assert got[0].headers["destination"] == "/queue/orders"
            await client.done("ACK", id=got[1].headers["ack"])
            async with here.client() as other:
                await other.done("SUBSCRIBE", id="1", destination="/queue/orders", ack="client")
                await client.done("DISCONNECT")
                again = [await other.message() for _ in range(2)]
                assert sorted(frame.body for frame in again) == [b"0", b"2"]
                assert all(frame.headers["redelivered"] == "true" for frame in again)
                # Cumulative: the last acknowledges the first.
                await other.done("ACK", id=again[-1].headers["ack"])
                await other.done("DISCONNECT")
            queue = here.bus.queue("orders")
            assert await queue.receive(0.3) is None

    asyncio.run(main())


def test_automatic_acknowledgement_takes_messages_from_the_queue(tmp_path):
    async def main():
        async with place(tmp_path) as here, here.client() as client:
            await client.done("SUBSCRIBE", id="1", destination="/queue/q")
            for number in range(2500):
                client.send("SEND", b"%d" % number, destination="/queue/q")
            got = [await client.message() for _ in range(2500)]
            assert [frame.body for frame in got] == [b"%d" % number for number in range(2500)]
            assert "ack" not in got[0].headers
            await asyncio.sleep(0.3)
            await client.done("DISCONNECT")
            assert [message async for message in here.bus.queue("q").browse()] == []

    asyncio.run(main())


def test_credit_bounds_what_a_client_has_and_leaves_the_rest_to_others(tmp_path):
    async def main():
        async with place(tmp_path) as here, here.client() as one, here.client() as other:
            mode = {"destination": "/queue/work", "ack": "client-individual", "prefetch_count": "1"}
            await one.done("SUBSCRIBE", id="1", **mode)
            await other.done("SUBSCRIBE", id="1", **mode)
            for number in range(4):
                await one.done("SEND", b"%d" % number, destination="/queue/work")
            first, second = await one.message(), await other.message()
            assert {first.body, second.body} == {b"0", b"1"}
            assert await one.nothing()
            for _ in range(2):
                await other.done("ACK", id=second.headers["ack"])
                second = await other.message()
            assert second.body == b"3"

    asyncio.run(main())


def test_nack_gives_back_and_dead_letters_are_put_aside(tmp_path):
    async def main():
        async with place(tmp_path) as here, here.client() as client:
            await client.done("SEND", b"x", destination="/queue/q", persistent="true")
            await client.done("SUBSCRIBE", id="1", destination="/queue/q", ack="client-individual")
            message = await client.message()
            await client.done("NACK", id=message.headers["ack"])
            message = await client.message()
            assert message.headers["redelivered"] == "true"
            assert message.headers["shoal-delivery-count"] == "2"
            await client.done("NACK", id=message.headers["ack"], shoal_dead="true")
            assert await client.nothing()
            await client.done("SUBSCRIBE", id="2", destination="/queue/dead-letters", browser="true")
            dead = await client.message()
            assert dead.body == b"x"
            assert (await client.message()).headers["browser"] == "end"

    asyncio.run(main())


def test_a_durable_subscription_collects_while_its_client_is_away(tmp_path):
    async def main():
        async with place(tmp_path) as here:
            durable = {"id": "d", "destination": "/topic/news", "durable_subscription_name": "all"}
            async with here.client(client_id="desk") as client:
                await client.done("SUBSCRIBE", ack="client", **durable)
                await client.done("DISCONNECT")
            await here.bus.publish("news", "a", persistent=True)
            async with here.client(client_id="desk") as client:
                await client.done("SUBSCRIBE", ack="client", **durable)
                message = await client.message()
                assert (message.body, message.headers["destination"]) == (b"a", "/topic/news")
                await client.done("ACK", id=message.headers["ack"])
                await client.done("UNSUBSCRIBE", id="d", durable_subscription_name="all")
            await here.bus.publish("news", "b", persistent=True)
            async with here.client(client_id="desk") as client:
                await client.done("SUBSCRIBE", ack="client", **durable)
                assert await client.nothing()

    asyncio.run(main())


def test_transactions_do_all_or_nothing(tmp_path):
    async def main():
        async with place(tmp_path) as here, here.client() as client:
            await client.done("SEND", b"in", destination="/queue/in", persistent="true")
            await client.done("SUBSCRIBE", id="1", destination="/queue/in", ack="client-individual")
            await client.done("SUBSCRIBE", id="2", destination="/queue/out", ack="client-individual")
            await client.done("SUBSCRIBE", id="3", destination="/topic/told")
            message = await client.message()
            for outcome in ("ABORT", "COMMIT"):
                await client.done("BEGIN", transaction="t")
                await client.done("ACK", id=message.headers["ack"], transaction="t")
                await client.done(
                    "SEND", b"out", destination="/queue/out", persistent="true", transaction="t"
                )
                await client.done(
                    "SEND", b"told", destination="/topic/told", persistent="true", transaction="t"
                )
                assert not [frame for frame in client.frames if frame.command == "MESSAGE"]
                await client.done(outcome, transaction="t")
                if outcome == "ABORT":
                    message = await client.message()
                    assert (message.body, message.headers["redelivered"]) == (b"in", "true")
            got = {(await client.message()).body, (await client.message()).body}
            assert got == {b"out", b"told"}
            assert [each async for each in here.bus.queue("in").browse()] == []
            frame = await client.call("COMMIT", transaction="t")
            assert (frame.command, "BEGIN" in frame.headers["message"]) == ("ERROR", True)

    asyncio.run(main())


def test_requests_are_answered_over_temporary_destinations():
    async def main():
        async with place() as here, here.client() as client, here.client() as service:

            async def double(message):
                await message.reply(message.body * 2)

            here.bus.subscribe("double", double)
            await client.done("SUBSCRIBE", id="r", destination="/temp-queue/answers")
            await client.done(
                "SEND",
                b"21",
                destination="/topic/double",
                reply_to="/temp-queue/answers",
                correlation_id="7",
                content_type=JSON,
            )
            answer = await client.message()
            assert (answer.body, answer.headers["correlation-id"]) == (b"42", "7")
            assert answer.headers["destination"] == "/temp-queue/answers"
            # The other way round: a STOMP client answers a program of the bus.
            await service.done("SUBSCRIBE", id="s", destination="/topic/ask")
            asked = asyncio.create_task(here.bus.request("ask", "how?"))
            question = await service.message()
            service.send(
                "SEND",
                b"so",
                destination=question.headers["reply-to"],
                correlation_id=question.headers["correlation-id"],
                content_type="text/plain",
            )
            assert (await asked).body == "so"

    asyncio.run(main())


def test_no_local_leaves_out_what_the_connection_itself_sent():
    async def main():
        async with place() as here, here.client() as client, here.client() as other:
            await client.done("SUBSCRIBE", id="1", destination="/topic/t", no_local="true")
            await client.done("SEND", b"own", destination="/topic/t")
            await other.done("SEND", b"other", destination="/topic/t")
            await here.bus.publish("t", b"bus")
            assert [(await client.message()).body for _ in range(2)] == [b"other", b"bus"]

    asyncio.run(main())


def test_a_repeated_message_is_stored_once(tmp_path):
    async def main():
        async with place(tmp_path) as here:
            live = here.bus.subscribe("news")

            def numbered(number: int, **more: str) -> dict[str, str]:
                return {
                    "destination": "/topic/news",
                    "persistent": "true",
                    "shoal_id": str(number),
                    "content_type": "text/plain",
                    **more,
                }

            durable = {"id": "d", "destination": "/topic/news", "durable_subscription_name": "all"}
            async with here.client(client_id="desk") as reader:
                await reader.done("SUBSCRIBE", **durable)
                async with here.client(shoal_publisher="p-1") as client:
                    await client.done("SEND", b"1", **numbered(1))
                    await client.done("SEND", b"2", **numbered(2))
                    await client.done("SEND", b"2", **numbered(2))
                async with here.client(shoal_publisher="p-1") as client:
                    await client.done("SEND", b"2", **numbered(2, shoal_repeat="true"))
                    await client.done("SEND", b"5", **numbered(5))
                async with here.client(shoal_publisher="p-2") as client:
                    await client.done("SEND", b"other", **numbered(1))
                got = [(await reader.message()).body for _ in range(4)]
                assert got == [b"1", b"2", b"5", b"other"]
                assert await reader.nothing()
            assert [(await live.receive(5)).body for _ in range(4)] == ["1", "2", "5", "other"]
            assert await live.receive(0.2) is None

    asyncio.run(main())


def test_a_repeated_transaction_is_committed_once(tmp_path):
    async def main():
        async with place(tmp_path) as here:
            for _ in range(2):
                async with here.client(shoal_publisher="p-1") as client:
                    await client.done("BEGIN", transaction="t", shoal_id="1")
                    await client.done(
                        "SEND", b"x", destination="/queue/q", persistent="true", transaction="t"
                    )
                    await client.done("COMMIT", transaction="t")
            assert len([each async for each in here.bus.queue("q").browse()]) == 1

    asyncio.run(main())


def test_a_client_shows_a_token_and_rules_bind_it(tmp_path):
    async def main():
        token, operator, viewer = Token.new("ann"), Token.new("root"), Token.new("eve")
        roles = {token: "client", operator: "operator", viewer: "viewer"}
        principals = [Principal(each.principal, role, each.verifier) for each, role in roles.items()]
        write_principals(tmp_path / "tokens", principals)
        (tmp_path / "rules.toml").write_text(
            '[[rule]]\nprincipals = ["ann"]\nactions = ["publish", "subscribe"]\ntopics = ["open/>"]\n'
            '[[quota]]\nname = "few"\nprincipals = ["ann"]\nconnections = 2\n'
        )
        config = {"tokens": tmp_path / "tokens", "access": tmp_path / "rules.toml"}
        async with place(**config) as here:
            wrong = (
                {},
                {"passcode": "x"},
                {"passcode": viewer.text},
                {"passcode": token.text, "login": "bob"},
            )
            for headers in wrong:
                client = here.client(**headers)
                await client.open()
                assert (await client.error()).headers["shoal-error"] == "JMSSecurityError"
                assert await client.closed()
            async with here.client(passcode=token.text, login="ann") as client:
                await client.done("SUBSCRIBE", id="1", destination="/topic/open/>")
                await client.done("SEND", destination="/topic/open/a")
                async with here.client(passcode=token.text):
                    third = here.client(passcode=token.text)
                    await third.open()
                    assert "few" in (await third.error()).headers["message"]
                    await third.close()
                frame = await client.call("SEND", destination="/topic/closed")
                assert frame.headers["message"] == (
                    f"'ann' may not publish closed: no rule of {tmp_path}/rules.toml allows it."
                )
            for command in (
                {"command": "SUBSCRIBE", "id": "1", "destination": "/topic/>"},
                {"command": "SUBSCRIBE", "id": "1", "destination": "/queue/open/a"},
                {"command": "SUBSCRIBE", "id": "1", "destination": "/queue/a", "browser": "true"},
            ):
                async with here.client(passcode=token.text) as client:
                    assert "may not" in (await client.call(**command)).headers["message"]
            async with here.client(passcode=operator.text) as client, here.client(passcode=token.text) as ann:
                await client.done("SEND", destination="/topic/closed")
                write_principals(tmp_path / "tokens", principals[1:])
                assert "removed" in (await ann.error()).headers["message"]
                await client.done("SEND", destination="/topic/closed")

    asyncio.run(main())


def test_what_a_client_may_not_do_is_an_error_with_the_reason():
    async def main():
        async with place() as here:
            cases = [
                ({"command": "SEND", "destination": "prices"}, "/topic/NAME"),
                ({"command": "SEND", "destination": "/topic/_store/here"}, "reserved"),
                ({"command": "SEND", "destination": "/topic/a/*"}, "wildcard"),
                ({"command": "SEND", "destination": "/topic/a", "JMSType": "x"}, "property"),
                ({"command": "SEND", "destination": "/topic/a", "shoal_delay": "5"}, "persistent"),
                ({"command": "SEND", "destination": "/topic/a", "transaction": "t"}, "BEGIN"),
                (
                    {"command": "SEND", "destination": "/topic/a", "persistent": "true", "shoal_id": "1"},
                    "shoal-publisher",
                ),
                ({"command": "SUBSCRIBE", "id": "1", "destination": "/topic/_store/who"}, "reserved"),
                ({"command": "SUBSCRIBE", "id": "1", "destination": "/queue/temporary/1/2"}, "temporary"),
                (
                    {"command": "SUBSCRIBE", "id": "1", "destination": "/topic/a", "selector": "a ="},
                    "selector",
                ),
                ({"command": "SUBSCRIBE", "id": "1", "destination": "/topic/a", "browser": "true"}, "queues"),
                (
                    {
                        "command": "SUBSCRIBE",
                        "id": "1",
                        "destination": "/topic/a",
                        "durable_subscription_name": "n",
                    },
                    "client-id",
                ),
                (
                    {"command": "SUBSCRIBE", "id": "1", "destination": "/queue/a", "no_local": "true"},
                    "no-local",
                ),
                ({"command": "UNSUBSCRIBE", "id": "1"}, "no subscription"),
                ({"command": "ACK", "id": "1-1"}, "acknowledged"),
                ({"command": "ABORT", "transaction": "t"}, "BEGIN"),
            ]
            for frame, why in cases:
                async with here.client() as client:
                    error = await client.call(**frame)
                    assert error.command == "ERROR", frame
                    assert why in error.headers["message"], (frame, error)
                    assert await client.closed()
            async with here.client() as client:
                await client.done("SUBSCRIBE", id="1", destination="/topic/a")
                assert (
                    "id"
                    in (await client.call("SUBSCRIBE", id="1", destination="/topic/b")).headers["message"]
                )
            assert here.gateway.status()["connections"] == 0

    asyncio.run(main())


def test_a_client_that_does_not_read_loses_the_oldest_messages_and_is_told(tmp_path):
    async def main():
        async with place() as here, here.client() as slow, here.client() as fast:
            await slow.done("SUBSCRIBE", id="1", destination="/topic/t")
            await fast.done("SUBSCRIBE", id="1", destination="/topic/t")
            # More than the gateway and both ends of the socket keep.
            for number in range(4000):
                await here.bus.publish("t", b"%06d" % number + bytes(8192))
                if number % 50 == 49:
                    read = [int((await fast.message()).body[:6]) for _ in range(50)]
                    assert read == list(range(number - 49, number + 1))
            got = []
            while not got or got[-1][0] < 3999:
                message = await slow.message()
                got.append((int(message.body[:6]), int(message.headers.get("shoal-dropped", "0"))))
            numbers = [number for number, _ in got]
            assert numbers == sorted(set(numbers))
            assert sum(dropped for _, dropped in got) == 4000 - len(got) > 0

    asyncio.run(main())


def test_a_queue_waits_for_a_client_that_does_not_read(tmp_path):
    async def main():
        async with place(tmp_path) as here, here.client() as slow:
            await slow.done("SUBSCRIBE", id="1", destination="/queue/q")
            for number in range(1500):
                await here.bus.queue("q").send(b"%06d" % number + bytes(8192), persistent=False, window=100)
            await here.bus.flush()
            await asyncio.sleep(0.5)
            waiting = len([each async for each in here.bus.queue("q").browse()])
            got = [int((await slow.message()).body[:6]) for _ in range(1500)]
            assert got == list(range(1500))
            assert waiting > 0, "all of it was in the gateway and the sockets"

    asyncio.run(main())


def test_a_client_id_moves_to_the_newer_connection(tmp_path):
    async def main():
        async with place(tmp_path) as here, here.client(client_id="desk") as older:
            durable = {"id": "d", "destination": "/topic/news", "durable_subscription_name": "all"}
            await older.done("SUBSCRIBE", **durable)
            async with here.client(client_id="desk") as newer:
                assert "took over" in (await older.error()).headers["message"]
                await newer.done("SUBSCRIBE", **durable)
                await here.bus.publish("news", "a", persistent=True)
                assert (await newer.message()).body == b"a"

    asyncio.run(main())


def test_the_gateway_refuses_more_connections_than_it_may_have():
    async def main():
        async with place(connections_max=2) as here, here.client(), here.client():
            third = here.client()
            await third.open()
            assert (await third.error()).headers["shoal-error"] == "Full"
            await third.close()

    asyncio.run(main())


def test_random_bytes_end_a_connection_and_leave_the_others_alone():
    async def main():
        rng = random.Random(7)
        frames = [
            encode("CONNECT", [("accept-version", "1.2")]),
            encode("SEND", [("destination", "/topic/a"), ("content-type", "application/json")], b"{"),
            encode("SUBSCRIBE", [("id", "1"), ("destination", "/topic/>")]),
            encode("SUBSCRIBE", [("id", "1"), ("destination", "/queue/q"), ("ack", "client")]),
            encode("ACK", [("id", "1-1")]),
            encode("BEGIN", [("transaction", "t")]),
            encode("UNSUBSCRIBE", [("id", "1")]),
            encode("DISCONNECT", [("receipt", "r")]),
            b"\n",
            b"\0",
        ]
        async with place(stomp=("tcp://127.0.0.1:0", "ws://127.0.0.1:0")) as here, here.client() as steady:
            await steady.done("SUBSCRIBE", id="1", destination="/topic/steady")
            for _ in range(150):
                port = int(rng.choice(here.gateway.urls).rpartition(":")[2].removesuffix("/stomp"))
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                for _ in range(rng.randrange(1, 8)):
                    data = bytearray(rng.choice(frames))
                    for _ in range(rng.choice((0, 0, 1, 5))):
                        data[rng.randrange(len(data))] = rng.randrange(256)
                    writer.write(data)
                if rng.random() < 0.5:
                    await asyncio.sleep(0.005)
                writer.transport.abort()
            await steady.done("SEND", b"x", destination="/topic/steady")
            assert (await steady.message()).body == b"x"
            async with asyncio.timeout(10):
                while here.gateway.status()["connections"] > 1:
                    await asyncio.sleep(0.01)

    asyncio.run(main())


def test_clients_connect_over_tls(tmp_path):
    pytest.importorskip("cryptography")
    from shoal.link.authority import make_self_signed

    async def main():
        make_self_signed(tmp_path / "gw.pem", tmp_path / "gw.key", "gw", ["127.0.0.1"], 1)
        config = {"tls_cert": tmp_path / "gw.pem", "tls_key": tmp_path / "gw.key"}
        async with place(stomp=("tls://127.0.0.1:0",), **config) as here:
            context = ssl.create_default_context(cafile=tmp_path / "gw.pem")
            port = int(here.gateway.urls[0].rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(encode("CONNECT", [("accept-version", "1.2")]))
            assert (await reader.readline()) == b"CONNECTED\n"
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    asyncio.run(main())


def test_long_frames_of_all_clients_together_are_bounded(monkeypatch):
    monkeypatch.setattr(server, "UNREAD_BYTES_MAX", 5 << 20)
    begun = encode("SEND", [("destination", "/topic/t")], bytes(4 << 20))

    async def main():
        async with place() as here, here.client() as first, here.client() as second:
            first.write(begun[: 3 << 20])
            await asyncio.sleep(0.1)
            second.write(begun[: 3 << 20])
            assert (await second.error()).headers["shoal-error"] == "Full"
            first.write(begun[3 << 20 :])
            await first.done("SUBSCRIBE", id="1", destination="/topic/t")
            async with here.client() as third:
                await third.done("SEND", bytes(4 << 20), destination="/topic/t")
            assert len((await first.message()).body) == 4 << 20

    asyncio.run(main())


@pytest.mark.parametrize(("persistent", "number"), [("false", False), ("true", False), ("true", True)])
def test_a_new_subscriber_gets_last_values_first(tmp_path, persistent, number):
    async def main():
        async with place(tmp_path) as here, here.client(shoal_publisher="p") as ticker:
            for bid in (1, 2):
                numbered = {"shoal_id": str(bid)} if number else {}
                await ticker.done(
                    "SEND",
                    b"%d" % bid,
                    destination="/topic/prices/ACME",
                    content_type=JSON,
                    persistent=persistent,
                    shoal_retain="true",
                    **numbered,
                )
            async with here.client() as dashboard:
                await dashboard.done(
                    "SUBSCRIBE", id="1", destination="/topic/prices/*", shoal_retained="true"
                )
                value = await dashboard.message()
                assert value.body == b"2"
                assert value.headers.get("shoal-retain") == ("true" if persistent == "true" else None)
                await ticker.done("SEND", b"3", destination="/topic/prices/ACME")
                assert (await dashboard.message()).body == b"3"
            program = await here.bus.subscribe("prices/*", retained=True)
            assert (await program.receive(10)).body == 2
            # No body deletes the value, also the store's.
            await ticker.done(
                "SEND", destination="/topic/prices/ACME", persistent=persistent, shoal_retain="true"
            )
            assert (await program.receive(10)).body is None
            late = await here.bus.subscribe("prices/*", retained=True)
            assert await late.receive(0.5) is None

    asyncio.run(main())


def test_a_last_value_outlives_its_client_and_with_a_store_the_gateway(tmp_path):
    async def main():
        async with place(tmp_path) as here:
            async with here.client() as ticker:
                for persistent in ("false", "true"):
                    await ticker.done(
                        "SEND",
                        b"x",
                        destination=f"/topic/values/{persistent}",
                        persistent=persistent,
                        shoal_retain="true",
                    )
            live = await here.bus.subscribe("values/*", retained=True)
            topics = {(await live.receive(10)).topic for _ in range(2)}
            assert topics == {"values/false", "values/true"}
            await here.gateway.close()
            await here.gateway.desk.bus.close()
            late = await here.bus.subscribe("values/*", retained=True)
            assert (await late.receive(10)).topic == "values/true"
            assert await late.receive(0.5) is None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("command", "headers", "said"),
    [
        ("SEND", {"destination": "/queue/q", "shoal_retain": "true"}, "shoal-retain is for topics"),
        ("SEND", {"destination": "/topic/t", "shoal_retain": "yes"}, "must be true or false"),
        (
            "SEND",
            {"destination": "/topic/t", "shoal_retain": "true", "transaction": "1"},
            "transactions have no last values",
        ),
        (
            "SUBSCRIBE",
            {"id": "1", "destination": "/queue/q", "shoal_retained": "true"},
            "shoal-retained is for topics",
        ),
    ],
)
def test_last_values_are_for_topics(tmp_path, command, headers, said):
    async def main():
        async with place(tmp_path) as here, here.client() as client:
            error = await client.call(command, **headers)
            assert said in error.headers["message"]

    asyncio.run(main())
