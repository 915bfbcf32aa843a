"""Pictures of every page of the console, light, dark and as narrow as a phone, to look at.

SHOAL_PICTURES=DIR python -m pytest tests/browser/pictures.py
"""

import os
from pathlib import Path
from typing import Any

import pytest
from console_world import Open, World
from test_console_pages import PAGES

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 800}},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 375, "height": 740}},
}


@pytest.mark.parametrize("look", LOOKS)
def test_pictures(world: World, open_page: Open, look: str) -> None:
    folder = Path(os.environ["SHOAL_PICTURES"])
    page = open_page("admin", **LOOKS[look])
    for name, title in PAGES.items():
        page.evaluate(f"location.hash = '/{name}'")
        page.wait_for_selector(f"h1:text-is('{title}')")
        page.wait_for_timeout(2500)
        page.screenshot(path=folder / f"{name}-{look}.png")
        row = page.locator("tbody tr[data-key]").first
        if name in ("topics", "queues", "stores") and row.count():
            row.click()
            page.wait_for_selector(".side")
            page.screenshot(path=folder / f"{name}-{look}-side.png")
