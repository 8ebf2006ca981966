"""Magnitude pruning: the paper's schedule, exact counts, and that nothing brings a pruned weight back."""

import copy

import pytest
import torch
from torch import nn

from algos.compression.magnitude_pruning import MagnitudePruning, prunable
from algos.contracts import Progress
from algos.finding import InputError
from algos.losses.cross_entropy import CrossEntropy
from algos.wrappers.ema import Ema

UPDATES = 60


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv1d(1, 3, 2), nn.Flatten(), nn.Linear(9, 7), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, 3))


def batch_of(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, 1, 4, generator=generator), torch.randint(3, (16,), generator=generator)


def train(oracle, pruning, optimizer, start=0, stop=UPDATES):
    for update in range(start, stop):
        grads = oracle.gradient(batch_of(update)).grads
        for name, weight in oracle.named_parameters():
            weight.grad = grads[name]
        optimizer.step()
        pruning.updated(oracle, Progress(update + 1, (update + 1) / UPDATES))


def begun(plain_oracle, **hyper):
    model = network()
    pruning = MagnitudePruning(**{"every": 7, **hyper})
    pruning.prepare(model)
    oracle = plain_oracle(model, CrossEntropy())
    return pruning, oracle, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def zeros(model):
    weights = prunable(model)
    return sum(int((weight == 0).sum()) for weight in weights.values()), sum(w.numel() for w in weights.values())


def test_the_schedule_is_the_papers():
    """s_t = s_f + (s_i - s_f)(1 - (t - t_0)/(n dt))^3: from 0 to 0.8 between 0.2 and 0.6 of the budget."""
    pruning = MagnitudePruning(sparsity=0.8, begin=0.2, end=0.6)
    fractions = (0.0, 0.19, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0)
    expected = (0, 0, 0, 0.8 * (1 - 0.75**3), 0.8 * (1 - 0.5**3), 0.8 * (1 - 0.25**3), 0.8, 0.8)
    assert [pruning.sparsity_at(f) for f in fractions] == pytest.approx(expected)
    assert MagnitudePruning(sparsity=0.8, initial=0.5, begin=0.2, end=0.6).sparsity_at(0.4) == pytest.approx(0.7625)


def test_a_hand_made_case():
    """Half of (1, -2, 3, -4 | 5, 6): globally 1, 2, 3; by layer 1, 2 and 5."""
    for scope, expected in (("global", [0, 0, 0, -4, 5, 6]), ("layer", [0, 0, 3, -4, 0, 6])):
        model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        with torch.no_grad():
            model[0].weight.copy_(torch.tensor([[1.0, -2.0], [3.0, -4.0]]))
            model[1].weight.copy_(torch.tensor([[5.0, 6.0]]))
        pruning = MagnitudePruning(sparsity=0.5, scope=scope)
        pruning.prepare(model)
        pruning.finalize(model)
        assert torch.cat([w.detach().flatten() for w in model.parameters()]).tolist() == expected


def test_matrices_and_convolutions_are_pruned_and_nothing_else():
    model = nn.ModuleDict(
        {"table": nn.Embedding(5, 4), "maps": network(), "tied": nn.Linear(4, 5), "norm": nn.BatchNorm1d(4)}
    )
    model["tied"].weight = model["table"].weight
    assert sorted(prunable(model)) == ["maps.0.weight", "maps.2.weight", "maps.5.weight"]
    model["maps"][2].weight.requires_grad_(False)
    assert "maps.2.weight" not in prunable(model)


@pytest.mark.parametrize("scope", ["global", "layer"])
@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.83])
def test_the_final_sparsity_is_exact_and_momentum_revives_nothing(plain_oracle, scope, sparsity):
    pruning, oracle, optimizer = begun(plain_oracle, sparsity=sparsity, scope=scope, begin=0.1, end=0.5)
    train(oracle, pruning, optimizer)
    moving = sum(
        int((optimizer.state[w]["momentum_buffer"] != 0)[w == 0].sum()) for w in prunable(oracle.model).values()
    )
    assert moving > 0, "the momentum of pruned weights is not zero: it would move them"
    pruning.finalize(oracle.model)
    sizes = [weight.numel() for weight in prunable(oracle.model).values()]
    asked = round(sparsity * sum(sizes)) if scope == "global" else sum(round(sparsity * size) for size in sizes)
    assert zeros(oracle.model) == (asked, sum(sizes))


