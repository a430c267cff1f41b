"""Extraction of previews from raw generations (paper, appendix "Strategy prompt and extraction")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.strategy import extract_preview

GOOD = "[KEY CONDITIONS]\n- two numbers are given\n- their sum is wanted\n[KEY IDEA]\n- add them\n- check the parity"


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Sure, here it is:\n{GOOD}",
        f"{GOOD}\n\nNow let us solve it. 2 + 2 = 4",
        f"{GOOD}\nAnswer: 4",
        f"{GOOD}\n{GOOD}",
        f"{GOOD}<|im_end|>\n<|im_start|>user\nNext",
        f"{GOOD}</s>",
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\n\n"),
        GOOD.replace("- ", "* "),
        GOOD.replace("- ", "• "),
        GOOD.replace("[KEY CONDITIONS]", "**[Key Conditions]**:").replace("[KEY IDEA]", "## [ key idea ]"),
        f"[KEY IDEA]\n{GOOD}",
    ],
)
def test_what_does_not_change_the_meaning_is_tolerated(text):
    assert extract_preview(text) == GOOD


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("[KEY CONDITIONS]\n- a\n[KEY IDEA]\n- b [KEY CONDITIONS]\n- c", "- b"),
        ("[KEY CONDITIONS]\n- a\n[KEY IDEA]\n- b. assistant", "- b."),
        ("[KEY CONDITIONS]\n- a\n[KEY IDEA]\n- b<|endoftext|> c\n- d", "- b"),
        ("[KEY CONDITIONS]\n- a\n[KEY IDEA]\n- b\nso x = 3\n- c", "- b"),
        ("[KEY CONDITIONS]\n- a\n[KEY IDEA]\n1. b\n2) c", "- c"),
        ("[KEY CONDITIONS]\n- a\n[KEY IDEA]\n- b\n[KEY IDEA]\n- c", "- b"),
    ],
)
def test_what_leaks_is_cut_off(text, last):
    assert extract_preview(text).splitlines()[-1] == last


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 4.",
        "[KEY CONDITIONS]",
        "[KEY CONDITIONS]\n- a",
        "[KEY CONDITIONS]\n- a\n[KEY IDEA]",
        "[KEY CONDITIONS]\n[KEY IDEA]\n- b",
        "[KEY IDEA]\n- b",
        "[KEY CONDITIONS]\n- a\nthen\n[KEY IDEA]\n- b",
        "[KEY CONDITIONS]\n- [KEY IDEA]\n- b",
        "x" * 100_000,
        "[KEY CONDITIONS]\n" + "- " * 50_000,
    ],
)
def test_unusable_candidates(text):
    assert extract_preview(text) is None


LINES = st.one_of(
    st.sampled_from(["[KEY CONDITIONS]", "[KEY IDEA]", "- a bullet", "* another", "", "free text", "- x [KEY IDEA] y"]),
    st.text(max_size=30).map(lambda t: f"- {t}"),
    st.text(max_size=30),
)


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_arbitrary_text(text):
    preview = extract_preview(text)
    if preview is not None:
        assert extract_preview(preview) == preview
        for line in preview.splitlines():
            assert line in ("[KEY CONDITIONS]", "[KEY IDEA]") or line.removeprefix("- ") in text
