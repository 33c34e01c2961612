"""Messages between the processes of a mount, over stream sockets.

A message is its length (4 bytes, little-endian) and that many bytes of msgpack. Lists and tuples arrive as tuples,
text keeps undecodable bytes of paths as surrogates, and a map may have keys of any type.
"""

from struct import Struct
from typing import Any

import msgpack

from shardfs.errors import BadMessage, InternalError
from shardfs.limits import MESSAGE_MAX_BYTES

_LENGTH = Struct("<I")


def pack_message(message: Any) -> bytes:
    """Return the message as it goes through a socket; raises `InternalError` if it is larger than any reader takes."""
    body: bytes = msgpack.packb(message, unicode_errors="surrogateescape")
    if len(body) > MESSAGE_MAX_BYTES:
        raise InternalError(f"a message of {len(body)} bytes is larger than the limit of {MESSAGE_MAX_BYTES}; send it in parts")
    return _LENGTH.pack(len(body)) + body


class MessageReader:
    """Cuts what arrives on one connection into messages. Holds at most one unfinished message and one chunk fed."""

    def __init__(self, max_bytes: int = MESSAGE_MAX_BYTES) -> None:
        """Refuse messages of more than `max_bytes`."""
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Take what was received and return the messages that are now complete, in order.

        Raises `BadMessage` for a message that is too large or no msgpack; the connection is then of no more use.
        """
        self._buffer += data
        messages, start = [], 0
        while (end := self._end(start)) is not None:
            messages.append(_unpack(self._buffer[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return messages

    def _end(self, start: int) -> int | None:
        """Return where the message that begins here ends, None if it is not complete."""
        if len(self._buffer) < start + _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, start)
        if length > self._max_bytes:
            raise BadMessage(f"a message of {length} bytes was announced, the limit is {self._max_bytes}; close the connection")
        end: int = start + _LENGTH.size + length
        return end if end <= len(self._buffer) else None


def _unpack(body: bytearray) -> Any:
    try:
        return msgpack.unpackb(body, use_list=False, strict_map_key=False, unicode_errors="surrogateescape")
    except (ValueError, msgpack.UnpackException) as error:
        raise BadMessage(f"a message of {len(body)} bytes is not msgpack ({error}); close the connection") from error
