"""TFRecords: the frames of an event file, and whether they are whole. A record is its length (8 bytes), that length's
checksum (4), as many bytes, and their checksum (4). Checksums are CRC-32C (Castagnoli), masked as TensorFlow does.

A hundred thousand records are checked together, byte place by byte place, since one by one takes Python too long."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_LENGTH, _CRC = 8, 4


def records(data: bytes) -> tuple[list[bytes], str]:
    """The records of a file up to the first that is cut or damaged, and what is wrong with that one ("": nothing)."""
    lengths, bodies, sums, trouble = _frames(data)
    good = len(bodies)
    for kind, pieces, told in (("length", lengths, [s[0] for s in sums]), ("record", bodies, [s[1] for s in sums])):
        wrong = _first_wrong(pieces[:good], told[:good])
        if wrong is not None:
            good, trouble = wrong, f"the checksum of a {kind} is wrong"
    return bodies[:good], trouble


def masked(data: bytes) -> int:
    """The checksum of some bytes.

    >>> hex(masked(b"123456789"))  # CRC-32C of these nine is 0xe3069283 (RFC 3720), then rotated and moved
    '0xc78ab0e5'
    """
    return int(_masked([data])[0])


def _frames(data: bytes) -> tuple[list[bytes], list[bytes], list[tuple[int, int]], str]:
    """Lengths, bodies and both checksums of each record, as they stand; and how the last one is cut."""
    lengths: list[bytes] = []
    bodies: list[bytes] = []
    sums: list[tuple[int, int]] = []
    at, end = 0, len(data)
    while at < end:
        start = at + _LENGTH + _CRC
        if start > end:
            return lengths, bodies, sums, "it ends in the middle of a record"
        size, head = struct.unpack_from("<QI", data, at)
        stop = start + size
        if stop + _CRC > end:
            wrong = masked(data[at : at + _LENGTH]) != head
            return lengths, bodies, sums, "it is no record" if wrong else "it ends in the middle of a record"
        lengths.append(data[at : at + _LENGTH])
        bodies.append(data[start:stop])
        sums.append((head, struct.unpack_from("<I", data, stop)[0]))
        at = stop + _CRC
    return lengths, bodies, sums, ""


def _first_wrong(pieces: Sequence[bytes], told: Sequence[int]) -> int | None:
    wrong = np.flatnonzero(_masked(pieces) != np.array(told, np.uint32))
    return int(wrong[0]) if len(wrong) else None


def _masked(pieces: Sequence[bytes]) -> NDArray[np.uint32]:
    crc = _crc32c(pieces)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def _crc32c(pieces: Sequence[bytes]) -> NDArray[np.uint32]:
    """Of each piece; those of one length together."""
    found = np.zeros(len(pieces), np.uint32)
    by_length: dict[int, list[int]] = {}
    for index, piece in enumerate(pieces):
        by_length.setdefault(len(piece), []).append(index)
    for length, places in by_length.items():
        rows = np.frombuffer(b"".join(pieces[index] for index in places), np.uint8).reshape(len(places), length)
        crc = np.full(len(places), 0xFFFFFFFF, np.uint32)
        for column in rows.T:
            crc = _TABLE[(crc ^ column) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        found[places] = crc ^ np.uint32(0xFFFFFFFF)
    return found


def _table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


_TABLE = _table()
