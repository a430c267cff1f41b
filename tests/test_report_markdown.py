"""The Markdown: the same tables, well formed, with its figures next to it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import record, write_lines, write_run

from subgroup_offset.reports.markdown import escaped, paragraph
from subgroup_offset.reports.write import write_report


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "sweep" / "plain", lam=None, pass_rate=0.6)
    write_run(root / "sweep" / "zero", pass_rate=0.5)
    write_run(root / "sweep" / "a|b", lam=-0.3, pass_rate=0.7)
    odd = record(6, 4)
    odd["problem"] = "# 1 | 2\n<b>bold</b>\ud800"
    write_lines(root / "sweep" / "a|b" / "strategy" / "6.jsonl", [odd])
    return write_report([root / "sweep"], root / "out", title="A *title*")


@pytest.fixture(scope="module")
def text(written):
    return written.markdown.read_text("utf-8")


def tables(text):
    """Lines of each table."""
    return [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def columns(line):
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_tables_are_well_formed(text):
    found = tables(text)
    assert len(found) > 12
    for lines in found:
        assert re.fullmatch(r"\|( -{3}:? \|)+", lines[1])
        assert len({columns(line) for line in lines}) == 1, lines[0]


def test_the_main_table_is_there(text):
    line = next(line for line in text.splitlines() if line.startswith("| contrast (lam=-0.3) |"))
    assert (
        line == "| contrast (lam=-0.3) | **70.0** ↑ | **80.0** ↑ | **70.0** ↑ | **80.0** ↑ | **70.0** ↑ | **80.0** ↑ |"
    )
    assert "| Method | aime24: pass@1 | aime24: pass@4 |" in text
    assert "| *grpo* | *60.0* |" in text


def test_figures_are_next_to_it(written, text):
    names = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert names == [path.name for path in written.figures]
    assert {"report_dynamics-0.png", "report_lambda-0-0.png"} <= set(names)
    for path in written.figures:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.parent == written.markdown.parent


def test_what_a_run_says_is_no_markup(text):
    assert text.startswith("# A \\*title\\*\n")
    assert "# 1 \\| 2 &lt;b>bold&lt;/b>\N{REPLACEMENT CHARACTER}" in text
    assert "| a\\|b | contrast (lam=-0.3) |" in text


def test_every_heading_of_the_page_is_there(text):
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "Runs" and headings[-1] == "Not found" and len(headings) == 9
    assert len(re.findall(r"^### The paper", text, re.MULTILINE)) == 7


@given(st.text())
def test_escaped_text_is_one_line_without_markup(text):
    found = escaped(text)
    assert "\n" not in found and "<" not in found
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`|$\[\]]", found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# a", "\\# a"),
        ("- a", "\\- a"),
        ("1. a", "1\\. a"),
        ("1.5", "1\\.5"),
        ("a - b", "a - b"),
        ("> a", "\\> a"),
    ],
)
def test_a_paragraph_stays_a_paragraph(text, expected):
    assert paragraph(text) == expected
