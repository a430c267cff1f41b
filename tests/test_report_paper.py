"""The paper's numbers are the paper's, and the report's rules for arrows and bold give the paper's marks."""

import re
from pathlib import Path

import pytest

from subgroup_offset.reports import paper, paper_tables

TEXT = Path(__file__).resolve().parents[2] / "shared" / "papers" / "subgroup-offset.md"
_ARROWS = {"↑": "up", "↓": "down"}


def tables(papers):
    return next(block for block in papers.blocks if hasattr(block, "rows"))


def rows(papers):
    """(heading, name) to the cells of a row."""
    found, heading = {}, ""
    for row in tables(papers).rows:
        if row.kind == "heading":
            heading = row.cells[0].text
        else:
            found[heading, row.cells[0].text] = row.cells[1:]
    return found


@pytest.fixture(scope="module")
def text():
    if not TEXT.is_file():
        pytest.skip(f"{TEXT} is not there: the paper's text belongs to no package")
    return TEXT.read_text("utf-8").replace(" _._ ", ".")


def printed(line):
    """(value, arrow, bold) of each number of a table's line."""
    # `64.5 _↓_`, `**24.0** _↑_`, `_31.6_`; nothing else in a line has one decimal.
    pattern = r"(\*\*)?_?(?<![\d.])(\d+\.\d)(?!\d)_?(?:\*\*)?(?: _([↑↓])_)?"
    return [(float(value), _ARROWS.get(mark, ""), bool(bold)) for bold, value, mark in re.findall(pattern, line)]


@pytest.mark.parametrize(("model", "nth"), [("Qwen3-8B-Base", 0), ("Olmo3-7B-Base", 1)])
@pytest.mark.parametrize("method", ["GRPO", "Strategy-GRPO", "Alignment", "Contrast"])
def test_table_1(text, model, nth, method):
    start = f"_{method}_ _" if method == "GRPO" else f"{method} "
    lines = [line for line in text[: text.index("Table 1:")].splitlines() if line.startswith(start)]
    cells = rows(paper_tables.main())[model, method]
    expected = printed([line for line in lines if len(printed(line)) == 8][nth])
    assert [(float(c.text), c.arrow, c.emphasis == "best") for c in cells] == expected


@pytest.mark.parametrize("lam", [0.3, 0.5, 0.7, -0.3, -0.5, -0.7])
def test_table_2(text, lam):
    start = f"{'+' if lam > 0 else '_−_ '}{abs(lam)} "
    between = text[text.index("Table 1:") : text.index("Table 2:")]
    line = next(line for line in between.splitlines() if line.startswith(start)).removeprefix(start)
    heading = "Alignment (lam > 0)" if lam > 0 else "Contrast (lam < 0)"
    cells = rows(paper_tables.lambdas())[heading, f"{lam:+g}"]
    assert [(float(c.text), c.emphasis == "best") for c in cells] == [(v, bold) for v, _, bold in printed(line)]


@pytest.mark.parametrize(("method", "nth"), [("Strategy-GRPO", 0), ("Alignment", 0), ("Contrast", 0)])
def test_table_3(text, method, nth):
    block = text[text.index("Method AIME24") : text.index("Table 3:")].splitlines()
    line = next(line for line in block if line.startswith(f"{method} "))
    found = rows(paper_tables.shuffle())
    assert [float(c.text) for c in found["", method]] == [v for v, _, _ in printed(line)]
    if method != "Strategy-GRPO":
        shuffled = block[block.index(line) + 1]
        cells = found["", f"{method} + shuffle"]
        assert [(float(c.text), c.arrow) for c in cells] == [(v, mark) for v, mark, _ in printed(shuffled)]


@pytest.mark.parametrize("method", ["Alignment", "Contrast"])
@pytest.mark.parametrize(
    ("name", "start"), [("default", "default"), ("+ T=0.7", "+ _T_ =0.7"), ("+ random", "+ _random_")]
)
def test_table_4(text, method, name, start):
    block = text[text.index("Sampling AIME24") : text.index("Table 4:")]
    lines = block[block.index(f"_{method}_") :].splitlines()
    line = next(line for line in lines if line.startswith(start)).removeprefix(start)
    cells = rows(paper_tables.sampling())[method, name]
    assert [(float(c.text), c.arrow) for c in cells] == [(v, mark) for v, mark, _ in printed(line)]


def mean(row, start):
    return sum(row[start::2]) / 4


@pytest.mark.parametrize("model", list(paper.GAINS))
@pytest.mark.parametrize("method", ["Contrast", "Alignment"])
def test_the_gains_of_the_text_are_those_of_table_1(model, method):
    methods = paper.MAIN[model]
    gains = [mean(methods[method], i) - mean(methods["Strategy-GRPO"], i) for i in (0, 1)]
    assert gains == pytest.approx(paper.GAINS[model][method], abs=0.0501)


@pytest.mark.parametrize("lam", list(paper.LAMBDA_AVERAGES))
def test_the_averages_of_the_text_are_those_of_table_2(lam):
    assert [mean(paper.LAMBDAS[lam], i) for i in (0, 1)] == pytest.approx(paper.LAMBDA_AVERAGES[lam], abs=0.0501)


def test_tables_3_and_4_repeat_table_1():
    contrast = paper.MAIN["Qwen3-8B-Base"]["Contrast"][1::2]
    assert paper.SHUFFLE["Contrast"] == paper.SAMPLING["Contrast"]["default"] == contrast


def test_every_table_is_said_to_be_the_papers():
    for papers in (paper_tables.main(), paper_tables.lambdas(), paper_tables.shuffle(), paper_tables.sampling()):
        assert "paper" in papers.title and tables(papers).caption.startswith("The paper's Table")
    for papers in (paper_tables.dynamics(), paper_tables.cost(), paper_tables.case()):
        assert "paper" in papers.title
