"""The paper's numbers: the report's rules for arrows and bold give the paper's marks, and the tables agree."""

import pytest

from subgroup_offset.reports.blocks import Table
from subgroup_offset.reports.paper import paper, paper_box

ARROWS = {"up": "↑", "down": "↓", "": ""}


def rows(name):
    """(section, name) to the texts of a row, with its marks: as printed, bold with asterisks."""
    found, section = {}, ""
    (table,) = (block for block in paper_box(name).blocks if isinstance(block, Table))
    for begun, cells in table.lines:
        section = begun or section
        texts = [f"{'*' * (c.mark == 'best')}{c.text}{ARROWS[c.arrow]}" for c in cells[1:]]
        found[section, cells[0].text] = " ".join(texts)
    return found


def test_the_marks_of_tables_1_to_4_are_those_of_the_paper():
    main, lam, shuffle, sampling = map(rows, ("main", "lambda", "shuffle", "sampling"))
    assert main["Qwen3-8B-Base", "GRPO"] == "31.6 66.8 24.0 50.3 25.5 58.3 12.8 32.5"
    assert main["Qwen3-8B-Base", "Contrast"] == "*31.8↑ *69.1↑ 23.8↑ *50.6↑ *24.6↑ *58.8↑ *13.0↑ *36.3↑"
    assert main["Olmo3-7B-Base", "Alignment"] == "38.8 71.4↑ 31.2↑ *56.4↑ 29.6↓ 62.9↑ 15.4↓ 36.1↑"
    assert lam["Contrast (lam < 0)", "-0.5"] == "31.1 65.0 22.8 48.2 24.4 55.0 11.7 31.9"
    assert lam["Alignment (lam > 0)", "+0.3"] == "*31.1 *66.4 *24.0 *49.8 24.4 *56.0 *12.1 *32.7"
    assert shuffle["Contrast", "+ shuffle"] == "64.5↓ 45.9↓ 52.7↓ 30.0↓"
    assert sampling["Alignment", "+ T=0.7"] == "67.9↑ 48.6↓ 53.3↓ 31.3↓"


def mean(row, start):
    return sum(row[start::2]) / 4


@pytest.mark.parametrize("line", paper()["main"]["words"])
def test_the_gains_of_the_text_are_those_of_table_1(line):
    model, rest = line.split(", ", 1)
    methods = paper()["main"]["rows"][model]
    method, gains = rest.split(": ")
    for start, text in enumerate(gains.removesuffix(" over Strategy-GRPO on average").split(", ")):
        gain = mean(methods[method], start) - mean(methods["Strategy-GRPO"], start)
        assert gain == pytest.approx(float(text.split()[0]), abs=0.0501)


def test_the_averages_of_the_text_are_those_of_table_2():
    (line,) = paper()["lambda"]["words"]
    for part in line.removesuffix(".").split(": ", 1)[1].split("; "):
        lam, *averages = (
            float(word.strip(":,")) for word in part.split() if word.strip(":,").replace(".", "").isdigit()
        )
        row = paper()["lambda"]["rows"]["Alignment (lam > 0)"][f"+{lam}"]
        assert [mean(row, 0), mean(row, 1)] == pytest.approx(averages, abs=0.0501)


def test_tables_3_and_4_repeat_table_1():
    contrast = paper()["main"]["rows"]["Qwen3-8B-Base"]["Contrast"][1::2]
    assert paper()["shuffle"]["rows"]["Contrast"]["as it is"] == contrast
    assert paper()["sampling"]["rows"]["Contrast"]["default"] == contrast


@pytest.mark.parametrize("name", ["main", "lambda", "shuffle", "sampling", "dynamics", "cost", "case"])
def test_everything_is_marked_as_the_papers(name):
    box = paper_box(name)
    assert box.paper and "paper" in box.title
    assert all(block.caption.startswith("The paper's Table") for block in box.blocks if isinstance(block, Table))
