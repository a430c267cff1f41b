"""Read runs and write their report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from subgroup_offset.reports.browser import BrowserLimits
from subgroup_offset.reports.chapters import make_document
from subgroup_offset.reports.curves import figure_png
from subgroup_offset.reports.grid import Figure
from subgroup_offset.reports.html import to_html
from subgroup_offset.reports.markdown import to_markdown
from subgroup_offset.reports.missing import grouped
from subgroup_offset.reports.runs import load_runs


@dataclass(frozen=True)
class Written:
    """What was written."""

    html: Path
    markdown: Path
    figures: tuple[Path, ...]
    runs: int
    missing: int

    def line(self) -> str:
        """In one line."""
        size = self.html.stat().st_size / 2**20
        runs = f"{self.runs} {'run' if self.runs == 1 else 'runs'}"
        return (
            f"{runs}: wrote {self.html} ({size:.1f} MiB), and next to it {self.markdown.name} with {len(self.figures)} "
            f"figures. Not found: {self.missing}{' (listed at the end)' if self.missing else ''}."
        )


def write_report(paths: Sequence[Path], output: Path, *, title: str, prompts: int = 5, smooth: float = 0.8) -> Written:
    """Write ``report.html``, ``report.md`` and its figures; what an earlier report left under these names is replaced.

    Args:
        paths: directories of runs or sweeps, or logs.
        output: a directory, made where it is missing.
        title: of the report.
        prompts: of each step in the subgroup browser.
        smooth: weight of the past in the entropy's moving average.

    Raises:
        ReportError: for a path without a run, or where no run has anything to report.
    """
    runs = load_runs(paths)
    document = make_document(runs, title, BrowserLimits(prompts=prompts), smooth)
    output.mkdir(parents=True, exist_ok=True)
    html, markdown = output / "report.html", output / "report.md"
    html.write_text(to_html(document), "utf-8")
    figures = [block for chapter in document.chapters for block in chapter.blocks if isinstance(block, Figure)]
    pictures = tuple(output / _file_name(figure) for figure in figures)
    for figure, picture in zip(figures, pictures, strict=True):
        figure_png(figure, picture)
    markdown.write_text(to_markdown(document, _file_name), "utf-8")
    missing = grouped(item for run in runs for item in run.missing)
    return Written(html, markdown, pictures, len(runs), len(missing))


def _file_name(figure: Figure) -> str:
    return f"report_{figure.id}.png"
