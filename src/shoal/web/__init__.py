"""What the registry and the console share: an address, a certificate, and an HTTP server in a thread.

`config` needs the standard library alone. `server` needs uvicorn, which the extras `registry` and `console`
install.
"""
