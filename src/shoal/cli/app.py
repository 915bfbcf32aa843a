"""The root of the `shoal` command. A sub-command's module is imported when it is used, not before."""

import importlib
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperGroup

#: Commands by task, and what each does; its module in `shoal.cli` has an `app` or a function of its name.
SECTIONS = {
    "Messages": {
        "pub": "Publish a message, or many.",
        "sub": "Print messages as they come, until Ctrl-C.",
        "request": "Publish a question and print the answer, or answers.",
        "reply": "Answer questions, with a command or a template.",
        "queue": "See what waits in queues, send and receive.",
        "members": "Print who is there, and what they subscribe to.",
    },
    "Stores and history": {
        "store": "Run a store, or inspect one.",
        "history": "Look at what a store recorded.",
        "pipeline": "Archive, replay, measure and audit recorded messages, on Spark.",
        "token": "Make and remove the tokens that a store's clients show.",
        "access": "Show which principal may do what, by the access rules.",
    },
    "Networks": {
        "daemon": "Run a node of its own: let programs connect, keep a store.",
        "nodes": "Print the nodes of the domain, as a table or a picture.",
        "links": "Print the links between them, as a table or a picture.",
        "registry": "Run a directory: daemons find each other in it, and clients the best daemon.",
        "gateway": "Let STOMP clients, and browsers, take part.",
        "console": "Run an operator's view of the domain for browsers; check its audit log.",
        "host": "Make the key with which a console starts and stops daemons.",
        "keys": "Make the key that all members of a domain share.",
        "norm": "Send and receive files and objects by NORM (RFC 5740).",
    },
    "See, check and measure": {
        "demo": "See it work: a simulated network, real processes, a store, Spark.",
        "top": "Show what nodes, links and queues do now.",
        "doctor": "Find what keeps messages from arriving: interface, multicast, firewall, domain.",
        "explain": "Print what the id of a log line or an error means.",
        "selector": "Try message selectors.",
        "destination": "Show which options a topic has.",
        "profile": "Show named sets of options, and translate iBus's.",
        "tune": "Find the send delay that suits a network, as iBus's guide does.",
        "capacity": "Fit the capacity model to measurements on Spark, and predict from it.",
        "bench": "Measure Shoal, alone and beside its peers.",
    },
}
COMMANDS = {name: text for commands in SECTIONS.values() for name, text in commands.items()}
#: Commands of other distributions, found by the entry points of this group; and what to install for each.
ENTRY_POINTS = "shoal.commands"
ELSEWHERE = {"bench": "./bench"}


#: What people call commands of other tools' that are here under another name.
ALIASES = {
    **dict.fromkeys(("browse", "show", "view"), "peek"),
    **dict.fromkeys(("produce", "emit"), "pub"),
    **dict.fromkeys(("consume", "listen", "tail"), "sub"),
    **dict.fromkeys(("ls", "queues"), "list"),
    **dict.fromkeys(("get", "take"), "receive"),
    **dict.fromkeys(("create", "add"), "declare"),
    **dict.fromkeys(("serve", "server", "broker"), "daemon"),
}


def _closest(name: str, commands: Iterable[str]) -> str | None:
    """The command that was probably meant: `publish` and `pbu` are `pub`."""
    import difflib

    commands = list(commands)
    likely = [command for command in commands if name.startswith(command) or ALIASES.get(name) == command]
    return next(iter(likely or difflib.get_close_matches(name, commands, n=1)), None)


class Group(TyperGroup):
    """Sub-commands that are suggested, and described by a whole sentence.

    Contexts and formatters are of whichever `click` comes with `typer`.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Suggest a command for one that is not known, without importing all of them."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            close = _closest(args[0], known)
            advice = f"Commands: {', '.join(known)}." if close is None else f"Did you mean {close!r}?"
            ctx.fail(f"No such command {args[0]!r}. {advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with the first sentence of its help."""
        found: list[tuple[str, Any]] = [
            (name, self.get_command(ctx, name)) for name in self.list_commands(ctx)
        ]
        rows = [(name, _sentence(command.help)) for name, command in found]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _sentence(text: str | None) -> str:
    """The first sentence of a help text."""
    paragraph = " ".join((text or "").partition("\n\n")[0].split())
    first, ends, _ = paragraph.partition(". ")
    return first + ends.rstrip()


class Commands(Group):
    """The commands of the table, each imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in ELSEWHERE:
            return _from_elsewhere(cmd_name)
        module = importlib.import_module(f"shoal.cli.{cmd_name}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)
            app.command(cmd_name, epilog=getattr(module, "EPILOG", None))(getattr(module, cmd_name))
        return _command(cmd_name, app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands from the table, by task."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()), col_max=14)


def _command(name: str, app: typer.Typer) -> Any:
    """A command with the same plain look as all others."""
    from shoal.cli.look import dress

    app.rich_markup_mode = None
    _group(app)
    command = typer.main.get_command(app)
    command.name = name
    return dress(command)


def _group(app: typer.Typer) -> None:
    """Have an app, and the groups in it, list commands as `Group` does."""
    app.info.cls = Group
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _group(group.typer_instance)


def _from_elsewhere(name: str) -> Any:
    """Import a command of another distribution; without it, the command says what to install."""
    # Takes longer than the rest of `shoal --help`.
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS, name=name):
        return _command(name, entry.load())
    missing = typer.Typer(add_completion=False)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    advice = f"In a clone of Shoal's repository, run: pip install {ELSEWHERE[name]}"

    @missing.command(
        name, context_settings=anything, help=f"{COMMANDS[name]}\n\nIt is not installed. {advice}"
    )
    def say_what_is_missing() -> None:
        typer.echo(f"shoal {name}: this command is not installed. {advice}", err=True)
        raise typer.Exit(2)

    return _command(name, missing)


app = typer.Typer(
    name="shoal",
    cls=Commands,
    help="Messaging for Python programs, with no broker.",
    no_args_is_help=True,
    # Plain text is there at once; the formatter of `rich` would take longer than the rest together.
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import shoal

        typer.echo(shoal.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass
