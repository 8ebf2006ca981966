"""Frames of event files: checksums as TensorFlow's, and the first damage ends a file."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.store.sources.tfrecords import masked, records


def framed(bodies: list[bytes]) -> bytes:
    found = b""
    for body in bodies:
        length = struct.pack("<Q", len(body))
        found += length + struct.pack("<I", masked(length)) + body + struct.pack("<I", masked(body))
    return found


@given(st.lists(st.binary(max_size=40)))
def test_what_was_framed_is_read(bodies):
    assert records(framed(bodies)) == (bodies, "")


@given(st.binary(max_size=200))
def test_checksums_are_those_of_tensorboards_own_package(data):
    crc = pytest.importorskip("tensorboard.compat.tensorflow_stub.pywrap_tensorflow")
    assert masked(data) == crc.masked_crc32c(data)


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=6), st.data())
def test_one_changed_byte_ends_the_file_before_its_record(bodies, data):
    whole = framed(bodies)
    place = data.draw(st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    broken[place] ^= data.draw(st.integers(1, 255))
    starts = [len(framed(bodies[:n])) for n in range(len(bodies) + 1)]
    hit = next(n for n in range(len(bodies)) if starts[n] <= place < starts[n + 1])
    found, trouble = records(bytes(broken))
    assert found == bodies[:hit]
    assert trouble


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6), st.data())
def test_a_cut_file_gives_its_whole_records(bodies, data):
    whole = framed(bodies)
    end = data.draw(st.integers(0, len(whole) - 1))
    count = next(n for n in reversed(range(len(bodies))) if len(framed(bodies[:n])) <= end)
    found, trouble = records(whole[:end])
    assert found == bodies[:count]
    assert bool(trouble) == (end != len(framed(bodies[:count])))
