"""IDX: the file format of MNIST and its kin.

Big-endian: two zero bytes, the element type (8: unsigned byte, the only one read here), the number of dimensions, each
dimension as a 4-byte whole number, then the elements, last dimension fastest. The file may be gzipped.
Source: LeCun, Cortes & Burges, "The MNIST database", section on the file format.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from algos.finding import InputError

_UNSIGNED_BYTE = 8


def read(path: Path, dimensions: int) -> Tensor:
    """The file's array, uint8. InputError where the file is missing, damaged or not of `dimensions` dimensions."""
    data = _bytes(path)
    if len(data) < 4 + 4 * dimensions:
        raise _bad(path, f"truncated: {len(data)} bytes are no IDX header of {dimensions} dimensions")
    zeros, kind, count = struct.unpack(">HBB", data[:4])
    if zeros != 0 or kind != _UNSIGNED_BYTE or count != dimensions:
        wanted = (_UNSIGNED_BYTE << 8) + dimensions
        raise _bad(
            path, f"not an IDX file of {dimensions} dimensions: magic number 0x{data[:4].hex()}, not 0x{wanted:08x}"
        )
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    body = data[4 + 4 * dimensions :]
    if len(body) != math.prod(shape):
        size = "truncated" if len(body) < math.prod(shape) else "too long"
        raise _bad(path, f"{size}: {len(body)} elements of {math.prod(shape)}")
    return (
        torch.frombuffer(bytearray(body), dtype=torch.uint8).view(shape)
        if body
        else torch.zeros(shape, dtype=torch.uint8)
    )


def _bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except FileNotFoundError as error:
        raise _bad(path, "missing") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _bad(path, f"truncated or damaged gzip ({error})") from error
    except OSError as error:
        raise _bad(path, f"cannot be read ({error.strerror})") from error


def _bad(path: Path, said: str) -> InputError:
    return InputError(said, "get the file again", rule="bad-data", source=str(path))
