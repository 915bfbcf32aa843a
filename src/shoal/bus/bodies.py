"""Bodies that only other libraries understand: numpy arrays and Arrow data.

Called by the extension module for what it does not know itself; neither library is needed otherwise.
"""

import sys
from typing import Any

ARROW, ARRAY = 6, 7
_ORDERS = {b"C": "C", b"F": "F"}


def encode(body: Any) -> tuple[int, bytes, Any] | None:
    """Kind, body detail and content; none if this is not such a body."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(body, numpy.ndarray):
        return _encode_array(numpy, body)
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(body, (arrow.Table, arrow.RecordBatch)):
        sink = arrow.BufferOutputStream()
        with arrow.ipc.new_stream(sink, body.schema) as writer:
            writer.write(body)
        return ARROW, b"", memoryview(sink.getvalue()).cast("B")
    return None


def decode(kind: int, detail: bytes, content: bytes) -> Any:
    """The body; an array is read-only, because it lies where it was received."""
    if kind == ARRAY:
        import numpy

        dtype, shape, order = _read_layout(detail)
        return numpy.frombuffer(content, dtype=numpy.dtype(dtype)).reshape(shape, order=order)
    if kind == ARROW:
        import pyarrow

        return pyarrow.ipc.open_stream(content).read_all()
    raise ValueError(f"a body of kind {kind} cannot be read: its type is not registered here")


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
