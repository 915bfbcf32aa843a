"""`python -m shoal.cli`: the `shoal` command where it is not on the path."""

from shoal.cli.app import main

main()
