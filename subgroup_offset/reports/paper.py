"""What the paper says (``paper.yaml``), in the form of a report's blocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from subgroup_offset.reports.blocks import Box, Cell, Table, ranks, score, table


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
        aside = set(part.get("aside", []))
        places = ranks(values.drop(index=aside, errors="ignore"))
        marks = places.where(places.isin(part.get("marks", [])), "").reindex(values.index, fill_value="aside")
        reference = values.reindex([part.get("reference")]).iloc[0]
        for name, row in values.iterrows():
            compared = reference * float("nan") if name in aside else reference
            cells = [score(row[column], 1, marks.at[name, column], compared[column]) for column in values]
            rows.append((section, [Cell(name, "aside") if name in aside else name, *cells]))
    if len(metrics) == 1:
        return table(part["caption"], [part["first"], *benchmarks], rows, part["notes"])
    columns = [("", part["first"]), *((benchmark, metric) for benchmark in benchmarks for metric in metrics)]
    return table(part["caption"], columns, rows, part["notes"])
