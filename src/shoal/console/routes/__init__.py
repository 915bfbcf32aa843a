"""The console's HTTP interface, by what it is about. Routes decide nothing: they check, ask and answer."""
