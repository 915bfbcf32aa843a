"""The C functions, constants and structures of libnorm (`normApi.h` 1.5) that the harness uses.

Nothing here decides anything: `load()` gives the shared library with every used function's types declared.
"""

import ctypes
import functools
from ctypes import POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int64, c_ubyte, c_uint, c_void_p
from ctypes import c_uint16 as u16
from ctypes import c_uint32 as u32
from enum import IntEnum

SONAME = "libnorm.so.1"
DEBIAN_PACKAGE = "libnorm1"

NODE_NONE = 0
NODE_ANY = 0xFFFFFFFF
DESCRIPTOR_INVALID = -1


class LibnormError(Exception):
    """libnorm is missing, or refused a call."""


class FlushMode(IntEnum):
    """What a flush asks for: nothing, sending now, or that and telling everybody where the end is."""

    NONE = 0
    PASSIVE = 1
    ACTIVE = 2


class NackingMode(IntEnum):
    """What a receiver asks repair for."""

    NONE = 0
    INFO_ONLY = 1
    NORMAL = 2


class AckingStatus(IntEnum):
    """How far a watermark has come."""

    INVALID = 0
    FAILURE = 1
    PENDING = 2
    SUCCESS = 3


class ProbingMode(IntEnum):
    """How a sender measures its group round trip time."""

    NONE = 0
    PASSIVE = 1
    ACTIVE = 2


class SyncPolicy(IntEnum):
    """Where a receiver that joins late begins."""

    CURRENT = 0
    STREAM = 1
    ALL = 2


class ObjectType(IntEnum):
    """What a NORM object carries."""

    NONE = 0
    DATA = 1
    FILE = 2
    STREAM = 3


class EventType(IntEnum):
    """`NormEventType`, without the prefix."""

    INVALID = 0
    TX_QUEUE_VACANCY = 1
    TX_QUEUE_EMPTY = 2
    TX_FLUSH_COMPLETED = 3
    TX_WATERMARK_COMPLETED = 4
    TX_CMD_SENT = 5
    TX_OBJECT_SENT = 6
    TX_OBJECT_PURGED = 7
    TX_RATE_CHANGED = 8
    LOCAL_SENDER_CLOSED = 9
    REMOTE_SENDER_NEW = 10
    REMOTE_SENDER_RESET = 11
    REMOTE_SENDER_ADDRESS = 12
    REMOTE_SENDER_ACTIVE = 13
    REMOTE_SENDER_INACTIVE = 14
    REMOTE_SENDER_PURGED = 15
    RX_CMD_NEW = 16
    RX_OBJECT_NEW = 17
    RX_OBJECT_INFO = 18
    RX_OBJECT_UPDATED = 19
    RX_OBJECT_COMPLETED = 20
    RX_OBJECT_ABORTED = 21
    RX_ACK_REQUEST = 22
    GRTT_UPDATED = 23
    CC_ACTIVE = 24
    CC_INACTIVE = 25
    ACKING_NODE_NEW = 26
    SEND_ERROR = 27
    USER_TIMEOUT = 28


class RawEvent(Structure):
    """`NormEvent`."""

    _fields_ = (("type", c_int), ("session", c_void_p), ("sender", c_void_p), ("object", c_void_p))


