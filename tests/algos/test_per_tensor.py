"""A per-tensor optimizer is a torch optimizer: groups, schedulers, state, and what users do to models meanwhile."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.finding import InputError
from algos.noisy_quadratic import difference, same, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.optimizers.muon import Muon
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW
from algos.optimizers.sgd import SGD
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Real

FORMS = ["loop", "stacked", "torch"]


def give_ones(params: Any) -> None:
    for param in params:
        param.grad = torch.ones_like(param)


def test_what_it_is_given() -> None:
    model = nn.Linear(3, 2)
    for given in (model, model.parameters(), model.named_parameters(), [{"params": model.parameters()}]):
        found = [param for group in AdamW(given).param_groups for param in group["params"]]
        assert {id(param) for param in found} == {id(param) for param in model.parameters()}
    assert AdamW(model.named_parameters()).param_groups[0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (nn.ReLU(), "no parameters"),
        (torch.ones(2), "one tensor is not a list"),
        ([torch.ones(2, dtype=torch.int64)], "dtype torch.int64"),
        ([{"params": [torch.ones(2)], "weight_deacy": 0.1}], "did you mean 'weight_decay'"),
        ([{"params": [torch.ones(2)], "lr": -1.0}], r"AdamW.lr: -1.0 is not valid; give a number in \(0, inf\)"),
    ],
)
def test_what_it_refuses(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        AdamW(given)


def test_groups_look_like_torch_s() -> None:
    optimizer = AdamW([{"params": [nn.Parameter(torch.ones(2))], "lr": 0.5}, {"params": [nn.Parameter(torch.ones(3))]}])
    first, second = optimizer.param_groups
    assert (first["lr"], first["initial_lr"], first["betas"], first["weight_decay"]) == (0.5, 0.5, (0.9, 0.999), 0.01)
    assert second["lr"] == 1e-3
    assert optimizer.defaults["lr"] == 1e-3


@pytest.mark.parametrize("form", FORMS)
def test_a_torch_scheduler_drives_it(form: str) -> None:
    params = [nn.Parameter(torch.zeros(3, dtype=torch.float64))]
    optimizer = SGD(params, lr=1.0, momentum=0.0, form=form)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    for _ in range(3):
        give_ones(params)
        optimizer.step()
        schedule.step()
    assert params[0].tolist() == [-1.75] * 3


@pytest.mark.parametrize("form", FORMS)
def test_step_hooks_run(form: str) -> None:
    params, called = weights(), []
    optimizer = AdamW(params, form=form)
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    give_ones(params)
    optimizer.step()
    assert called == ["before", "after"]


def test_torch_form_is_refused_where_it_cannot_be_had() -> None:
    params = weights()
    for build, said in (
        (lambda: Lion(params, form="torch"), "torch has no Lion"),
        (lambda: AdamW(weights(torch.bfloat16), form="torch"), "low-precision"),
        (lambda: AdamW(weights(population=2), form="torch", population=2), "populations"),
        (lambda: AdamW(params, form="fused"), "give one of auto, torch, loop, stacked"),
    ):
        with pytest.raises(InputError, match=said):
            build()
    optimizer = AdamW(params, form="torch")
    with pytest.raises(InputError, match="no directions"):
        optimizer.directing = lambda params, grads, directions: directions
    assert optimizer.directing is None


def test_auto_chooses_what_was_measured_to_be_fastest() -> None:
    small, large = [torch.zeros(8, 8)] * 1, [torch.zeros(600, 600)]
    assert AdamW(small).form == "torch"
    assert Lion(small).form == "stacked"
    assert Lion(large).form == "loop"
    assert Lion([torch.zeros(2, 600, 600)], population=2).form == "stacked"
    optimizer = AdamW([nn.Parameter(torch.ones(4))])
    give_ones(optimizer.param_groups[0]["params"])
    optimizer.step()
    optimizer.directing = lambda params, grads, directions: (
        directions
    )  # torch's cannot: it changes over, with its state
    assert optimizer.form == "stacked"
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 2


def test_tied_weights_stay_tied() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    optimizer = Lion(model, form="stacked")
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    assert model[1].weight is model[0].weight
    assert len([param for group in optimizer.param_groups for param in group["params"]]) == 3


def test_state_and_parameters_are_views_of_the_stack() -> None:
    params = weights()
    optimizer = AdamW(params, form="stacked")
    train(optimizer, params, range(2))
    assert len({param.untyped_storage().data_ptr() for param in params if param.numel()}) == 1
    for name in ("exp_avg", "exp_avg_sq", "step"):
        assert (
            len({optimizer.state[param][name].untyped_storage().data_ptr() for param in params if param.numel()}) == 1
        )
    optimizer.state[params[0]]["exp_avg"].zero_()  # as a mask would
    for param in params:
        param.grad = torch.zeros_like(param)
    optimizer.step()
    assert not optimizer.state[params[0]]["exp_avg"].any()
    assert optimizer.state[params[1]]["exp_avg"].any()


def test_autograd_sees_a_step_in_between() -> None:
    """A step between forward and backward is an error, as with torch's optimizers, never a wrong gradient."""
    w = nn.Parameter(torch.ones(3))
    optimizer = Lion([w], form="stacked")
    give_ones([w])
    optimizer.step()
    loss = (w * w).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_that_move_are_found_again() -> None:
    """New memory under a parameter, as model.to gives it, is trained on, with the state it had."""
    ours, theirs = weights(), weights()
    optimizer, reference = AdamW(ours, form="stacked"), AdamW(theirs, form="loop")
    for step in range(6):
        if step in (2, 4):
            for param in ours[step // 2 :]:
                param.data = param.data.clone()
        train(optimizer, ours, [step])
        train(reference, theirs, [step])
    assert difference(ours, theirs) < 1e-12


def test_a_model_loaded_in_place_is_trained_on() -> None:
    model = nn.Linear(3, 2)
    optimizer = Lion(model, form="stacked", lr=0.1)
    give_ones(model.parameters())
    optimizer.step()
    model.load_state_dict({"weight": torch.full((2, 3), 5.0), "bias": torch.full((2,), 7.0)})
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), torch.full((2, 3), 4.9))
    torch.testing.assert_close(model.bias.detach(), torch.full((2,), 6.9))


