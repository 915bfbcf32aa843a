"""`python -m shoal.cli`: the `shoal` command where it is not on the path."""

from shoal.cli import main

main()
