"""A device is the one asked for, or an error that says how to get it."""

import subprocess
import sys

import pytest
import torch

from algos.finding import InputError
from experiments import devices
from experiments.devices import choosing


class Pretend(choosing.DeviceKind):
    """A kind of device that is said to be there."""

    accelerator = "cuda"
    cure = "plug it in"

    def __init__(self, name, count):
        self.name = name
        self._count = count

    def missing(self):
        return "" if self._count else "none is plugged in"

    def count(self):
        return self._count

    def model(self, device):
        return "pretended"

    capability = model

    def synchronise(self, device):
        raise NotImplementedError


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(
        choosing, "KINDS", {"cuda": Pretend("cuda", 2), "npu": Pretend("npu", 0), "cpu": choosing.Cpu()}
    )


def test_the_cpu_is_always_there():
    assert devices.resolve("cpu") == torch.device("cpu")


def test_auto_takes_the_best_that_is_there(two_gpus):
    assert devices.resolve("auto") == torch.device("cuda:0")


def test_auto_without_an_accelerator_is_the_cpu(monkeypatch):
    monkeypatch.setattr(choosing, "KINDS", {"cuda": Pretend("cuda", 0), "cpu": choosing.Cpu()})
    assert devices.resolve("auto") == torch.device("cpu")


def test_a_device_comes_back_with_its_index(two_gpus):
    assert devices.resolve("cuda") == torch.device("cuda:0")
    assert devices.resolve("cuda:1") == torch.device("cuda:1")


def test_what_is_not_there_is_refused_with_its_cure(two_gpus):
    with pytest.raises(
        InputError, match="device 'npu' is not there: none is plugged in; plug it in, or give device=auto"
    ):
        devices.resolve("npu")
    with pytest.raises(InputError, match="device 'cuda:2' is not there; what is there: cuda:0, cuda:1"):
        devices.resolve("cuda:2")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_here_cuda_is_refused_and_not_replaced_by_the_cpu():
    with pytest.raises(InputError, match=r"device 'cuda' is not there: torch .*; install a GPU driver"):
        devices.resolve("cuda")


@pytest.mark.skipif(hasattr(torch, "npu"), reason="torch-npu is there")
def test_here_npu_is_refused_naming_torch_npu():
    with pytest.raises(InputError, match="torch-npu is not installed; install CANN and the torch-npu"):
        devices.resolve("npu")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("cdua", "unknown device 'cdua'; did you mean 'cuda'"),
        ("gpu", "unknown device 'gpu'; say which: cuda, npu or mps"),
        ("cuda:x", "device='cuda:x' is not valid; give e.g. cuda or cuda:0"),
        ("cpu:3", "device 'cpu:3' is not there; what is there: cpu"),
        ("", "unknown device ''"),
    ],
)
def test_words_that_name_no_device(given, said):
    with pytest.raises(InputError, match=said):
        devices.resolve(given)


def test_lightning_is_told_the_very_device(two_gpus):
    device = devices.resolve("cuda:1")
    assert (devices.accelerator(device), devices.indices(device)) == ("cuda", [1])
    assert (devices.accelerator("cpu"), devices.indices("cpu")) == ("cpu", 1)


def test_lightning_knows_the_names():
    from lightning.pytorch.accelerators import AcceleratorRegistry

    known = AcceleratorRegistry.available_accelerators()
    assert {choosing.KINDS[name].accelerator for name in ("cpu", "cuda", "mps")} <= set(known)


def test_importing_it_loads_no_torch():
    code = "import sys, experiments.devices, experiments.clock; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_waiting_for_the_cpu_is_nothing():
    devices.synchronise("cpu")
