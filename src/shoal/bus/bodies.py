"""Bodies that only other libraries, or codecs, understand: numpy arrays, Arrow data, registered types.

Called by the extension module for what it does not know itself; no library is needed otherwise. An object is
a MessagePack value whose type the body detail names. Inside a list or a mapping it is a mapping of two
entries: `TAG` to its name, and `VALUE`; a plain mapping that has the key `TAG` itself stands under the name
`dict` there.
"""

import sys
from collections.abc import Mapping
from typing import Any

from shoal import codecs
from shoal.errors import MessageFormatError

ARROW, ARRAY, OBJECT = 6, 7, 8
#: The entries of a mapping that stands for an object.
TAG, VALUE = "$shoal", "value"
#: What such a mapping calls a plain one, and an array.
PLAIN, NESTED_ARRAY = "dict", "ndarray"
_ORDERS = {b"C": "C", b"F": "F"}


def encode(body: Any) -> tuple[int, bytes, Any] | None:
    """Kind, body detail and content; `None` if this is not such a body."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(body, numpy.ndarray):
        return _encode_array(numpy, body)
    codec = codecs.find(type(body))
    if codec is not None:
        return OBJECT, codec.name.encode(), _tagged(codec.encode(body))
    return _encode_table(body) if hasattr(body, "__arrow_c_stream__") else None


def _encode_table(body: Any) -> tuple[int, bytes, Any] | None:
    """Arrow data, and what Arrow reads as a table: a frame of pandas or polars, a relation of DuckDB."""
    try:
        import pyarrow as arrow
    except ImportError as error:
        raise TypeError(
            f"a body of type {type(body).__name__} is sent as Arrow data: install pyarrow"
        ) from error
    try:
        table = body if isinstance(body, arrow.RecordBatch) else arrow.table(body)
    except arrow.ArrowException as error:
        raise TypeError(f"a body of type {type(body).__name__} is no table for Arrow: {error}") from error
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return ARROW, b"", memoryview(sink.getvalue()).cast("B")


def encode_nested(body: Any) -> Any:
    """A list or mapping with every object in it tagged; `None` if there is none that has a codec."""
    return _tagged(body) if _has_object(body) else None


def decode(kind: int, detail: bytes, content: bytes) -> Any:
    """The body; an array is read-only, because it lies where it was received."""
    if kind == ARRAY:
        numpy = _library("numpy", "a numpy array")
        dtype, shape, order = _read_layout(detail)
        return numpy.frombuffer(content, dtype=numpy.dtype(dtype)).reshape(shape, order=order)
    return _library("pyarrow", "Arrow data").ipc.open_stream(content).read_all()


def decode_object(detail: bytes, value: Any) -> Any:
    """The object that a value was made of."""
    value = _untagged(value)
    return _made(detail.decode(), value) if detail else value


def _library(name: str, what: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise MessageFormatError(f"the body is {what}: install {name} to read it") from error


def _has_object(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_object(each) for each in value.values())
    if isinstance(value, list | tuple):
        return any(_has_object(each) for each in value)
    return codecs.find(type(value)) is not None or _is_array(value)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _tagged(value: Any) -> Any:
    if isinstance(value, Mapping):
        plain = {key: _tagged(each) for key, each in value.items()}
        return {TAG: PLAIN, VALUE: plain} if TAG in plain else plain
    if isinstance(value, list | tuple):
        return [_tagged(each) for each in value]
    codec = codecs.find(type(value))
    if codec is not None:
        return {TAG: codec.name, VALUE: _tagged(codec.encode(value))}
    if _is_array(value):
        _, layout, content = _encode_array(sys.modules["numpy"], value)
        return {TAG: NESTED_ARRAY, VALUE: [layout, bytes(content)]}
    return value


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(each) for each in value]
    if not isinstance(value, dict):
        return value
    name = value.get(TAG)
    if name is None or value.keys() != {TAG, VALUE}:
        return {key: _untagged(each) for key, each in value.items()}
    if name == PLAIN:
        return {key: _untagged(each) for key, each in value[VALUE].items()}
    if name == NESTED_ARRAY:
        layout, content = value[VALUE]
        return decode(ARRAY, layout, content)
    return _made(str(name), _untagged(value[VALUE]))


def _made(name: str, value: Any) -> Any:
    codec = codecs.named(name)
    if codec is None:
        raise MessageFormatError(
            f"the body has a {name!r}, which is not registered here: call shoal.codecs.register, "
            "or register_dataclass, before reading it"
        )
    try:
        return codec.decode(value)
    except Exception as error:
        raise MessageFormatError(f"the body has a {name!r} that cannot be made: {error}") from error


def _encode_array(numpy: Any, array: Any) -> tuple[int, bytes, Any]:
    if array.dtype.hasobject or array.dtype.fields is not None:
        raise TypeError(f"an array of {array.dtype} cannot be a body: use plain numbers, or Arrow data")
    if isinstance(array, numpy.ma.MaskedArray):
        raise TypeError("a masked array cannot be a body, its mask would be lost: fill it, or use Arrow data")
    order = b"F" if array.flags.f_contiguous and not array.flags.c_contiguous else b"C"
    content = numpy.ascontiguousarray(array) if order == b"C" else array.T
    dtype = array.dtype.str.encode()
    layout = order + _varint(len(dtype)) + dtype + b"".join(_varint(length) for length in array.shape)
    return ARRAY, layout, content.reshape(-1).view(numpy.uint8)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_layout(detail: bytes) -> tuple[str, tuple[int, ...], Any]:
    numbers_at = 2 + detail[1]
    dtype = detail[2:numbers_at].decode()
    shape, number, shift = [], 0, 0
    for byte in detail[numbers_at:]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            shape.append(number)
            number, shift = 0, 0
    return dtype, tuple(shape), _ORDERS[detail[:1]]
