"""Where the history server listens, and its bounds."""

from dataclasses import dataclass

from shoal.config.checks import Checked

DEFAULT_PORT = 7475


@dataclass(frozen=True, kw_only=True)
class ServerOptions(Checked):
    """Options of a history server, checked when made."""

    #: The address to listen on; only this machine's programs reach the default.
    host: str = "127.0.0.1"
    #: The TCP port; 0 picks a free one.
    port: int = DEFAULT_PORT
    #: Reads that may run at the same time.
    streams_max: int = 256
    #: Clients that may wait at the same time for something new.
    waits_max: int = 1024
    #: Rows of a record batch, at most.
    batch_rows_max: int = 32_768
    #: Bytes of a record batch, about; one that holds a single longer row is longer.
    batch_bytes_max: int = 4 << 20
    #: Rows longer than a batch that are in memory at the same time, on their way to readers.
    large_rows_max: int = 4
    #: Bytes that may be staged and not committed, by all clients together.
    staged_bytes_max: int = 4 << 30
    #: The same for one connection.
    staged_bytes_per_client_max: int = 1 << 30
    #: Stagings that may be open, by all clients together.
    stagings_max: int = 10_000

    def __post_init__(self) -> None:
        self.check_types()
        self.check_range("port", 0, 65_535)
        for bound in (
            "streams_max",
            "waits_max",
            "batch_rows_max",
            "batch_bytes_max",
            "large_rows_max",
            "staged_bytes_max",
            "staged_bytes_per_client_max",
            "stagings_max",
        ):
            self.check_range(bound, 1)
