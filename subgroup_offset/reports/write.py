"""Read runs and write their report: one HTML file that needs nothing else, and Markdown with its figures beside it.

The page's Content-Security-Policy forbids every request and every script but its own, so that nothing a model wrote
can do anything; all of it is text in any case.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from subgroup_offset.files import write_text
from subgroup_offset.reports.blocks import Document, Figure
from subgroup_offset.reports.browser import BrowserLimits
from subgroup_offset.reports.chapters import make_document
from subgroup_offset.reports.figures import colour, dash, figure_png, panel_pictures
from subgroup_offset.reports.runs import load_runs, missing_table
from subgroup_offset.text import printable

TEMPLATES = Path(__file__).parent / "templates"
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
# What makes something else of a paragraph that begins with it.
_OPENING = re.compile(r"^(\d*)([#>+=.)-])")


def write_report(paths: Sequence[Path], output: Path, *, title: str, prompts: int = 5, smooth: float = 0.8) -> str:
    """Write ``report.html``, ``report.md`` and its figures; what an earlier report left under these names is replaced.

    Args:
        paths: directories of runs or sweeps, or logs.
        output: a directory, made where it is missing.
        title: of the report.
        prompts: of each step in the subgroup browser.
        smooth: weight of the past in the entropy's moving average.

    Returns:
        What was written, in one line.

    Raises:
        ReportError: for a path without a run, or where no run has anything to report.
    """
    runs = load_runs(paths)
    document = make_document(runs, title, BrowserLimits(prompts=prompts), smooth)
    html, markdown = output / "report.html", output / "report.md"
    write_text(html, to_html(document))
    figures = [block for chapter in document.chapters for block in chapter.blocks if isinstance(block, Figure)]
    for figure in figures:
        figure_png(figure, output / figure.file)
    write_text(markdown, to_markdown(document))
    missing = len(missing_table(runs))
    return (
        f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}: wrote {html} ({html.stat().st_size / 2**20:.1f} MiB), and "
        f"next to it {markdown.name} with {len(figures)} figures. Not found: {missing}"
        f"{' (listed at the end)' if missing else ''}."
    )


def to_html(document: Document) -> str:
    """The whole page."""
    script = (TEMPLATES / "report.js").read_text("utf-8")
    return _render(
        "report.html.jinja",
        html_text,
        document=document,
        style=Markup((TEMPLATES / "report.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        browser_json=embedded_json(document.browser),
        pictures_of=panel_pictures,
        colour=colour,
        dash=dash,
    )


def to_markdown(document: Document) -> str:
    """The whole report in GitHub's dialect; of the subgroup browser, the best of each run's last step that has some."""
    return _render("report.md.jinja", markdown_text, document=document)


def embedded_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever text is in it."""
    from jinja2.utils import htmlsafe_json_dumps

    text = htmlsafe_json_dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(printable(text))


def markdown_text(text: str) -> Markup:
    """Text that Markdown shows as it is, on one line; markup stays markup."""
    if isinstance(text, Markup):
        return text
    text = " ".join(printable(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return Markup(_SPECIAL.sub(r"\\\1", text))


def markdown_paragraph(text: str) -> Markup:
    """Text as a paragraph of its own, which is neither a list nor a heading whatever it begins with."""
    return Markup(_OPENING.sub(r"\1\\\2", str(markdown_text(text))))


def html_text(text: str) -> str:
    """Text that HTML can hold, to be escaped; markup stays markup."""
    return text if isinstance(text, Markup) else printable(text)


def _render(template: str, as_text: Callable[[str], str], **values: Any) -> str:
    return _environment(as_text).get_template(template).render(**values).strip() + "\n"


@cache
def _environment(as_text: Callable[[str], str]) -> Any:
    """Whatever is no markup goes through ``as_text``, in a template of either kind."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: as_text(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["kind"] = lambda block, name: type(block).__name__ == name
    environment.filters["paragraph"] = markdown_paragraph
    environment.filters["lines"] = lambda text: Markup("<br>".join(map(markdown_text, text.splitlines())))
    return environment
