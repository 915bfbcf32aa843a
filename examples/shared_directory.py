"""A link of one's own: two programs talk through a directory that both can reach, such as a network share.

python examples/shared_directory.py listen DIRECTORY
python examples/shared_directory.py send DIRECTORY [COUNT]

The class `Directory` is all that a new kind of link needs. Numbers, acknowledgement, credit, heartbeats and
going on after a break run above it, as on TCP. Stop either program and start it again: the other goes on.
"""

import sys
import time
import uuid
from pathlib import Path

import shoal
from shoal.link import Channel, Listening, Target, Transport

#: How often to look for files, and how many may wait for the other end before `send` waits.
POLL_S, FILES_MAX = 0.002, 32


class Files(Channel):
    """Bytes as numbered files: ours in one directory, the other end's in another."""

    def __init__(self, out: Path, into: Path) -> None:
        self.address = str(out.parent)
        self._out, self._into = out, into
        self._sent = self._received = 0
        self._closed = False

    def send(self, data: memoryview) -> None:
        while len(list(self._out.iterdir())) >= FILES_MAX:
            self._pause()
        # A file appears all at once, because it is renamed.
        draft = self._out.parent / f"{self._out.name}.draft"
        draft.write_bytes(data)
        draft.rename(self._out / f"{self._sent:09}")
        self._sent += 1

    def receive(self) -> bytes:
        while True:
            path = self._into / f"{self._received:09}"
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                if (self._into.parent / f"{self._into.name}.end").exists() and not path.exists():
                    return b""
                self._pause()
                continue
            path.unlink()
            self._received += 1
            return data

    def close(self) -> None:
        self._closed = True
        (self._out.parent / f"{self._out.name}.end").touch()

    def _pause(self) -> None:
        if self._closed:
            raise OSError("it was closed here")
        time.sleep(POLL_S)


class Calls(Listening):
    """Every new directory is a program that connects."""

    def __init__(self, place: Path, url: str) -> None:
        self.url, self._place, self._closed = url, place, False
        # A program that called before this one started has given up by now.
        self._known = set(place.glob("*.call"))

    def accept(self) -> Channel | None:
        while not self._closed:
            for call in set(self._place.glob("*.call")) - self._known:
                self._known.add(call)
                return Files(out=call / "back", into=call / "there")
            time.sleep(POLL_S)
        return None

    def close(self) -> None:
        self._closed = True


class Directory(Transport):
    """`directory:///path`: both ends name the same directory."""

    def __init__(self, config: object) -> None:
        pass

    def connect(self, target: Target, timeout_s: float) -> Channel:
        call = Path(target.path) / f"{uuid.uuid4().hex}.call"
        draft = call.with_suffix(".draft")
        (draft / "there").mkdir(parents=True)
        (draft / "back").mkdir()
        draft.rename(call)
        return Files(out=call / "there", into=call / "back")

    def listen(self, target: Target) -> Listening:
        place = Path(target.path)
        place.mkdir(parents=True, exist_ok=True)
        return Calls(place, target.url)


shoal.link.register("directory", Directory)


def listen(url: str) -> None:
    with shoal.listen(url) as bus, bus.subscribe("orders/>") as orders:
        print("listening", flush=True)
        for message in orders:
            print(message.topic, message.body, flush=True)
            if message.properties.get("last"):
                return


def send(url: str, count: int) -> None:
    with shoal.connect(url) as bus:
        bus.wait_for_subscribers("orders/new", timeout_s=None)
        for number in range(count):
            bus.publish("orders/new", {"number": number}, properties={"last": number == count - 1})
        bus.flush()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["listen", where]:
            listen(f"directory://{Path(where).resolve()}")
        case ["send", where, *count]:
            send(f"directory://{Path(where).resolve()}", int(count[0]) if count else 10)
        case _:
            sys.exit(__doc__)
