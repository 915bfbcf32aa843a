"""The schemes of links' URLs: those of the library, and those that programs registered."""

#: What is carried by sockets of the library's own.
SOCKETS = ("tcp", "tls")
#: What the library carries itself.
SCHEMES = (*SOCKETS, "ws", "wss")
#: What no program may register.
TAKEN = (*SCHEMES, "norm", "udp", "inproc", "locate")

#: What programs registered, with `shoal.link.register`.
registered: set[str] = set()
