"""GaLore: by hand, against the authors' projector and AdamW, in every form, and what its state takes."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.noisy_quadratic import difference, same, train, weights
from algos.observe import host_synchronisations, kernels
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.optimizers.muon import Muon
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW
from algos.optimizers.sgd import SGD
from algos.wrappers.eight_bit_state import EightBitState
from algos.wrappers.galore import Galore
from tests.algos.parity import Case, Transcription, error

SHAPES = ((6, 4), (4, 9), (5, 3, 2, 2), (6, 4), (5, 5), (7,), (), (2, 30))
SMALL = {"rank": 2, "every": 7, "scale": 0.25}


def wrapped(make, **hyper):
    """An optimizer class's constructor with galore's rule."""

    def build(params, **words):
        optimizer = make(params, **words)
        optimizer.replace_rule(Galore(**{**SMALL, **hyper}).rule)
        return optimizer

    return build


def test_two_steps_by_hand():
    """G = diag(3, 1) with a column of zeros: its leading direction is the first axis, so a step of SGD at rank 1 and
    scale 1/2 moves the first row by 3/2 of the rate and nothing else. Then G = diag(1, 3): P is kept until every."""
    w = nn.Parameter(torch.zeros(2, 3))
    optimizer = SGD([w], lr=1.0, momentum=0.0)
    optimizer.replace_rule(Galore(rank=1, every=2, scale=0.5).rule)
    expected = [(-1.5, 0.0), (-2.0, 0.0), (-2.0, -1.5)]
    for (first, second), row in zip([(3.0, 1.0), (1.0, 3.0), (1.0, 3.0)], expected, strict=True):
        w.grad = torch.tensor([[first, 0.0, 0.0], [0.0, second, 0.0]])
        optimizer.step()
        torch.testing.assert_close(w.detach(), torch.tensor([[row[0], 0.0, 0.0], [0.0, row[1], 0.0]]))


class GaLoreAdamW(Transcription):
    """The authors' projector (std, with the side and the sign that the docstring states) and torch's AdamW."""

    def one(self, param, grad, state, group):
        w, g = param.data.reshape(len(param), -1) if param.dim() > 1 else param.data, grad
        rank, projects = group["rank"], False
        if w.dim() == 2 and min(w.shape) > rank:
            projects, g = True, grad.reshape(w.shape)
            left = w.shape[0] <= w.shape[1]
            if state.get("step", 0) % group["gap"] == 0:
                u, _, vh = torch.linalg.svd(g, full_matrices=False)
                basis = u[:, :rank] if left else vh[:rank].T
                for j in range(rank):
                    if basis[basis[:, j].abs().argmax(), j] < 0:
                        basis[:, j] *= -1
                state["basis"] = basis
            p = state["basis"]
            g = p.T @ g if left else g @ p
        t = state["step"] = state.get("step", 0) + 1
        b1, b2 = group["betas"]
        m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * g
        v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * g * g
        u = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + group["eps"])
        if projects:
            u = group["scale"] * (p @ u if left else u @ p.T)
        w = w - group["lr"] * group["wd"] * w - group["lr"] * u
        param.data.copy_(w.reshape(param.shape))


def theirs(params, **hyper):
    plain = {"lr": 0.02, "betas": (0.9, 0.99), "eps": 1e-8, "wd": 0.1, "rank": 2, "gap": 7, "scale": 0.25}
    return GaLoreAdamW(params, **{**plain, **hyper})


def ours(params, **hyper):
    form = hyper.pop("form", "loop")
    settings = {"lr": 0.02, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1, "form": form}
    return wrapped(AdamW, **hyper)(params, **settings)


@pytest.mark.parametrize("form", ["loop", "stacked"])
@pytest.mark.parametrize("hyper", [{}, {"rank": 3, "every": 1}, {"scale": 1.0, "every": 30}])
def test_it_follows_the_authors_for_100_steps(form, hyper):
    renamed = {{"every": "gap"}.get(name, name): value for name, value in hyper.items()}
    case = Case(
        "transcription of Zhao et al. 2024", lambda p: ours(p, form=form, **hyper), lambda p: theirs(p, **renamed),
        shapes=SHAPES,
    )  # fmt: skip
    assert error(case) < 1e-9


@pytest.mark.parametrize("make", [AdamW, Lion, SGD, Muon])
@pytest.mark.parametrize("form", ["stacked", "auto"])
def test_the_forms_agree(make, form):
    results = []
    for each in ("loop", form):
        params = weights(shapes=SHAPES)
        train(wrapped(make)(params, form=each), params, range(30))
        results.append(params)
    assert difference(*results) < 1e-12


def test_a_population_takes_the_steps_of_its_members():
    shapes = ((6, 4), (4, 9), (7,))
    together = weights(shapes=shapes, population=3)
    rates = (0.01, 0.02, 0.03)
    train(wrapped(AdamW)(together, lr=rates, population=3), together, range(30))
    for member, rate in enumerate(rates):
        alone = weights(shapes=shapes)
        train(wrapped(AdamW)(alone, lr=rate, form="loop"), alone, range(30))
        assert difference([each[member] for each in together], alone) < 1e-12


def test_the_state_is_of_low_rank():
    w, v = nn.Parameter(torch.zeros(64, 48)), nn.Parameter(torch.zeros(64))
    optimizer = wrapped(AdamW, rank=4)([w, v])
    for param in (w, v):
        param.grad = torch.randn_like(param)
    optimizer.step()
    shapes = {name: tuple(tensor.shape) for name, tensor in optimizer.state[w].items() if tensor.dim()}
    assert shapes == {"projector": (48, 4), "exp_avg": (64, 4), "exp_avg_sq": (64, 4)}
    assert optimizer.state[v]["exp_avg"].shape == (64,)


def test_a_step_lies_in_the_leading_directions():
    """Plain gradient descent, scale 1: the step is the best approximation of the gradient of that rank."""
    w = nn.Parameter(torch.zeros(8, 5, dtype=torch.float64))
    w.grad = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wrapped(SGD, scale=1.0)([w], lr=1.0, momentum=0.0).step()
    u, s, vh = torch.linalg.svd(w.grad, full_matrices=False)
    torch.testing.assert_close(-w.detach(), u[:, :2] * s[:2] @ vh[:2], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("stop", [1, 6, 7, 8])
@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_it_resumes_bit_for_bit_around_a_refresh(stop, form):
    whole = weights(shapes=SHAPES)
    train(wrapped(AdamW)(whole, form=form), whole, range(20))
    first = weights(shapes=SHAPES)
    optimizer = wrapped(AdamW)(first, form=form)
    train(optimizer, first, range(stop))
    stored = io.BytesIO()
    torch.save(optimizer.state_dict(), stored)
    stored.seek(0)
    again = wrapped(AdamW)(first, form=form)
    again.load_state_dict(torch.load(stored, weights_only=True))
    train(again, first, range(stop, 20))
    assert same(whole, first)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_keep_the_rule(copied):
    params = weights(shapes=SHAPES)
    optimizer = wrapped(AdamW)(params)
    train(optimizer, params, range(8))
    other, others = copied((optimizer, params))
    for each, own in ((optimizer, params), (other, others)):
        train(each, own, range(8, 20))
    assert same(params, others)


def test_state_of_another_rank_or_of_none_is_refused():
    params = weights(shapes=SHAPES)
    plain = AdamW(params, form="loop")
    train(plain, params, range(2))
    with pytest.raises(InputError, match="the loaded state lacks projector"):
        wrapped(AdamW)(params).load_state_dict(plain.state_dict())
    with pytest.raises(InputError, match="lacks projector"):
        plain.replace_rule(Galore(rank=2).rule)
    train(plain, params, range(2, 4))  # as it was


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 7))


@pytest.mark.parametrize("everywhere", [False, True])
def test_embeddings_and_the_output_layer_are_left_unless_asked(everywhere):
    model = network()
    galore = Galore(rank=2, everywhere=everywhere)
    galore.prepare(model)
    optimizer = AdamW(model)
    GradientDescent(optimizer, [galore])
    for param in model.parameters():
        param.grad = torch.randn_like(param)
    optimizer.step()
    projected = {name for name, param in model.named_parameters() if "projector" in optimizer.state[param]}
    assert projected == ({"0.weight", "1.weight", "3.weight"} if everywhere else {"1.weight"})


def test_a_parameter_that_is_not_the_model_s_is_refused_where_its_role_matters():
    galore = Galore(rank=2)
    galore.prepare(network())
    with pytest.raises(InputError, match="everywhere=true"):
        AdamW([nn.Parameter(torch.zeros(8, 8))]).replace_rule(galore.rule)


def test_a_gradient_that_is_not_finite_is_seen_in_the_weights_and_does_not_raise():
    w = nn.Parameter(torch.zeros(6, 5))
    w.grad = torch.randn(6, 5)
    w.grad[0, 0] = torch.nan
    wrapped(SGD)([w]).step()
    assert w.isnan().any()


def test_what_its_projection_would_change_is_refused():
    model = network()
    with pytest.raises(InputError, match="ScheduleFreeAdamW moves the weights in its own way"):
        wrapped(ScheduleFreeAdamW)(model)
    with pytest.raises(InputError, match="Galore changes an optimizer's rule, and SGD has none to change"):
        GradientDescent(torch.optim.SGD(model.parameters()), [Galore()])
    with pytest.raises(InputError, match="form"):
        wrapped(AdamW)(model, form="torch")


@pytest.mark.parametrize("name", catalogue.paths("optimizers"))
def test_every_optimizer_has_low_rank_state_or_is_refused_in_one_line(name):
    build = catalogue.load("optimizers", name).build
    results, shapes, refusal = [], ((6, 4), (4, 9), (5, 3, 2, 2), (7,), ()), ""
    for form in ("loop", "stacked"):
        params = weights(shapes=shapes)
        try:
            optimizer = wrapped(build)(params, form=form)
        except InputError as error:
            refusal = str(error)
            break
        train(optimizer, params, range(9))
        assert optimizer.state[params[0]]["projector"].shape == (4, 2)
        results.append(params)
    assert "\n" not in refusal
    if not refusal:
        assert difference(*results) < 1e-12
        assert difference(results[0], weights(shapes=shapes)) > 1e-6


@pytest.mark.parametrize("outer", [False, True])
def test_low_rank_state_may_be_in_eight_bits(outer):
    w = nn.Parameter(torch.zeros(64, 48))
    w.grad = torch.randn(64, 48, generator=torch.Generator().manual_seed(0))
    components = [Galore(rank=4, scale=1.0), EightBitState(block=16, smallest=1)]
    optimizer = AdamW([w])
    GradientDescent(optimizer, components[:: 1 if outer else -1])
    optimizer.step()
    state = optimizer.state[w]
    assert (state["projector"].dtype, state["projector"].shape) == (torch.float32, (48, 4))
    assert (state["exp_avg"].dtype, state["exp_avg"].numel()) == (torch.uint8, 64 * 4)
    assert torch.linalg.matrix_rank(w.detach()) == 4


def test_between_refreshes_nothing_is_decomposed_and_the_host_does_not_wait():
    params = weights(shapes=((6, 4), (4, 9)))
    optimizer = wrapped(AdamW)(params, form="stacked")
    train(optimizer, params, range(2))
    assert not {"_linalg_svd", "linalg_svd"} & kernels(optimizer.step).keys()
    assert host_synchronisations(optimizer.step) == 0


def test_a_rank_that_projects_nothing_is_refused() -> None:
    model = nn.Sequential(nn.Linear(20, 8), nn.Linear(8, 3))
    component = Galore(rank=8)
    component.prepare(model)
    with pytest.raises(
        InputError, match="with rank 8 nothing is projected: the smaller sides of the matrices are at most 8"
    ):
        GradientDescent(AdamW(model), [component])
    GradientDescent(AdamW(model), [Galore(rank=7)])


def test_an_optimizer_that_it_would_change_is_refused_whatever_the_shapes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    with pytest.raises(InputError, match="SOAP does work of its own now and then"):
        GradientDescent(catalogue.load("optimizers", "soap").build(model), [Galore(rank=128)])