def test_parameters_that_share_memory_keep_sharing_it() -> None:
    block = torch.zeros(6)
    overlapping = [nn.Parameter(block[:4]), nn.Parameter(block[2:]), nn.Parameter(torch.zeros(2))]
    optimizer = SGD(overlapping, form="stacked", lr=1.0, momentum=0.0)
    give_ones(overlapping)
    optimizer.step()
    assert block.tolist() == [-1.0, -1.0, -2.0, -2.0, -1.0, -1.0]


def test_memory_shared_between_processes_is_not_taken_over() -> None:
    model = nn.Linear(2, 2).share_memory()
    optimizer = Lion(model, form="stacked")
    give_ones(model.parameters())
    optimizer.step()
    assert all(param.is_shared() for param in model.parameters())


def test_a_saved_model_holds_its_own_numbers_only() -> None:
    model = nn.Sequential(*[nn.Linear(20, 20) for _ in range(10)])
    optimizer = Lion(model, form="stacked")
    give_ones(model.parameters())
    optimizer.step()
    numbers = sum(param.nbytes for param in model.parameters())
    for saved in (model.state_dict(), optimizer.state_dict()):
        file = io.BytesIO()
        torch.save(saved, file)
        assert file.tell() < 2 * numbers
    copied = copy.deepcopy(model)
    assert all(param.untyped_storage().nbytes() == param.nbytes for param in copied.parameters())


@pytest.mark.parametrize("form", FORMS)
def test_sparse_gradients_are_refused(form: str) -> None:
    model = nn.Embedding(5, 2, sparse=True)
    optimizer = AdamW(model, form=form)
    model(torch.tensor([1])).sum().backward()
    with pytest.raises(InputError, match="sparse"):
        optimizer.step()


@pytest.mark.parametrize("form", FORMS)
def test_the_state_of_another_optimizer_is_refused(form: str) -> None:
    params = weights()
    lion = Lion(params, form="loop")
    train(lion, params, range(2))
    with pytest.raises(InputError, match="lacks exp_avg_sq, step"):
        AdamW(weights(), form=form).load_state_dict(lion.state_dict())


def test_loading_restores_hyperparameters_and_keeps_what_the_dict_lacks() -> None:
    source, target = Lion(weights(), lr=0.5), Lion(weights(), lr=0.1, weight_decay=0.3)
    saved = source.state_dict()
    del saved["param_groups"][0]["weight_decay"]
    target.load_state_dict(saved)
    assert target.param_groups[0]["lr"] == 0.5
    assert target.param_groups[0]["weight_decay"] == 0.3


def test_nested_evaluating_restores_once() -> None:
    params = weights()
    optimizer = ScheduleFreeAdamW(params, form="stacked")
    train(optimizer, params, range(5))
    before = [param.detach().clone() for param in params]
    with optimizer.evaluating():
        outer = [param.detach().clone() for param in params]
        with optimizer.evaluating():
            assert same(params, outer)
        assert same(params, outer)
    assert same(params, before)
    with pytest.raises(KeyError), optimizer.evaluating():
        raise KeyError
    assert same(params, before)


def test_an_optimizer_without_update_or_decay_of_its_own_is_one_page() -> None:
    """Mathematics that looks at a whole tensor, without weight decay: nothing else is needed."""

    class Normalized(PerTensorOptimizer):
        lr: float = Real(0.5, above=0)

        @staticmethod
        def init(param: Tensor, hyper: Any) -> dict[str, Tensor]:
            return {}

        @staticmethod
        def direction(param: Tensor, grad: Tensor, state: Any, hyper: Any) -> tuple[Tensor, Any]:
            return grad / grad.norm(), state

    for form in ("loop", "stacked"):
        params = [nn.Parameter(torch.zeros(2)) for _ in range(3)]
        optimizer = Normalized(params, form=form)
        for param in params:
            param.grad = torch.tensor([3.0, 4.0])
        optimizer.step()
        for param in params:
            torch.testing.assert_close(param.detach(), torch.tensor([-0.3, -0.4]))


