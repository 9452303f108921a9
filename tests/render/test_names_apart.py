"""Names in little room are told apart."""

from __future__ import annotations

import pytest

from tracekit.render._text import cell_width, shortened

BEGIN = "void at::native::vectorized_elementwise_kernel<4, at::native::"


def test_names_that_fit_or_differ_early_are_as_they_are() -> None:
    assert shortened(["gemm", "x" * 9], 8) == ["gemm", "xxxxxxx…"]
    assert shortened([], 8) == []


def test_names_that_begin_alike_lose_the_middle_of_what_they_share() -> None:
    names = [f"{BEGIN}AddFunctor<float> >", "gemm", f"{BEGIN}MulFunctor<float> >"]
    assert shortened(names, 40) == [
        "void at::native…ive::AddFunctor<float> >",
        "gemm",
        "void at::native…ive::MulFunctor<float> >",
    ]


def test_a_long_rest_begins_with_the_word_in_which_it_differs() -> None:
    rest = ", std::array<char*, 3ul> >(int, std::array<char*, 3ul>)"
    names = [f"{BEGIN}{which}Functor{rest}" for which in ("BitAnd", "BitOr")]
    assert shortened(names, 40) == [
        "void at::native…BitAndFunctor, std::arr…",
        "void at::native…BitOrFunctor, std::arra…",
    ]


def test_of_a_name_that_another_goes_on_from_the_end_is_shown() -> None:
    path = "Model/encoder/layers/0/attention/q_proj/weight_of_it"
    short, longer = shortened([path, f"{path}/inner"], 40)
    assert short.endswith("proj/weight_of_it")
    assert longer.endswith("weight_of_it/inner")


@pytest.mark.parametrize("width", [1, 5, 20, 48])
def test_no_name_is_wider_than_there_is_room(width: int) -> None:
    names = [f"{BEGIN}{which}" for which in ("Add", "Mul", "Add<二二二二二二二二>", "A" * 90)]
    assert all(cell_width(text) <= width for text in shortened(names, width))