def test_the_sparsity_follows_the_schedule_between_and_never_falls(plain_oracle):
    pruning, oracle, optimizer = begun(plain_oracle, sparsity=0.8, begin=0.1, end=0.7)
    counts = []
    for update in range(UPDATES):
        train(oracle, pruning, optimizer, update, update + 1)
        counts.append(zeros(oracle.model)[0])
    total = zeros(oracle.model)[1]
    assert counts == sorted(counts)
    assert counts[26] == round(pruning.sparsity_at(27 / UPDATES) * total)  # 27 = 6 + 3*7 is a time to mark
    assert counts[32] == counts[26]  # 33 is not
    assert counts[41] == counts[-1] == round(0.8 * total)  # 42 = 0.7 of 60


def test_equal_magnitudes_are_pruned_to_the_exact_count(plain_oracle):
    model = nn.Linear(10, 10)
    nn.init.ones_(model.weight)
    pruning = MagnitudePruning(sparsity=0.37)
    pruning.prepare(model)
    pruning.finalize(model)
    assert zeros(model) == (37, 100)


def test_weights_pruned_once_stay_pruned_beside_other_zeros(plain_oracle):
    """A layer that starts at zero does not take the places of weights marked before."""
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    pruning = MagnitudePruning(sparsity=0.75, initial=0.25, begin=0.0, end=1.0, every=1)
    pruning.prepare(model)
    oracle = plain_oracle(model, None)
    with torch.no_grad():
        model[1].weight.copy_(torch.arange(1.0, 17).reshape(4, 4) / 100)
        model[0].weight.fill_(1.0)
    pruning.updated(oracle, Progress(1, 0.0))
    first = {name: kept.clone() for name, kept in pruning.state_dict()["kept"].items()}
    nn.init.zeros_(model[0].weight)
    pruning.updated(oracle, Progress(2, 0.5))
    for name, kept in pruning.state_dict()["kept"].items():
        assert not kept[~first[name]].any()


def test_a_copy_of_the_model_goes_on_pruned(plain_oracle):
    pruning, oracle, optimizer = begun(plain_oracle)
    train(oracle, pruning, optimizer, 0, 45)
    other = plain_oracle(copy.deepcopy(oracle.model), CrossEntropy())
    marked = zeros(other.model)[0]
    momentum = torch.optim.SGD(other.model.parameters(), lr=0.1, momentum=0.9)
    momentum.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(other, copy.deepcopy(pruning), momentum, 45, 55)
    train(oracle, pruning, optimizer, 45, 55)
    assert marked > 0
    for mine, theirs in zip(other.model.parameters(), oracle.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_averaged_weights_are_evaluated_and_left_pruned(plain_oracle):
    """An average remembers weights from before they were pruned."""
    pruning, oracle, optimizer = begun(plain_oracle, sparsity=0.8, begin=0.5, end=0.5)
    ema = Ema(decay=0.99, warmup=False)
    ema.prepare(oracle.model)
    for update in range(UPDATES):
        train(oracle, pruning, optimizer, update, update + 1)
        ema.updated(oracle, Progress(update + 1, (update + 1) / UPDATES))
    trained = {name: tensor.clone() for name, tensor in oracle.model.state_dict().items()}
    with ema.evaluating(oracle):
        assert zeros(oracle.model)[0] == 0
        with pruning.evaluating(oracle):
            assert zeros(oracle.model)[0] == round(0.8 * zeros(oracle.model)[1])
    for name, tensor in oracle.model.state_dict().items():
        assert torch.equal(tensor, trained[name])
    with ema.evaluating(oracle), pruning.evaluating(oracle):
        pruning.finalize(oracle.model)
        ema.finalize(oracle.model)
    assert zeros(oracle.model)[0] == round(0.8 * zeros(oracle.model)[1])


def test_it_refuses_what_it_cannot_do():
    with pytest.raises(InputError, match="no matrix or convolution to prune"):
        MagnitudePruning().prepare(nn.LayerNorm(3))
    with pytest.raises(InputError, match=r"begin=0.8 is above end=0.7; give begin at most end"):
        MagnitudePruning(begin=0.8)
