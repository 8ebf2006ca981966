"""The facts of a device that a run stores."""

import json

import torch

from experiments import devices


def test_the_facts_are_those_that_bits_depend_on():
    facts = devices.facts(torch.device("cpu"))
    assert facts["type"] == "cpu"
    assert facts["threads"] == torch.get_num_threads()
    assert facts["name"] == facts["processor"] != ""
    assert facts["capability"] == torch.backends.cpu.get_cpu_capability()
    assert facts["cores"] >= 1
    assert json.loads(json.dumps(facts)) == facts


def test_the_number_of_threads_is_the_one_in_use():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert devices.facts("cpu")["threads"] == before + 1
    finally:
        torch.set_num_threads(before)
