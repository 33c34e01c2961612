"""A cache of packed files' content: payloads whose checksum was verified, the least recently used go first.

A record never changes, so what is cached never goes stale; that of a record that is gone falls out unused. Loop thread only.

Invariant: the bytes held, with `ENTRY_BYTES` for each entry, never exceed the limit.
"""

from collections import OrderedDict

from shardfs.ids import RecordId

ENTRY_BYTES = 256
"""What an entry costs beyond its payload, about."""


class RecordCache:
    """Payloads by record id, bounded in bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._payloads: OrderedDict[RecordId, bytes] = OrderedDict()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes that are held."""
        return self._bytes

    def get(self, record: RecordId) -> bytes | None:
        """Return a record's payload and count it as used; None if it is not here."""
        payload = self._payloads.get(record)
        if payload is not None:
            self._payloads.move_to_end(record)
        return payload

    def put(self, record: RecordId, payload: bytes) -> None:
        """Keep a payload, dropping others for it; one that is larger than the limit is not kept."""
        self.drop(record)
        if len(payload) + ENTRY_BYTES > self._limit:
            return
        self._payloads[record] = payload
        self._bytes += len(payload) + ENTRY_BYTES
        while self._bytes > self._limit:
            _, oldest = self._payloads.popitem(last=False)
            self._bytes -= len(oldest) + ENTRY_BYTES

    def drop(self, record: RecordId) -> None:
        """Forget a record; fine if it is not here."""
        payload = self._payloads.pop(record, None)
        if payload is not None:
            self._bytes -= len(payload) + ENTRY_BYTES
