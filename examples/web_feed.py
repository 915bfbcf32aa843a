"""Messages in a browser: a small web server by asyncio that passes them on as server-sent events.

python examples/web_feed.py [PORT]          then open http://127.0.0.1:8080
shoal pub news/today 'hello'                in another shell

It listens on this machine alone. Every browser has a subscription of its own, which ends with its connection.
"""

import asyncio
import contextlib
import json
import sys

import shoal

PAGE = b"""<!doctype html><title>Shoal</title><h1>What is published</h1><ul id="list"></ul>
<script>
new EventSource("/events").onmessage = event => {
  const line = document.createElement("li");
  line.textContent = event.data;
  document.getElementById("list").prepend(line);
};
</script>
"""
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "


async def serve(bus: shoal.aio.Bus, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        request = (await reader.readuntil(b"\r\n\r\n")).split(b" ")
        if request[1] == b"/events":
            writer.write(OK + b"text/event-stream\r\n\r\n")
            await feed(bus, writer)
        else:
            writer.write(OK + b"text/html\r\n\r\n" + PAGE)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError, IndexError):
        pass
    finally:
        writer.close()


async def feed(bus: shoal.aio.Bus, writer: asyncio.StreamWriter) -> None:
    """A browser that reads too slowly misses the oldest messages: no other waits for it."""
    async with bus.subscribe("news/>", queue_full="drop_old") as subscription:
        await writer.drain()
        async for message in subscription:
            line = json.dumps({"topic": message.topic, "body": message.body}, default=repr)
            writer.write(f"data: {line}\n\n".encode())
            await writer.drain()


async def main(port: int) -> None:
    async with shoal.aio.connect() as bus:

        async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await serve(bus, reader, writer)

        server = await asyncio.start_server(client, "127.0.0.1", port)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8080))
