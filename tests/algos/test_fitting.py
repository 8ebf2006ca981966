"""Which architectures serve what."""

from __future__ import annotations

import pytest

from algos import fitting
from algos.contracts import Signature
from algos.finding import InputError


@pytest.mark.parametrize(
    ("kind", "names"), [("image", {"mlp", "resnet"}), ("tokens", {"gpt"}), ("nodes", {"gcn", "mlp"}), ("sound", set())]
)
def test_each_kind_is_served_by_those_that_say_so(kind: str, names: set[str]) -> None:
    assert set(fitting.serving(kind)) == names


def test_a_refusal_names_what_was_given_what_is_taken_and_what_fits() -> None:
    with pytest.raises(InputError) as refused:
        fitting.check("resnet", "nodes")
    assert str(refused.value) == (
        "model.name: architecture 'resnet' takes image, the task gives nodes; use one of: gcn, mlp"
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("gpt", "image"), ("gcn", "tokens"), ("mlp", "tokens"), ("resnet", "nodes")]
)
def test_constructors_refuse_what_they_cannot_serve(name: str, kind: str) -> None:
    from algos import catalogue

    with pytest.raises(InputError, match="use one of"):
        catalogue.load("architectures", name).build(Signature(kind, (8,), 3))  # type: ignore[arg-type]
