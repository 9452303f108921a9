"""Untrusted text is escaped, and no part of it is dropped."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracekit.render._text import cell_width, fit, printable, truncate, truncate_names


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("void gemm<4, [8]>(float*)", "void gemm<4, [8]>(float*)"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("C:\\temp", "C:\\temp"),
        ("grün 模型 🚀", "grün 模型 🚀"),
        ("\x00\x7f", "\\x00\\x7f"),
    ],
)
def test_control_characters_are_shown_as_escapes(text, shown):
    assert printable(text) == shown


def test_unescaped_characters_stay_unescaped():
    assert printable("a\nb\rc", keep="\n") == "a\nb\\rc"


def test_stacked_accents_are_limited():
    shown = printable("e" + "\u0301" * 1000)
    assert sum(map(bool, map(unicodedata.combining, shown))) == 4
    assert shown.count("\\u0301") == 996


@given(st.text())
def test_printable_text_is_printable(text):
    shown = printable(text)
    assert not {unicodedata.category(character) for character in shown} & {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("gemm", 4, "gemm"),
        ("gemm_kernel", 5, "gemm…"),
        ("模型模型", 8, "模型模型"),
        ("模型模型", 7, "模型模…"),
        ("模型模型", 6, "模型…"),
        ("🚀🚀", 3, "🚀…"),
        ("gemm", 1, "…"),
        ("gemm", 0, ""),
    ],
)
def test_names_lose_their_right_end(text, width, short):
    assert truncate(text, width) == short


@given(st.text(), st.integers(0, 40))
def test_a_fitted_text_has_exactly_its_width(text, width):
    shown = printable(text)
    assert cell_width(truncate(shown, width)) <= width
    assert cell_width(fit(shown, width)) == width
    assert cell_width(fit(shown, width, right=True)) == width


TEXTS = ["a…b", "日本 x", "a\u0301b", "1\ufe0f\u20e3", "x" * 900 + "… y 日"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_width_of_a_long_text_is_that_of_its_characters(text):
    assert cell_width(text) == cell_len(text)


BEGIN = "void at::native::vectorized_elementwise_kernel<4, at::native::"


def test_names_that_fit_or_differ_early_are_as_they_are():
    assert truncate_names(["gemm", "x" * 9], 8) == ["gemm", "xx…xxxxx"]
    assert truncate_names([], 8) == []


def test_a_common_prefix_is_truncated_in_the_middle():
    names = [f"{BEGIN}AddFunctor<float> >", "gemm", f"{BEGIN}MulFunctor<float> >"]
    assert truncate_names(names, 40) == [
        "vectorized_elem…l<4, AddFunctor<float> >",
        "gemm",
        "vectorized_elem…l<4, MulFunctor<float> >",
    ]


def test_a_long_rest_begins_with_the_word_in_which_it_differs():
    rest = ", std::array<char*, 3ul> >(int, std::array<char*, 3ul>)"
    names = [f"{BEGIN}{which}Functor{rest}" for which in ("BitAnd", "BitOr")]
    assert truncate_names(names, 40) == [
        "vectorized_elem…BitAndFunctor, std::arr…",
        "vectorized_elem…BitOrFunctor, std::arra…",
    ]


def test_the_end_of_a_name_that_is_a_prefix_is_shown():
    path = "Model/encoder/layers/0/attention/q_proj/weight_of_it"
    short, longer = truncate_names([path, f"{path}/inner"], 40)
    assert short.endswith("proj/weight_of_it")
    assert longer.endswith("weight_of_it/inner")


@pytest.mark.parametrize("width", [1, 5, 20, 48])
def test_no_name_is_wider_than_the_space(width):
    names = [f"{BEGIN}{which}" for which in ("Add", "Mul", "Add<二二二二二二二二>", "A" * 90)]
    assert all(cell_width(text) <= width for text in truncate_names(names, width))
