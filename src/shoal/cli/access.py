"""`shoal access`: who may do what, by the access rules of a file."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import FAILED, plain_endings
from shoal.config.access import ACTIONS, Access
from shoal.errors import ConfigError

app = typer.Typer(
    help="Show who may do what.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    add_completion=False,
)

Rules = Annotated[Path, typer.Option(help="The file with the rules.")]


@app.command()
def explain(
    principal: Annotated[str, typer.Argument(help="A principal of the token file, such as desk-7.")],
    action: Annotated[str, typer.Argument(help=f"One of {', '.join(ACTIONS)}.")],
    topic: Annotated[str, typer.Argument(help="A topic or a pattern; the queue orders is _queue/orders.")],
    rules: Rules = Path("rules.toml"),
) -> None:
    """Say whether a principal may do something, and which rule decides. Status 1 if it may not."""
    with plain_endings("access explain"):
        if action not in ACTIONS:
            raise ConfigError(f"the action is {action!r}, and must be one of {', '.join(ACTIONS)}")
        access = Access.read(rules)
        decision = access.decide(principal, action, topic)
        print(f"{'allowed' if decision.is_allowed else 'denied'}: {_why(access, principal, action, topic)}")
        others = [each for each in access.concerned(principal, action, topic) if each is not decision.rule]
        for other in others:
            print(f"  the rule {other.name!r} would {other.effect} it, and does not decide")
        quota = access.quota(principal)
        if quota is not None:
            names = ("connections", "bytes_per_s", "backlog_bytes")
            bounds = {name: getattr(quota, name) for name in names}
            given = ", ".join(f"{name} {bound:,}" for name, bound in bounds.items() if bound is not None)
            print(f"  the quota {quota.name!r} counts: {given or 'no bound'}")
    if not decision.is_allowed:
        raise typer.Exit(FAILED)


def _why(access: Access, principal: str, action: str, topic: str) -> str:
    rule = access.decide(principal, action, topic).rule
    if rule is None:
        return f"no rule of {access.source} allows it"
    verb = {"allow": "allows", "deny": "denies"}[rule.effect]
    return f"the rule {rule.name!r} of {access.source} {verb} it"


@app.command()
def check(rules: Rules = Path("rules.toml")) -> None:
    """Read a file, and say what is wrong with it."""
    with plain_endings("access check"):
        access = Access.read(rules)
        print(f"{rules} has {len(access.rules)} rules and {len(access.quotas)} quotas")
