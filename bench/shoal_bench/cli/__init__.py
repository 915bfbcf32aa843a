"""`shoal bench`: the commands of this distribution, which the `shoal` command finds by an entry point."""
