"""The experiments of the seed documents, repeated: `catalogue` lists them, `rig` runs a cell of one.

A cell is one combination of an experiment's parameters. Its samples, one a second, go through Shoal into a
store, where `shoal capacity fit` finds them.
"""
