"""Exactly once under SIGKILL, short; `make kill-tests` does it for long."""

import kills


def test_each_message_is_copied_once_though_worker_store_and_driver_are_killed(tmp_path):
    kills.run(["worker", "store", "driver"], 12_000, 20261101, tmp_path)
