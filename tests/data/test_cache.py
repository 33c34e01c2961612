"""The record cache: what it keeps, what it drops, and that it stays within its limit."""

from hypothesis import given
from hypothesis import strategies as st

from shardfs.data.cache import ENTRY_BYTES, RecordCache
from shardfs.ids import RecordId


def cost(payload: bytes) -> int:
    return len(payload) + ENTRY_BYTES


def test_the_least_recently_used_goes_first() -> None:
    cache = RecordCache(3 * cost(b"abc"))
    for number in (1, 2, 3):
        cache.put(RecordId(number), b"abc")
    assert cache.get(RecordId(1)) == b"abc"
    cache.put(RecordId(4), b"def")
    assert cache.get(RecordId(2)) is None
    assert [cache.get(RecordId(number)) for number in (1, 3, 4)] == [b"abc", b"abc", b"def"]


def test_a_payload_larger_than_the_limit_is_not_kept_and_drops_nothing() -> None:
    cache = RecordCache(2 * cost(b"abc"))
    cache.put(RecordId(1), b"abc")
    cache.put(RecordId(2), bytes(2 * cost(b"abc")))
    assert cache.get(RecordId(1)) == b"abc" and cache.get(RecordId(2)) is None


@given(st.lists(st.tuples(st.integers(1, 5), st.none() | st.binary(max_size=100))))
def test_the_size_is_that_of_what_is_held(steps: list[tuple[int, bytes | None]]) -> None:
    limit = 2 * ENTRY_BYTES + 100
    cache = RecordCache(limit)
    newest: dict[int, bytes] = {}
    for number, payload in steps:
        if payload is None:
            cache.drop(RecordId(number))
            newest.pop(number, None)
        else:
            cache.put(RecordId(number), payload)
            newest[number] = payload
        held = {number: payload for number in newest if (payload := cache.get(RecordId(number))) is not None}
        assert held.items() <= newest.items()
        assert cache.size_bytes == sum(map(cost, held.values())) <= limit
