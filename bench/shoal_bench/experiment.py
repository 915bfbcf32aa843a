"""What every experiment does: refuse options that cannot work, and say on what machine it ran."""

import os
from collections.abc import Iterable
from typing import Any


def check_options(options: object, checks: Iterable[tuple[bool, str, str]]) -> None:
    """Refuse the first option that is not fine; each check is (is it fine, its name, what would be)."""
    for fine, name, wanted in checks:
        if not fine:
            raise ValueError(f"{name} must be {wanted}, not {getattr(options, name)!r}")


def machine() -> dict[str, Any]:
    """What a figure depends on beside the options."""
    return {"cores": os.cpu_count(), "load_1min": os.getloadavg()[0]}
