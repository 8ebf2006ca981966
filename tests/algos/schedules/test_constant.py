"""The constant schedule."""

import pytest

from algos.contracts import Progress
from algos.schedules.constant import Constant


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_it_leaves_the_rate_as_given(fraction):
    assert Constant()(Progress(7, fraction)) == 1.0
