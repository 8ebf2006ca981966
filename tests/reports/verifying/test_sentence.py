"""Numbers as people write them, at the precision at which they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.verifying.sentence import said


@pytest.mark.parametrize(
    ("sentence", "value", "places"),
    [
        ("Muon reaches the target in 0.62x of AdamW's updates", 0.62, 2),
        ("1.6x faster", 1.6, 1),
        ("it takes 0.62× as long", 0.62, 2),
        ("97.4 % of the images of CIFAR-10", 0.974, 3),
        ("97.4% of them", 0.974, 3),
        ("97.4\\% in LaTeX", 0.974, 3),
        ("12 percent fewer", 0.12, 2),
        ("a loss of 1,234.5 nats", 1234.5, 1),
        ("worse by −0.3", -0.3, 1),
        ("worse by -0.3", -0.3, 1),
        ("a rate of 4.2e-5", 4.2e-5, 6),
        ("it is .5", 0.5, 1),
        ("It is 5.", 5.0, 0),
        ("ResNet-18 on CIFAR10 gets 93.1 with Adam2 and seed_3", 93.1, 1),
    ],
)
def test_a_number_is_read_with_its_precision(sentence: str, value: float, places: int) -> None:
    found = said(sentence).value
    assert found is not None
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.places == places


@pytest.mark.parametrize(
    ("sentence", "low", "high"),
    [
        ("0.62x [0.55, 0.70] of the updates", 0.55, 0.70),
        ("62 % (95 % CI 55 % to 70 %)", 0.55, 0.70),
        ("62 % [55, 70]", 0.55, 0.70),
        ("62 (55–70)", 55, 70),
        ("1,230 [870, 1,590] updates", 870, 1590),
        ("better by 0.1 [−0.2, 0.4]", -0.2, 0.4),
    ],
)
def test_an_interval_is_read(sentence: str, low: float, high: float) -> None:
    found = said(sentence)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert (found.low.value, found.high.value) == pytest.approx((low, high))


def test_the_number_before_the_interval_is_meant() -> None:
    found = said("Of 12 seeds on 3 tasks, 0.62 [0.55, 0.70]")
    assert found.value is not None
    assert found.value.text == "0.62"


def test_a_half_width_is_read() -> None:
    found = said("0.974 ± 0.003 over 5 seeds")
    assert found.value is not None
    assert found.half is not None
    assert (found.value.value, found.half.value) == (0.974, 0.003)


def test_count_and_confidence_are_read() -> None:
    found = said("0.62 (90 % CI [0.55, 0.70], n = 5)")
    assert (found.n, found.confidence) == (5, 0.9)


def test_where_several_could_be_meant_none_is_until_it_is_said() -> None:
    assert said("3 of 5 seeds reach 0.9").value is None
    found = said("3 of 5 seeds reach 0.9", written="0.9").value
    assert found is not None
    assert found.value == 0.9


def test_a_sentence_without_a_number_has_none() -> None:
    assert said("Muon (arXiv) is fast on MNIST-1D and C4").value is None


def test_a_bound_is_a_bound() -> None:
    found = said("p < 0.001").p
    assert found is not None
    assert found.says(0.0002)
    assert not found.says(0.002)


@pytest.mark.parametrize(
    ("sentence", "true", "false"),
    [
        ("right in at least 90 % of pairs", 0.9, 0.89),
        ("no less than 0.9", 0.9, 0.89),
        ("more than 0.9", 0.91, 0.9),
        ("not above 0.9", 0.9, 0.91),
        ("fewer than 900 updates", 899, 900),
        ("at most 0.62x", 0.62, 0.63),
        ("$\\geq 0.9$", 0.9, 0.89),
        ("a share ≤ 0.9", 0.9, 0.91),
        ("a share > 0.9", 0.91, 0.9),
    ],
)
def test_words_and_signs_before_a_number_make_it_a_bound(sentence: str, true: float, false: float) -> None:
    found = said(sentence).value
    assert found is not None
    assert found.says(true)
    assert not found.says(false)


@pytest.mark.parametrize(
    ("written", "sign", "value"),
    [
        ("p < 0.05", "<", 0.05),
        ("$p$ = 0.03", "", 0.03),
        ("*p* ≤ .01", "<=", 0.01),
        ("p_{adj} \\leq 0.01", "<=", 0.01),
        ("P=0.9", "", 0.9),
        ("a p-value of 0.2", "", 0.2),
        ("p-value: 3e-4", "", 3e-4),
        ("p is below 0.1", "<", 0.1),
        ("a p-value of at most 0.1", "<=", 0.1),
        ("p was 0.1", "", 0.1),
        ("p < 5 %", "<", 0.05),
        ("p < 10^{-3}", "<", 1e-3),
        ("p = 2.1 × 10⁻⁵", "", 2.1e-5),
        ("p < 1 \\times 10^{-10}", "<", 1e-10),
        ("p < 10⁻¹⁰", "<", 1e-10),
        ("𝑝 > 0.3", ">", 0.3),
        ("the norm with p = 2", "", None),
        ("P(Adam wins) is 0.9", "", None),
        ("top-p of 0.9", "", None),
    ],
)
def test_a_p_value_stands_apart(written: str, sign: str, value: float | None) -> None:
    found = said(f"Better by 0.03 [0.02, 0.04] ({written})")
    assert found.value is not None
    assert found.value.text == "0.03"
    if value is None:
        assert found.p is None
    else:
        assert found.p is not None
        assert (found.p.sign, found.p.value) == (sign, pytest.approx(value, rel=1e-12))


def test_a_p_value_is_not_the_number_of_its_sentence() -> None:
    found = said("Adam is better (p < 0.05)")
    assert (found.value, found.others) == (None, ())


def test_of_several_p_values_none_is_meant_until_it_is_said() -> None:
    sentence = "p = 0.01 on one, p = 0.2 on the other"
    assert said(sentence).p is None
    assert len(said(sentence).others) == 2
    found = said(sentence, written="0.2").p
    assert found is not None
    assert found.value == 0.2


def test_what_a_report_rounds_to_tens_is_what_it_says() -> None:
    """A report writes 1234 [868, 1594] as 1,230 [870, 1,590]: as many digits as the interval supports."""
    found = said("1,230 [870, 1,590]").value
    assert found is not None
    assert found.says(1234.0, 868.0, 1594.0)
    assert not found.says(1244.0, 868.0, 1594.0)
    assert not found.says(1234.0)


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_any_number_is_what_is_written_of_it(number: float, places: int) -> None:
    """Where a digit of it is: 0.00 says nothing of 0.004 but where an interval is as wide."""
    found = said(f"it is {number:.{places}f} there").value
    assert found is not None
    assert found.says(number, number - 1, number + 1)
    if number == 0 or abs(number) >= 10.0**-places:
        assert found.says(number)
    assert not found.says(number + 1.01 * 10.0**-places)
    assert not found.says(None)


@given(st.floats(0, 1), st.integers(0, 4))
def test_a_percentage_is_a_share(share: float, places: int) -> None:
    found = said(f"{100 * share:.{places}f} % of them").value
    assert found is not None
    assert found.says(share, share - 0.5, share + 0.5)
    assert not found.says(share + 1.01 * 10.0 ** -(places + 2))


@pytest.mark.parametrize(
    ("written", "number"),
    [("0", 0.4), ("1", 0.62), ("1x", 0.968), ("0e9", 0.62), ("1 %", 0.0078), ("0.0", 0.04), ("-0", -0.3)],
)
def test_what_has_no_digit_of_a_number_does_not_say_it(written: str, number: float) -> None:
    found = said(f"it is {written} there").value
    assert found is not None
    assert not found.says(number)
    assert found.coarse(number)


def test_what_is_as_fine_as_the_interval_is_wide_says_it() -> None:
    found = said("better by 0.00 [-0.01, 0.01]").value
    assert found is not None
    assert found.says(0.0004, -0.0083, 0.0096)
    assert not found.says(0.0004, -0.0003, 0.0011)
    one = said("it is 1x").value
    assert one is not None
    assert one.says(0.9999999999999999)


@pytest.mark.parametrize(
    ("sentence", "of"),
    [
        ("0.62 × 10^3 updates", "× 10^3"),
        ("0.62 million updates", "million"),
        ("0.62 k updates", "k updates"),
        ("0.62‰ of them", "‰"),
        ("1/0.62 of them", "1/"),
        ("1 - 0.62 of them", "1 -"),
        ("0.62² of them", "²"),
        ("10^{0.62}", "10^{"),
        ("sqrt(0.62)", "sqrt("),
        ("0.6–0.62 of them", "0.6–"),
        ("not 0.62x", "not"),
        ("it isn't 0.62x", "n't"),
        ("0.62 [0.55, 0.70] × 10^3", "× 10^3"),
        ("0.62 ± 0.07 million", "million"),
    ],
)
def test_a_number_that_is_a_part_of_something_else_is_not_what_is_said(sentence: str, of: str) -> None:
    assert of in said(sentence, written="0.62").unclear


@pytest.mark.parametrize(
    "sentence",
    [
        "Muon needs **0.62x** of the updates",
        "on CIFAR-10 - 0.62x of the updates",
        "ResNet-18: $0.62\\times$ of it",
        "0.62x AdamW's updates (n = 5)",
        "not only on one task, 0.62 [0.55, 0.70]",
        "5 seeds – 0.62x",
        "0.62 ± 0.07",
    ],
)
def test_marks_around_a_number_do_not_change_it(sentence: str) -> None:
    found = said(sentence, written="0.62")
    assert found.unclear == ""
    assert found.value is not None
    assert found.value.says(0.62)


@pytest.mark.parametrize("sentence", ["0.62k updates", "version 0.62.3", "1.0e0.62", "1e99999", "5M of them"])
def test_digits_of_a_longer_word_are_no_number(sentence: str) -> None:
    assert said(sentence).value is None


@pytest.mark.parametrize("sentence", ["from 1 -> 0.5x", "it is => 0.5x", "<b>0.5</b>x of it"])
def test_an_arrow_or_a_tag_makes_no_bound(sentence: str) -> None:
    found = said(sentence, written="0.5").value
    assert found is not None
    assert not found.says(0.62)


@pytest.mark.parametrize(
    ("sentence", "true", "false"),
    [
        ("it is not > 0.5", 0.5, 0.51),
        ("it isn't more than 0.5", 0.5, 0.51),
        ("it is not at least 0.5", 0.49, 0.5),
        ("it is never below 0.5", 0.5, 0.49),
        ("it is between 0.5 and 0.6", 0.55, 0.61),
        ("it is between 0.5 and 0.6", 0.5, 0.49),
        ("between 50 and 60 % of them", 0.55, 0.61),
    ],
)
def test_a_negated_bound_is_the_opposite_and_between_has_two(sentence: str, true: float, false: float) -> None:
    found = said(sentence).value
    assert found is not None
    assert found.says(true)
    assert not found.says(false)


@pytest.mark.parametrize(
    "sentence", ["62  % of it", "62\\,\\% of it", "62 pct of it", "$62$\\,\\%", "62\u00a0% of it", "62％ of it"]
)
def test_a_percent_sign_is_one_however_far_it_stands(sentence: str) -> None:
    found = said(sentence).value
    assert found is not None
    assert found.value == pytest.approx(0.62)


def test_two_counts_or_confidences_are_unclear() -> None:
    assert said("0.62x (n = 5, n = 100)").unclear == "it says n = 5 and n = 100"
    assert "95% and a confidence of 99%" in said("0.62x (95 % CI, 99 % CI)").unclear


def test_what_stands_beside_the_number_that_is_meant_is_left() -> None:
    assert said("0.62x [0.55, 0.70] of the updates and 5x faster").left == ("5",)
    assert said("0.62x [0.55, 0.70] and 0.5x [0.4, 0.6]").left == ("0.5", "[0.4, 0.6]")
    assert said("0.62 and 0.5, p < 0.01, p = 0.3", written="0.5").left == ("0.62", "p < 0.01", "p = 0.3")
    assert said("0.62x [0.55, 0.70] (n = 5, 95 % CI, p < 0.05)").left == ()


def test_an_interval_is_of_the_number_before_it() -> None:
    found = said("0.5x of the updates, 0.62 [0.55, 0.70] of the time", written="0.5")
    assert (found.low, found.high) == (None, None)


def test_a_p_value_without_a_sign_is_one() -> None:
    found = said("Better by 0.03 (p-value 0.001)")
    assert found.p is not None
    assert found.p.value == 0.001


def test_written_as_yaml_reads_it_is_the_number_that_is_meant() -> None:
    found = said("0.9680 of 5 seeds", written="0.968").value
    assert found is not None
    assert found.text == "0.9680"
