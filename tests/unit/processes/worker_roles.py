"""Roles for the tests of `shoal.processes.worker`, run in processes of their own."""

import sys
import threading

from shoal.errors import ProcessFailedError
from shoal.processes.worker import run_role


def add(options, report):
    report(options["first"])
    return {"sum": options["first"] + options["second"]}


def fail(_options, _report):
    raise ProcessFailedError("the network is down")


def crash(_options, _report):
    raise KeyError("unexpected")


def wait_for_ever(_options, _report):
    threading.Event().wait()


if __name__ == "__main__":
    roles = {"add": add, "fail": fail, "crash": crash, "wait for ever": wait_for_ever}
    if sys.argv[1] != "stay silent":
        run_role(roles)
