"""A directory of daemons over HTTP: daemons find each other in it, and clients the best daemon.

Needs the extra `shoal[registry]`. Nothing depends on a registry that is away: connections stay.
"""
