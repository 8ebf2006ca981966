"""Names that MLflow would refuse come back as they were; names that it takes are left alone."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.store.names import decode, encode, is_cut

#: Texts that look like what encoding makes, or that a file system would misread.
AWKWARD = st.text(st.sampled_from(list("_xLNOE0123456789ABCDEFabcdef/.@ :-é\n")), max_size=40)
ANY = st.text(max_size=400) | AWKWARD


def accepted(name: str) -> bool:
    """MLflow's own rules (mlflow.utils.validation, 3.17); `test_mirror` holds them against the original."""
    norm = posixpath.normpath(name)
    misread = norm != name or norm == "." or norm.startswith(("..", "/"))
    return re.match(r"^[/\w.\- :]*$", name) is not None and not misread and len(name) <= 250


@given(ANY)
def test_what_is_encoded_is_accepted_and_comes_back(name):
    encoded = encode(name)
    assert accepted(encoded)
    assert "\n" not in encoded
    assert decode(encoded, {encoded: name} if is_cut(encoded) else None) == name


@given(AWKWARD, AWKWARD)
def test_two_names_never_become_one(one, other):
    assert (encode(one) == encode(other)) == (one == other)


@given(st.from_regex(r"[a-z0-9 :.\-é]{1,20}(/[a-z0-9_]{1,20}){0,3}", fullmatch=True))
def test_a_name_that_is_fine_stays(name):
    if accepted(name) and "_x" not in name:
        assert encode(name) == name


@pytest.mark.parametrize(
    "name", ["val/accuracy", "size (MB)", "mean@1", "max_x", "pos_x_mean", "größe", "损失", "", "..", "a//b"]
)
def test_names_of_people(name):
    assert accepted(encode(name))
    assert decode(encode(name)) == name
    assert (encode(name) == name) == accepted(name)


def test_long_names_with_one_beginning_differ():
    one, other = "a" * 300 + "1", "a" * 300 + "2"
    assert encode(one) != encode(other)
    assert len(encode(one)) == 250
