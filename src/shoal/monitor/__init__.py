"""What a process tells of itself to operators: its status, on the bus and over HTTP, and its metrics.

Nothing here runs unless it was asked for: `connect(metrics=…)`, `connect(answer=True)`, or a daemon's file.
"""
