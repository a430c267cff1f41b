"""What the paper says (``paper.yaml``), in the form of a report's blocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from subgroup_offset.reports.blocks import Box, Cell, Table, arrow, number, ranks, table


@cache
def paper() -> dict[str, Any]:
    """Everything in the file."""
    from yaml import safe_load

    return safe_load(Path(__file__).with_name("paper.yaml").read_text("utf-8"))


def paper_box(name: str) -> Box:
    """One of the file's parts: its table, where it has one, and its words."""
    part = paper()[name]
    blocks: list[Table | str | list[str]] = [_scores(part)] if "rows" in part else []
    if "texts" in part:
        blocks.append(table(part["caption"], part["columns"], [("", row) for row in part["texts"]], text=True))
    if "words" in part:
        blocks.append(part["words"])
    return Box(part["title"], blocks, paper=True)


def _scores(part: dict[str, Any]) -> Table:
    metrics, benchmarks = part["metrics"], paper()["benchmarks"]
    rows = []
    for section, methods in part["rows"].items():
        values = pd.DataFrame(methods).T
        compared = values.drop(index=part.get("aside", []), errors="ignore")
        marks = ranks(compared).reindex(values.index, fill_value="aside")
        for name, row in values.iterrows():
            cells: list[str | Cell] = [Cell(name, "aside")] if name not in compared.index else [name]
            for column, value in row.items():
                mark, change = marks.at[name, column], ""
                mark = mark if mark in ("aside", *part.get("marks", [])) else ""
                reference = part.get("reference")
                if reference in values.index and name in compared.index:
                    change = arrow(value, values.at[reference, column])
                cells.append(Cell(number(value, 1), mark, change))
            rows.append((section, cells))
    if len(metrics) == 1:
        return table(part["caption"], [part["first"], *benchmarks], rows, part["notes"])
    columns = [("", part["first"]), *((benchmark, metric) for benchmark in benchmarks for metric in metrics)]
    return table(part["caption"], columns, rows, part["notes"])
