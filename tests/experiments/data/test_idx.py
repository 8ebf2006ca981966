"""IDX files: read right, and damaged ones told apart."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.data import idx

CUBE = struct.pack(">HBB3I", 0, 8, 3, 2, 1, 3) + bytes([1, 2, 3, 4, 5, 255])


def refusal(path: Path, dimensions: int = 3) -> str:
    with pytest.raises(InputError) as refused:
        idx.read(path, dimensions)
    assert str(refused.value).startswith(f"{path}: ")
    return str(refused.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bytes_become_an_array_last_dimension_fastest(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "cube"
    path.write_bytes(pack(CUBE))
    assert idx.read(path, 3).tolist() == [[[1, 2, 3]], [[4, 5, 255]]]


def test_an_empty_array_is_one(tmp_path: Path) -> None:
    path = tmp_path / "none"
    path.write_bytes(struct.pack(">HBBI", 0, 8, 1, 0))
    assert idx.read(path, 1).shape == (0,)


@pytest.mark.parametrize("kept", [1, 12, 20, len(gzip.compress(CUBE)) - 1])
def test_a_truncated_gzip_is_told(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cube.gz"
    path.write_bytes(gzip.compress(CUBE)[:kept])
    assert "truncated" in refusal(path)


def test_a_gzip_with_a_flipped_byte_is_told(tmp_path: Path) -> None:
    path, data = tmp_path / "cube.gz", bytearray(gzip.compress(CUBE))
    data[-6] ^= 255  # in the checksum
    path.write_bytes(data)
    assert "damaged gzip" in refusal(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (CUBE[:-1], "truncated: 5 elements of 6"),
        (CUBE + b"x", "too long: 7 elements of 6"),
        (b"", "truncated: 0 bytes"),
        (b"\x00\x00\x0d\x03" + CUBE[4:], "magic number 0x00000d03, not 0x00000803"),
        (b"PK\x03\x04" + CUBE[4:], "magic number 0x504b0304, not 0x00000803"),
    ],
)
def test_other_files_are_told(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "cube"
    path.write_bytes(data)
    assert said in refusal(path)


def test_labels_are_no_images(tmp_path: Path) -> None:
    path = tmp_path / "cube"
    path.write_bytes(CUBE)
    assert "not an IDX file of 1 dimensions" in refusal(path, dimensions=1)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert "missing" in refusal(tmp_path / "nothing")
    assert "cannot be read" in refusal(tmp_path)