@pytest.mark.parametrize("bad", [[0.1], [0.1, 0.2, 0.3], [0.1, -1.0]])
def test_a_population_s_values_are_checked(bad: list[float]) -> None:
    with pytest.raises(InputError, match=r"Lion\.lr"):
        Lion(weights(population=2), population=2, lr=bad)
    with pytest.raises(InputError, match=r"Lion\.lr"):
        Lion(weights(), lr=bad)


def test_a_population_needs_its_members_in_the_first_dimension() -> None:
    with pytest.raises(InputError, match="stack the 3 members"):
        Lion(weights(population=2), population=3)


@pytest.mark.parametrize("form", ["loop", "stacked"])
@pytest.mark.parametrize("build", [AdamW, Muon, ScheduleFreeAdamW])
def test_members_have_pairs_and_rates_of_their_own(form: str, build: type[PerTensorOptimizer]) -> None:
    """betas a member; the values set between steps too."""
    prefix = "fallback_" if build is Muon else ""
    betas = [(0.9, 0.99), (0.5, 0.8)]
    params = weights(population=2)
    hyper: dict[str, Any] = {f"{prefix}betas": betas, "weight_decay": [0.0, 0.2]}
    together = build(params, population=2, form=form, **hyper)
    for group in together.param_groups:
        group["initial_lr"] = [0.01, 0.03]
        group["initial_lr"] = tuple(group["initial_lr"])
    train(together, params, range(10))
    for member in range(2):
        lone = weights()
        optimizer = build(lone, form=form, **{name: values[member] for name, values in hyper.items()})
        for group in optimizer.param_groups:
            group["initial_lr"] = (0.01, 0.03)[member]
        train(optimizer, lone, range(10))
        assert difference([param[member] for param in params], lone) < 1e-12


@pytest.mark.parametrize("build", [AdamW, Lion, Muon, SGD, ScheduleFreeAdamW])
def test_a_population_s_state_moves_between_forms(build: type[PerTensorOptimizer]) -> None:
    params = weights(population=2)
    optimizer = build(params, population=2, form="loop", weight_decay=0.1)
    train(optimizer, params, range(5))
    copies = [nn.Parameter(param.detach().clone()) for param in params]
    other = build(copies, population=2, form="stacked", weight_decay=0.1)
    other.load_state_dict(optimizer.state_dict())
    train(optimizer, params, range(5, 15))
    train(other, copies, range(5, 15))
    assert difference(copies, params) < 1e-12
    before = other.state_dict()["state"]
    for key, state in optimizer.state_dict()["state"].items():
        assert {name: tensor.shape for name, tensor in state.items()} == {
            name: tensor.shape for name, tensor in before[key].items()
        }


@pytest.mark.parametrize("build", [AdamW, Muon])
@pytest.mark.parametrize("sizes", [(2, 5), (5, 32)])
def test_population_sizes_agree_bit_for_bit(build: type[PerTensorOptimizer], sizes: tuple[int, int]) -> None:
    found = []
    for size in sizes:
        params = weights(torch.float32, population=size)
        train(build(params, population=size, lr=[0.01 / (1 + i) for i in range(size)]), params, range(10))
        found.append([param[:2] for param in params])
    assert same(*found)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_step_under_autocast_is_the_step_outside_it(form: str) -> None:
    def network() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 4))

    inside, outside = network(), network()
    optimizers = [Muon(model, lr=0.1, form=form) for model in (inside, outside)]
    for i in range(3):
        for model in (inside, outside):
            generator = torch.Generator().manual_seed(i)
            for param in model.parameters():
                param.grad = torch.randn(param.shape, generator=generator)
        with torch.autocast("cpu", torch.bfloat16):
            (inside[0].weight @ inside[0].weight.T).sum()  # casts the weight, and keeps it
            optimizers[0].step()
            assert torch.is_autocast_enabled("cpu")
            assert torch.get_autocast_dtype("cpu") == torch.bfloat16
            product = inside[0].weight @ inside[0].weight.T
            cast = inside[0].weight.bfloat16()
            assert torch.equal(product, cast @ cast.T)  # of the new weight
        assert not torch.is_autocast_enabled("cpu")
        optimizers[1].step()
    for one, other in zip(inside.parameters(), outside.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_closure_keeps_the_autocast_it_was_called_under() -> None:
    w = nn.Parameter(torch.ones(2, 2))
    seen = []

    def closure() -> None:
        seen.append(torch.is_autocast_enabled("cpu"))
        w.grad = torch.ones(2, 2)

    with torch.autocast("cpu", torch.bfloat16):
        Muon([w]).step(closure)
    Muon([w]).step(closure)
    assert seen == [True, False]
