"""The friendly API: publish, subscribe, request and reply. `sync` and `aio` stand on one core."""