_VOID = None
_INSTANCE = _SESSION = _NODE = _OBJECT = c_void_p
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "NormGetVersion": (c_int, (POINTER(c_int), POINTER(c_int), POINTER(c_int))),
    # The instance: libnorm's thread, and the events it reports.
    "NormCreateInstance": (_INSTANCE, (c_bool,)),
    "NormStopInstance": (_VOID, (_INSTANCE,)),
    "NormDestroyInstance": (_VOID, (_INSTANCE,)),
    "NormSetCacheDirectory": (c_bool, (_INSTANCE, c_char_p)),
    "NormGetDescriptor": (c_int, (_INSTANCE,)),
    "NormGetNextEvent": (c_bool, (_INSTANCE, POINTER(RawEvent), c_bool)),
    # The session: one node in one group.
    "NormCreateSession": (_SESSION, (_INSTANCE, c_char_p, u16, u32)),
    "NormDestroySession": (_VOID, (_SESSION,)),
    "NormIsUnicastAddress": (c_bool, (c_char_p,)),
    "NormSetMulticastInterface": (c_bool, (_SESSION, c_char_p)),
    "NormSetRxPortReuse": (_VOID, (_SESSION, c_bool, c_char_p, c_char_p, u16)),
    "NormSetTxOnly": (_VOID, (_SESSION, c_bool, c_bool)),
    "NormSetTTL": (c_bool, (_SESSION, c_ubyte)),
    "NormSetLoopback": (c_bool, (_SESSION, c_bool)),
    "NormSetMulticastLoopback": (c_bool, (_SESSION, c_bool)),
    "NormSetTxLoss": (_VOID, (_SESSION, c_double)),
    "NormSetRxLoss": (_VOID, (_SESSION, c_double)),
    "NormSetMessageTrace": (_VOID, (_SESSION, c_bool)),
    # The sender.
    "NormStartSender": (c_bool, (_SESSION, u16, u32, u16, u16, u16, c_ubyte)),
    "NormStopSender": (_VOID, (_SESSION,)),
    "NormSetTxRate": (_VOID, (_SESSION, c_double)),
    "NormGetTxRate": (c_double, (_SESSION,)),
    "NormSetTxRateBounds": (_VOID, (_SESSION, c_double, c_double)),
    "NormSetTxSocketBuffer": (c_bool, (_SESSION, c_uint)),
    "NormSetFlowControl": (_VOID, (_SESSION, c_double)),
    "NormSetCongestionControl": (_VOID, (_SESSION, c_bool, c_bool)),
    "NormSetTxCacheBounds": (_VOID, (_SESSION, c_int64, u32, u32)),
    "NormSetAutoParity": (_VOID, (_SESSION, c_ubyte)),
    "NormSetGrttEstimate": (_VOID, (_SESSION, c_double)),
    "NormGetGrttEstimate": (c_double, (_SESSION,)),
    "NormSetGrttMax": (_VOID, (_SESSION, c_double)),
    "NormSetGrttProbingMode": (_VOID, (_SESSION, c_int)),
    "NormSetGrttProbingInterval": (_VOID, (_SESSION, c_double, c_double)),
    "NormSetBackoffFactor": (_VOID, (_SESSION, c_double)),
    "NormSetGroupSize": (_VOID, (_SESSION, c_uint)),
    "NormSetTxRobustFactor": (_VOID, (_SESSION, c_int)),
    "NormFileEnqueue": (_OBJECT, (_SESSION, c_char_p, c_char_p, c_uint)),
    "NormDataEnqueue": (_OBJECT, (_SESSION, c_char_p, u32, c_char_p, c_uint)),
    "NormStreamOpen": (_OBJECT, (_SESSION, u32, c_char_p, c_uint)),
    "NormStreamWrite": (c_uint, (_OBJECT, c_void_p, c_uint)),
    "NormStreamFlush": (_VOID, (_OBJECT, c_bool, c_int)),
    "NormStreamMarkEom": (_VOID, (_OBJECT,)),
    "NormStreamSetPushEnable": (_VOID, (_OBJECT, c_bool)),
    "NormStreamClose": (_VOID, (_OBJECT, c_bool)),
    "NormSetWatermark": (c_bool, (_SESSION, _OBJECT, c_bool)),
    "NormAddAckingNode": (c_bool, (_SESSION, u32)),
    "NormRemoveAckingNode": (_VOID, (_SESSION, u32)),
    "NormGetAckingStatus": (c_int, (_SESSION, u32)),
    # The receiver.
    "NormStartReceiver": (c_bool, (_SESSION, u32)),
    "NormStopReceiver": (_VOID, (_SESSION,)),
    "NormSetRxSocketBuffer": (c_bool, (_SESSION, c_uint)),
    "NormSetSilentReceiver": (_VOID, (_SESSION, c_bool, c_int)),
    "NormSetDefaultUnicastNack": (_VOID, (_SESSION, c_bool)),
    "NormSetDefaultSyncPolicy": (_VOID, (_SESSION, c_int)),
    "NormSetDefaultNackingMode": (_VOID, (_SESSION, c_int)),
    "NormStreamRead": (c_bool, (_OBJECT, c_void_p, POINTER(c_uint))),
    "NormStreamSeekMsgStart": (c_bool, (_OBJECT,)),
    # Objects and nodes.
    "NormObjectGetType": (c_int, (_OBJECT,)),
    "NormObjectHasInfo": (c_bool, (_OBJECT,)),
    "NormObjectGetInfoLength": (u16, (_OBJECT,)),
    "NormObjectGetInfo": (u16, (_OBJECT, c_char_p, u16)),
    "NormObjectGetSize": (c_int64, (_OBJECT,)),
    "NormObjectGetBytesPending": (c_int64, (_OBJECT,)),
    "NormObjectCancel": (_VOID, (_OBJECT,)),
    "NormObjectRetain": (_VOID, (_OBJECT,)),
    "NormObjectRelease": (_VOID, (_OBJECT,)),
    "NormFileGetName": (c_bool, (_OBJECT, c_char_p, c_uint)),
    "NormDataAccessData": (c_void_p, (_OBJECT,)),
    "NormNodeGetId": (u32, (_NODE,)),
    "NormNodeGetGrtt": (c_double, (_NODE,)),
}


@functools.cache
def load() -> ctypes.CDLL:
    """The shared library, loaded once; `LibnormError` names the Debian package if it is missing."""
    try:
        library = ctypes.CDLL(SONAME)
    except OSError as error:
        raise LibnormError(
            f"{SONAME} cannot be loaded ({error}): install Debian's {DEBIAN_PACKAGE}"
        ) from error
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise LibnormError(f"{SONAME} has no {name}: version 1.5.8 or newer is needed") from error
        function.restype = result
        function.argtypes = arguments
    return library
