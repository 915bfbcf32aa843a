"""A share of a core for a process, so that a load on another core can fill it: cgroup v1 or v2, as root."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
PERIOD_US = 10_000


@contextlib.contextmanager
def limited(pid: int, share: float) -> Iterator[None]:
    """Give a process at most this share of a core, for the duration; 1 changes nothing.

    Raises:
        OSError: this machine has no such control group, or this user may not make one.
    """
    if share >= 1:
        yield
        return
    quota = int(share * PERIOD_US)
    name = f"shoal-bench-{secrets.token_hex(4)}"
    is_v1 = (V1 / "cpu.cfs_quota_us").exists()
    parent = V1 if is_v1 else V2
    group = parent / name
    group.mkdir()
    try:
        if is_v1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            (parent / "cgroup.procs").write_text(str(pid))
        with contextlib.suppress(OSError):
            group.rmdir()
