"""`python -m shoal_bench.peers.libnorm send|receive`: one side of a transfer, as one line of JSON."""

import argparse
import json
import sys
from dataclasses import MISSING, asdict, fields

from .abi import LibnormError
from .transfer import TransferOptions, receive, send


def main() -> int:
    """Run the side asked for; an incomplete or wrong transfer ends with status 1."""
    parser = argparse.ArgumentParser(prog="python -m shoal_bench.peers.libnorm", description=__doc__)
    parser.add_argument("side", choices=("send", "receive"))
    for field in fields(TransferOptions):
        needed = field.default is MISSING
        kind = int if field.type is int else float if field.type is float else str
        parser.add_argument(
            "--" + field.name.replace("_", "-"),
            type=kind,
            required=needed,
            default=None if needed else field.default,
            help="(required)" if needed else "(default: %(default)s)",
        )
    arguments = vars(parser.parse_args())
    side = send if arguments.pop("side") == "send" else receive
    try:
        result = side(TransferOptions(**arguments))
    except LibnormError as error:
        print(f"libnorm: {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
