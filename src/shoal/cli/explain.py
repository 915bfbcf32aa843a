"""`shoal explain`: what an id of the message catalogue means."""

import logging
import os
import re
from typing import Annotated

import typer

from shoal.cli.connection import WRONG_COMMAND
from shoal.messages import catalogue, language

#: What a line has in place of an argument.
_PLACE = re.compile(r"\{(\w+)[^}]*\}")
EPILOG = f"""{language.VARIABLE}=zh_TW prints log lines in Traditional Chinese. A line in another language
is printed in English."""


def explain(
    what: Annotated[list[str], typer.Argument(help="An id, such as 2107, or a whole log line.")],
) -> None:
    """Print what a log line or the id of an error means, and what to do."""
    asked = " ".join(what)
    notice = catalogue.find(asked)
    if notice is None:
        typer.echo(f"shoal explain: no id such as SHOAL-2107 in {asked!r}, or an unknown one", err=True)
        raise typer.Exit(WRONG_COMMAND)
    typer.echo(f"{notice.id} {logging.getLevelName(notice.level).lower()}")
    line = catalogue.in_english(asked)
    typer.echo(line or _PLACE.sub(r"<\1>", " ".join(filter(None, (notice.text, notice.advice)))))
    if os.environ.get(language.VARIABLE):
        both = (language.translated(notice.id, each) for each in (notice.text, notice.advice))
        typer.echo(_PLACE.sub(r"<\1>", " ".join(filter(None, both))))
