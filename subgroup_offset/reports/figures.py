"""Panels as SVG pictures for the page, in light and dark, and whole figures as PNG on white."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from subgroup_offset.reports.blocks import Figure, Panel, Series
from subgroup_offset.reports.panels import STEP
from subgroup_offset.text import printable

#: Mid-tones: each has a contrast of at least 3 with the page in light and in dark.
COLOURS = ("#2f7fd0", "#d9652b", "#1f9468", "#b45fc2", "#a8820f", "#d94f70", "#5f7f9e", "#7a8a1f")
#: Lengths on and off in turn; empty: solid. Neighbours differ, so that colour is not all that tells lines from another.
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (6, 2, 1.5, 2), (1.5, 2), (6, 2, 1, 2, 1, 2))
INK = {"light": "#1b1f23", "dark": "#e3e6e9"}  #: The page's own (report.css).
_SIZE = (4.6, 3.1)  #: Inches of a panel.


def colour(style: int) -> str:
    """A line's colour."""
    return COLOURS[style % len(COLOURS)]


def dash(style: int) -> str:
    """A line's dash as SVG's ``stroke-dasharray``."""
    return " ".join(f"{length:g}" for length in DASHES[style % len(DASHES)]) or "none"


def panel_pictures(panel: Panel) -> dict[str, str]:
    """One panel without title and legend, transparent, as a ``data:`` address for each scheme of :data:`INK`."""
    pictures = {}
    with _canvas(1, 1) as (canvas, (axis,)):
        _draw(axis, panel)
        for scheme, ink in INK.items():
            axis.tick_params(colors=ink, grid_color=ink)
            axis.spines[:].set_color(ink)
            for part in (axis.xaxis, axis.yaxis):
                part.label.set_color(ink)
            buffer = io.BytesIO()
            canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
            canvas.set_layout_engine("none")  # is laid out, once for both
            pictures[scheme] = f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return pictures


def figure_png(figure: Figure, path: Path) -> None:
    """All panels of a figure in rows of three, with titles and a legend below, on white."""
    from matplotlib.lines import Line2D

    columns = min(3, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    with _canvas(rows, columns) as (canvas, axes):
        for axis, panel in zip(axes, figure.panels, strict=False):
            _draw(axis, panel)
            axis.set_title(printable(panel.title), fontsize=11)
        for axis in axes[len(figure.panels) :]:
            axis.set_visible(False)
        lines = [Line2D([], [], **_look(style), linewidth=2) for _, style in figure.legend]
        labels = [printable(label) for label, _ in figure.legend]
        canvas.legend(lines, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        canvas.savefig(path, dpi=130, facecolor="white")


@contextmanager
def _canvas(rows: int, columns: int) -> Iterator[tuple[Any, list[Any]]]:
    """A figure of its own and its axes: no state of pyplot, no text that is read as mathematics."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context({"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "report"}):
        canvas = Canvas(figsize=(_SIZE[0] * columns, _SIZE[1] * rows), layout="constrained")
        yield canvas, list(canvas.subplots(rows, columns, squeeze=False).flat)


def _draw(axis: Any, panel: Panel) -> None:
    for series in panel.series:
        _draw_line(axis, series)
    axis.set(xlabel=printable(panel.xlabel), ylabel=printable(panel.ylabel))
    if panel.log2:
        ticks = sorted({x for series in panel.series for x in series.y.index})
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
    else:
        axis.xaxis.get_major_locator().set_params(integer=panel.xlabel == STEP)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_line(axis: Any, series: Series) -> None:
    look, y = _look(series.style), series.y
    marker = {"marker": "o", "markersize": 4} if series.markers or len(y) == 1 else {}
    if series.faint is not None:
        axis.plot(series.faint, color=look["color"], linewidth=0.8, alpha=0.35)
    if series.low is not None:
        axis.fill_between(y.index, series.low, series.high, color=look["color"], alpha=0.18, linewidth=0)
    if series.error is not None:
        axis.errorbar(y.index, y, yerr=series.error, color=look["color"], fmt="none", capsize=3)
    axis.plot(y, linewidth=1.8, **look, **marker)


def _look(style: int) -> dict[str, Any]:
    lengths = DASHES[style % len(DASHES)]
    return {"color": colour(style), "linestyle": (0, lengths) if lengths else "-"}
