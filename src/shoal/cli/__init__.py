"""The `shoal` command: one module per sub-command, wired together in `app`."""


def main() -> None:
    """Run the command line."""
    from shoal.cli.app import app

    app()
