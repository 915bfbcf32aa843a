"""Shoal's programs as child processes, for the demo, tests and benchmarks: a worker, a store, a daemon.

A child ends with the process that started it, however that one ends.
"""
