"""Signals and waits.

Python looks for signals before it begins to wait, and the system ends a wait for one that comes later. A
signal that comes between the two is seen when the wait is over. So a thread that may be the main one waits
again and again, a little at a time.
"""

#: How long a wait may overlook a signal, in seconds.
SIGNAL_S = 0.5
