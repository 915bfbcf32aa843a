"""A file drop: files go to every host at once. A receiver that lost packets gets them again.

python examples/file_drop.py receive DIRECTORY [COUNT]
python examples/file_drop.py send FILE…

`SHOAL_INTERFACE` chooses the network interface, `SHOAL_PORT` the port. The `shoal norm` commands do more.
"""

import os
import sys
from pathlib import Path

import shoal

WHERE = shoal.config.NormConfig(
    interface=os.environ.get("SHOAL_INTERFACE", "auto"),
    port=int(os.environ.get("SHOAL_PORT", shoal.config.NormConfig().port)),
    lanes=0,
)


def receive(directory: Path, count: int | None) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with shoal.norm.Session(WHERE, files_directory=directory, sync="all") as session:
        print("listening", flush=True)
        received = 0
        for event in session.events():
            match event:
                case shoal.norm.FileReceived() if event.path is not None:
                    # The name came from another program: no directories in it.
                    name = Path(event.info.decode(errors="replace")).name or f"file-{received}"
                    event.path.rename(directory / name)
                    print(f"{name} {(directory / name).stat().st_size} bytes", flush=True)
                    received += 1
                case shoal.norm.FileFailed() | shoal.norm.ObjectAborted():
                    print(f"given up: {event}", file=sys.stderr)
                case _:
                    pass
            if received == count:
                return


def send(paths: list[Path]) -> None:
    with shoal.norm.Session(WHERE, receive=False, congestion="norm_cc") as session:
        for path in paths:
            session.send_file(path, info=path.name.encode())
        session.close(linger_s=60)


def main() -> None:
    match sys.argv[1:]:
        case ["receive", directory, *rest]:
            receive(Path(directory), int(rest[0]) if rest else None)
        case ["send", *paths] if paths:
            send([Path(path) for path in paths])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
