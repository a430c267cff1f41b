"""A report as one HTML file that needs nothing else: style, script, figures and data are in it.

The page's Content-Security-Policy forbids every request and every script but its own, so that nothing a model wrote
can do anything; all of it is text in any case.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from subgroup_offset.reports.curves import colour, panel_svg, svg_dash
from subgroup_offset.reports.grid import Document

TEMPLATES = Path(__file__).parent / "templates"
# Neither HTML nor UTF-8 can carry these.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def to_html(document: Document) -> str:
    """The whole page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=printable
    )
    script = (TEMPLATES / "report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html.jinja").render(
        document=document,
        style=(TEMPLATES / "report.css").read_text("utf-8"),
        script=script,
        script_hash=digest,
        browser_json=embedded_json(document.browser),
        svg=panel_svg,
        colour=colour,
        svg_dash=svg_dash,
        kind_of=lambda block: type(block).__name__,
    )
    return page.strip() + "\n"


def embedded_json(value: Any) -> Any:
    """JSON that cannot end the script element it stands in, whatever text is in it."""
    from jinja2.utils import htmlsafe_json_dumps

    text = htmlsafe_json_dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return type(text)(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def printable(value: Any) -> Any:
    """Text without what HTML cannot hold; anything else as it is. Markup stays markup."""
    if isinstance(value, str) and _UNPRINTABLE.search(value):
        return type(value)(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value))
    return value
