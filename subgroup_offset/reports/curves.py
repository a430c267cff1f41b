"""Panels as SVG for a page in any colour scheme, and as PNG on white."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path
from typing import Any

from subgroup_offset.reports.grid import Figure, Panel, Series

#: Mid-tones: each has a contrast of at least 3 with white and with :data:`DARK`.
COLOURS = ("#2f7fd0", "#d9652b", "#1f9468", "#b45fc2", "#a8820f", "#d94f70", "#5f7f9e", "#7a8a1f")
DARK = "#14171a"  #: The page in dark mode.
#: Lengths on and off in turn; empty: solid.
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (6, 2, 1.5, 2), (1.5, 2), (6, 2, 1, 2, 1, 2))
GREY = "#808080"
# Becomes currentColor, so that axes and texts follow the page.
_INK = "#010203"
_SIZE = (4.6, 3.1)  #: Inches of a panel.


def colour(style: int) -> str:
    """A group's colour."""
    return COLOURS[style % len(COLOURS)] if style >= 0 else GREY


def dash(style: int) -> Any:
    """A group's dash for matplotlib; neighbours differ in it, so that colour is not all that tells them apart."""
    return (0, lengths) if (lengths := _lengths(style)) else "-"


def svg_dash(style: int) -> str:
    """The dash as SVG's ``stroke-dasharray`` for the legend."""
    return " ".join(f"{length:g}" for length in _lengths(style)) or "none"


def panel_svg(panel: Panel, name: str) -> str:
    """One panel as an ``<svg>`` element without a legend.

    Lines keep their colours; text, axes and grid are ``currentColor``. Text stays text, in the page's font.

    Args:
        panel: what to draw.
        name: put before every id in the SVG, so that several can be on one page.
    """
    plt = _pyplot()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, **_colours(_INK)}):
        figure, axis = plt.subplots(figsize=_SIZE, constrained_layout=True)
        _draw(axis, panel, title=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    lines = "; ".join(series.label for series in panel.series)
    return _inline(buffer.getvalue(), name, f"{panel.title} over {panel.xlabel}. Lines: {lines}.")


def figure_png(figure: Figure, path: Path) -> None:
    """All panels of a figure in rows of three, with titles and a legend below, on white."""
    plt = _pyplot()
    from matplotlib.lines import Line2D

    columns = min(3, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    with plt.rc_context(_colours("#222222")):
        drawn, axes = plt.subplots(
            rows, columns, figsize=(_SIZE[0] * columns, _SIZE[1] * rows), squeeze=False, layout="constrained"
        )
        for axis, panel in zip(axes.flat, figure.panels, strict=False):
            _draw(axis, panel, title=True)
        for axis in list(axes.flat)[len(figure.panels) :]:
            axis.set_visible(False)
        lines = [Line2D([], [], color=colour(s), linestyle=dash(s), linewidth=2) for _, s in figure.legend]
        labels = [_plain(label) for label, _ in figure.legend]
        drawn.legend(lines, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        drawn.savefig(path, dpi=130, facecolor="white")
        plt.close(drawn)


def _lengths(style: int) -> tuple[float, ...]:
    return DASHES[style % len(DASHES)] if style >= 0 else ()


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _colours(ink: str) -> dict[str, Any]:
    keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    return {**dict.fromkeys(keys, ink), "grid.color": ink, "font.size": 10, "font.family": "sans-serif"}


def _draw(axis: Any, panel: Panel, title: bool) -> None:
    for series in panel.series:
        _draw_line(axis, series)
    axis.set(xlabel=_plain(panel.xlabel), ylabel=_plain(panel.ylabel))
    if title:
        axis.set_title(_plain(panel.title), fontsize=11)
    if panel.log2:
        ticks = sorted({x for series in panel.series for x in series.x})
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
    else:
        axis.xaxis.get_major_locator().set_params(integer=panel.xlabel == "training step")
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_line(axis: Any, series: Series) -> None:
    look = {"color": colour(series.style), "linestyle": dash(series.style)}
    marker = {"marker": "o", "markersize": 4} if series.markers or len(series.x) == 1 else {}
    if series.faint is not None:
        axis.plot(*series.faint, color=look["color"], linewidth=0.8, alpha=0.35)
    if series.low is not None and series.high is not None:
        axis.fill_between(series.x, series.low, series.high, color=look["color"], alpha=0.18, linewidth=0)
    if series.error is not None:
        axis.errorbar(series.x, series.y, yerr=series.error, color=look["color"], fmt="none", capsize=3)
    axis.plot(series.x, series.y, linewidth=1.8, **look, **marker)


def _plain(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _inline(text: str, name: str, label: str) -> str:
    """The ``<svg>`` element alone, with its ids made its own, scalable, and with a name for screen readers."""
    text = text[text.index("<svg") :]
    # matplotlib's rule for * would hold for the whole page.
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{name}-", text)
    text = text.replace("xlink:href", "href").replace(_INK, "currentColor")
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1).strip()
