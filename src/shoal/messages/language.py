"""The language of notices: that of the environment variable `SHOAL_LANG`, and English where it is not set."""

import functools
import gettext
import os
from pathlib import Path

#: Of each language a directory, as gettext arranges them.
LOCALES = Path(__file__).parent / "locale"
#: The variable that names the language, such as `zh_TW`.
VARIABLE = "SHOAL_LANG"


def translated(context: str, text: str, language: str | None = None) -> str:
    """A text of the catalogue in a language: by default that of the environment."""
    if language is None:
        language = os.environ.get(VARIABLE, "")
    if not text or not language:
        return text
    return _translation(language).pgettext(context, text)


def available() -> list[str]:
    """The languages that notices are translated to."""
    return ["en", *sorted(path.parent.parent.name for path in LOCALES.glob("*/LC_MESSAGES/shoal.mo"))]


@functools.cache
def _translation(language: str) -> gettext.NullTranslations:
    return gettext.translation("shoal", LOCALES, [language], fallback=True)
