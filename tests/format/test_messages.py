"""Messages over sockets: their bytes, how they arrive in pieces, and what a bad peer gets."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfs.errors import BadMessage, InternalError
from shardfs.format import messages
from shardfs.format.messages import MessageReader, pack_message

atoms = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.binary(max_size=20) | st.text(max_size=20)
bodies: st.SearchStrategy[Any] = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.integers(0, 9) | st.binary(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def test_golden_bytes() -> None:
    assert pack_message({"op": "hello", "through": 300}).hex() == "1500000082a26f70a568656c6c6fa77468726f756768cd012c"


@given(st.lists(bodies, max_size=5), st.integers(1, 50))
def test_messages_arrive_whole_in_any_pieces(sent: list[Any], piece: int) -> None:
    stream = b"".join(pack_message(message) for message in sent)
    reader = MessageReader()
    received = [message for at in range(0, len(stream), piece) for message in reader.feed(stream[at : at + piece])]
    assert received == sent
    assert reader.feed(b"") == []


def test_lists_arrive_as_tuples_and_paths_keep_their_bytes() -> None:
    path = b"/data/\xff".decode(errors="surrogateescape")
    assert MessageReader().feed(pack_message([path, [1, 2]])) == [(path, (1, 2))]


def test_an_unfinished_message_waits() -> None:
    data = pack_message("word")
    reader = MessageReader()
    for at in range(len(data) - 1):
        assert reader.feed(data[at : at + 1]) == []
    assert reader.feed(data[-1:] + data + data[:2]) == ["word", "word"]


def test_an_announced_size_beyond_the_limit_is_refused_at_once() -> None:
    assert MessageReader(max_bytes=5).feed(pack_message("word")) == ["word"]
    with pytest.raises(BadMessage, match="a message of 6 bytes was announced, the limit is 5"):
        MessageReader(max_bytes=5).feed(pack_message("words")[:4])


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\xa5wor", msgpack.packb(1) + b"\0", b"\x91" * 5000])
def test_a_body_that_is_no_msgpack_is_refused(body: bytes) -> None:
    with pytest.raises(BadMessage, match="is not msgpack"):
        MessageReader().feed(len(body).to_bytes(4, "little") + body)


def test_a_message_too_large_to_be_read_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MESSAGE_MAX_BYTES", 5)
    assert len(pack_message("word")) == 9
    with pytest.raises(InternalError, match="a message of 6 bytes is larger than the limit of 5"):
        pack_message("words")
