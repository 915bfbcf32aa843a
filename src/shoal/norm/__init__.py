"""NORM sessions (RFC 5740): files, objects and streams to a group, also to and from other implementations.

`shoal.connect` is for messages between Shoal programs; this module is one layer below. A session is both
sender and receiver.

```python
import shoal.norm

with shoal.norm.Session(files_directory="inbox", sync="all") as session:
    for event in session.events():
        if isinstance(event, shoal.norm.FileReceived):
            print(event.path, event.info, event.bytes)
```

```python
import shoal.norm

with shoal.norm.Session(lanes=0, congestion="norm_cc", ackers=[1001, 1002]) as session:
    session.send_file("report.pdf", info=b"report.pdf")
    print(session.flush(timeout_s=60))
```
"""

from typing import TYPE_CHECKING, Any

from shoal.config import NormConfig
from shoal.norm.events import (
    AckerLost,
    AckerSilent,
    AckGiven,
    AcksDone,
    CommandReceived,
    DataReceived,
    Event,
    FileChunk,
    FileFailed,
    FileReceived,
    Flushed,
    InfoReceived,
    MessageReceived,
    NodeIdTaken,
    ObjectAborted,
    ObjectOpened,
    ObjectReleased,
    ObjectRoom,
    ObjectSent,
    SenderGone,
    SenderHeard,
    StreamBroken,
    StreamClosed,
    StreamGap,
    StreamOpened,
    WatermarkDone,
)
from shoal.norm.session import Acknowledgements, Session

if TYPE_CHECKING:
    from shoal.norm import aio

__all__ = [
    "AckGiven",
    "AckerLost",
    "AckerSilent",
    "Acknowledgements",
    "AcksDone",
    "CommandReceived",
    "DataReceived",
    "Event",
    "FileChunk",
    "FileFailed",
    "FileReceived",
    "Flushed",
    "InfoReceived",
    "MessageReceived",
    "NodeIdTaken",
    "NormConfig",
    "ObjectAborted",
    "ObjectOpened",
    "ObjectReleased",
    "ObjectRoom",
    "ObjectSent",
    "SenderGone",
    "SenderHeard",
    "Session",
    "StreamBroken",
    "StreamClosed",
    "StreamGap",
    "StreamOpened",
    "WatermarkDone",
    "aio",
]


def __getattr__(name: str) -> Any:
    # Programs without an event loop do not import asyncio.
    if name == "aio":
        import shoal.norm.aio as module

        return module
    raise AttributeError(f"module 'shoal.norm' has no attribute {name!r}")
