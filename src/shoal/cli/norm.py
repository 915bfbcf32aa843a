"""`shoal norm`: files to and from many hosts."""

import typer

from shoal.cli import norm_receive, norm_send

app = typer.Typer(
    help="Send files to many hosts at once, and receive them: reliable multicast, NORM (RFC 5740).",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.command("send", epilog=norm_send.EPILOG)(norm_send.send)
app.command("receive", epilog=norm_receive.EPILOG)(norm_receive.receive)
