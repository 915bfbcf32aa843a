"""Roles for the tests of `shoal.bench.workers`, run in processes of their own."""

import sys
import threading

from shoal.bench.workers import run_role
from shoal.errors import ExperimentError


def add(options, report):
    report(options["first"])
    return {"sum": options["first"] + options["second"]}


def fail(_options, _report):
    raise ExperimentError("the network is down")


def crash(_options, _report):
    raise KeyError("unexpected")


def wait_for_ever(_options, _report):
    threading.Event().wait()


if __name__ == "__main__":
    roles = {"add": add, "fail": fail, "crash": crash, "wait for ever": wait_for_ever}
    if sys.argv[1] != "stay silent":
        run_role(roles)
