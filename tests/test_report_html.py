"""The HTML: one file, no requests, everything escaped, in good order."""

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_runs import record, write_lines, write_run

from subgroup_offset.reports.browser import BrowserLimits
from subgroup_offset.reports.chapters import make_document
from subgroup_offset.reports.curves import COLOURS, DARK, GREY, svg_dash
from subgroup_offset.reports.grid import Chapter, Document, Prose
from subgroup_offset.reports.html import TEMPLATES, embedded_json, to_html
from subgroup_offset.reports.runs import load_runs

EVIL = '</script><script>alert(1)</script><img src="http://x.example/i.png" onerror=alert(1)> & \u2028 {{ 7*7 }} <!--'
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
VOID = {"meta", "input", "br", "img", "link", "hr"}


class Tree(HTMLParser):
    """Checks the nesting while it collects elements and texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.scripts = [], [], []
        self.texts = {}
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def having(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report of a whole sweep, with hostile texts wherever a run can put one."""
    root = tmp_path_factory.mktemp("report")
    write_run(root / "plain", lam=None, pass_rate=0.6)
    write_run(root / "zero", pass_rate=0.5)
    for seed in (1, 2):
        write_run(root / f"seed{seed}<b>", lam=-0.3, seed=seed, pass_rate=0.7, text=EVIL)
    evil = record(6, 4)
    evil["problem"] = EVIL
    evil["slots"][1]["preview"] = f"[KEY IDEA]\n- {EVIL}"
    evil["slots"][2]["subgroup"] = EVIL
    write_lines(root / "seed1<b>" / "strategy" / "6.jsonl", [evil])
    write_run(root / "evil", lam=0.3, changes={"actor_rollout_ref__model__path": EVIL, "data__x": EVIL})
    document = make_document(load_runs([root]), EVIL, BrowserLimits(), 0.8)
    return to_html(document)


@pytest.fixture(scope="module")
def tree(page):
    return Tree(page)


def test_it_asks_for_nothing(tree):
    assert not tree.having("link") and not tree.having("img") and not tree.having("iframe")
    for tag, attributes in tree.elements:
        for name in ("src", "href", "xlink:href", "data", "action", "srcset", "poster"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
    style = "".join(tree.texts["style"])
    assert "@import" not in style and not re.search(r"url\((?!#)", style)
    (policy,) = [m["content"] for m in tree.having("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy


def test_there_is_one_script_and_it_is_ours(page, tree):
    assert [s.get("type") for s in tree.having("script")] == ["application/json", None]
    assert (TEMPLATES / "report.js").read_text("utf-8") in page
    assert not any(name.startswith("on") for _, attributes in tree.elements for name in attributes)


def test_hostile_text_is_text(tree):
    assert tree.texts["title"] == [EVIL] and EVIL in tree.texts["h1"]
    data = json.loads(tree.texts["script"][0])
    run = next(run for run in data["runs"] if run["name"] == "seed1<b>")
    prompt = run["steps"][-1]["prompts"][0]
    assert prompt["problem"][0] == EVIL
    assert prompt["slots"][1]["preview"].endswith(EVIL) and prompt["slots"][2]["subgroup"] == EVIL
    assert prompt["slots"][0]["texts"][0]["text"][0] == f"{EVIL} of session 0"


def test_ids_are_unique_and_targets_exist(tree):
    ids = [attributes["id"] for _, attributes in tree.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = [a["href"][1:] for _, a in tree.elements if "href" in a]
    used += [a["aria-labelledby"] for _, a in tree.elements if "aria-labelledby" in a]
    values = [value for _, a in tree.elements for value in a.values() if value]
    used += [name for value in values for name in re.findall(r"url\(#([^)]*)\)", value)]
    assert used and set(used) <= set(ids)


def test_tables_are_described_and_of_even_width(page, tree):
    tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
    assert len(tables) > 12
    for text in tables:
        inner = Tree(text)
        assert len(inner.having("caption")) == 1 and "".join(inner.texts["caption"]).strip()
        assert all("scope" in th for th in inner.having("th"))
        widths = set()
        for row in re.findall(r"<tr.*?</tr>", text, re.DOTALL):
            widths.add(sum(int(a.get("colspan", 1)) for tag, a in Tree(row).elements if tag in ("td", "th")))
        assert len(widths) == 1, text[:300]
    scrolls = [a for _, a in tree.elements if a.get("class") == "scroll"]
    assert len(scrolls) == len(tables) and all(a["tabindex"] == "0" and a["aria-label"] for a in scrolls)


def test_chapters_figures_and_controls_are_there(tree):
    ids = {attributes.get("id") for _, attributes in tree.elements}
    assert {"runs", "main", "lambda", "ablations", "dynamics", "cost", "subgroups", "differences", "not-found"} <= ids
    assert {"dynamics-0", "dynamics-1", "training-1", "lambda-1-0", "passk-1", "run", "step", "filter", "order"} <= ids
    figures = [a for a in tree.having("svg") if a.get("role") == "img"]
    assert len(figures) > 8 and all(a["aria-label"] and "viewbox" in a and "width" not in a for a in figures)
    assert "↑" in "".join(tree.texts["span"]) and " up" in "".join(tree.texts["span"])


def test_the_papers_numbers_are_only_in_its_own_blocks(page):
    without = re.sub(r'<aside class="paper".*?</aside>', "", page, flags=re.DOTALL)
    assert page.count('<aside class="paper"') == 7
    for text in ("Olmo3-7B-Base", "69.1", "66.4", "20,480"):
        assert text in page and text not in without


def test_figures_take_the_pages_colour(page):
    svgs = re.findall(r'<svg role="img".*?</svg>', page, re.DOTALL)
    for svg in svgs:
        colours = set(re.findall(r"(?:stroke|fill): (#[0-9a-f]{6})", svg))
        assert colours <= {*COLOURS, GREY} and "currentColor" in svg and "<style" not in svg


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_texts_and_lines_are_legible_in_both_schemes(scheme):
    root = re.findall(r":root \{(.*?)\}", (TEMPLATES / "report.css").read_text("utf-8"), re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", root))
    for ground in ("page", "head", "paper"):
        for text in ("ink", "dim", "link", "up", "down"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert colours["page"] == ("#ffffff", DARK)[scheme]
    assert all(contrast(line, colours["page"]) >= 3 for line in (*COLOURS, GREY))


def test_dashes_for_the_legend():
    assert [svg_dash(style) for style in (0, 1, 4, -1)] == ["none", "5 2", "6 2 1 2 1 2", "none"]


@given(st.text(st.characters(), max_size=60))
@settings(max_examples=60)
def test_any_text_survives(text):
    document = Document("t", "s", (Chapter("a", "A", (Prose(f"x{text}x"),)),), {"runs": [text]})
    tree = Tree(to_html(document).encode("utf-8").decode("utf-8"))
    assert UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", f"x{text}x") in tree.texts["p"]
    assert len(tree.having("script")) == 2


@given(st.text(max_size=60))
def test_embedded_json_reads_as_it_was(text):
    embedded = embedded_json({"a": [text]})
    assert "<" not in embedded
    if not UNPRINTABLE.search(text):
        assert json.loads(embedded) == {"a": [text]}
