"""One report, written by the command: one HTML file that asks for nothing, all text as text; and Markdown."""

import base64
import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_page import EVIL, Tree, hostile_report

from subgroup_offset.reports.blocks import Chapter, Document, Figure, Panel, Series
from subgroup_offset.reports.figures import COLOURS, INK, dash, panel_pictures
from subgroup_offset.reports.steps import as_table
from subgroup_offset.reports.write import TEMPLATES, embedded_json, markdown_paragraph, markdown_text, to_html
from subgroup_offset.text import printable


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return hostile_report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def html(out):
    return (out / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def tree(html):
    return Tree(html)


@pytest.fixture(scope="module")
def markdown(out):
    return (out / "report.md").read_text("utf-8")


def test_it_asks_for_nothing(tree):
    assert not tree.having("link") and not tree.having("iframe")
    for tag, attributes in tree.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href", "data", "action", "srcset", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:image/svg+xml;base64,")), (tag, attributes)
    style = "".join(tree.texts["style"])
    assert "@import" not in style and "url(" not in style
    (policy,) = [m["content"] for m in tree.having("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'; img-src data:;" in policy and "script-src 'sha256-" in policy


def test_hostile_text_is_text(html, tree):
    assert [s.get("type") for s in tree.having("script")] == ["application/json", None]
    assert (TEMPLATES / "report.js").read_text("utf-8") in html
    assert tree.texts["title"] == [EVIL] and EVIL in tree.texts["h1"]
    run = next(run for run in json.loads(tree.texts["script"][0])["runs"] if run["name"] == "a|b<i>")
    first, second, _ = run["steps"][-1]["prompts"]
    assert first["slots"][0]["texts"][0]["text"][0] == f"{EVIL} of session 0"
    slots = {slot["slot"]: slot for slot in second["slots"]}
    assert EVIL in second["problem"][0] and slots[1]["preview"].endswith(EVIL)
    assert slots[2]["name"] == f"2 (subgroup {EVIL})"


def test_ids_are_unique_and_targets_exist(tree):
    ids = [attributes["id"] for _, attributes in tree.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = [a["href"][1:] for _, a in tree.elements if "href" in a]
    used += [a["aria-labelledby"] for _, a in tree.elements if "aria-labelledby" in a]
    assert used and set(used) <= set(ids)
    chapters = ["runs", "main", "lambda", "ablations", "dynamics", "cost", "subgroups", "differences", "not-found"]
    assert [attributes["id"] for attributes in tree.having("section")] == chapters
    assert {"dynamics-0", "training-0", "lambda-0-0", "passk-0", "run", "step", "filter", "order"} <= set(ids)


def test_tables_are_described_and_of_even_width(html, tree):
    tables = re.findall(r"<table.*?</table>", html, re.DOTALL)
    assert len(tables) > 12
    for text in tables:
        inner = Tree(text)
        assert len(inner.having("caption")) == 1 and "".join(inner.texts["caption"]).strip()
        assert all("scope" in th for th in inner.having("th"))
        rows = [Tree(row).elements for row in re.findall(r"<tr.*?</tr>", text, re.DOTALL)]
        widths = {sum(int(a.get("colspan", 1)) for tag, a in row if tag in ("td", "th")) for row in rows}
        assert len(widths) == 1, text[:300]
    scrolls = [a for _, a in tree.elements if a.get("class") == "scroll"]
    assert len(scrolls) == len(tables) and all(a["tabindex"] == "0" and a["aria-label"] for a in scrolls)
    assert "↑" in "".join(tree.texts["span"]) and " up" in "".join(tree.texts["span"])


def test_figures_are_pictures_for_both_schemes(tree):
    images, dark = tree.having("img"), tree.having("source")
    assert len(images) == len(dark) > 8 and all(" over " in image["alt"] for image in images)
    assert {source["media"] for source in dark} == {"(prefers-color-scheme: dark)"}
    for address, scheme in [(i["src"], "light") for i in images] + [(s["srcset"], "dark") for s in dark]:
        picture = base64.b64decode(address.split(",", 1)[1])
        ElementTree.fromstring(picture)  # is well formed, whatever is in the titles and labels
        colours = set(re.findall(rb"(?:stroke|fill): (#[0-9a-f]{6})", picture))
        assert colours <= {colour.encode() for colour in (*COLOURS, INK[scheme])}


def test_the_papers_numbers_are_only_in_its_own_blocks(html, markdown):
    without = re.sub(r'<aside class="paper".*?</aside>', "", html, flags=re.DOTALL)
    assert html.count('<aside class="paper"') == len(re.findall(r"^### The paper", markdown, re.MULTILINE)) == 7
    for text in ("Olmo3-7B-Base", "69.1", "66.4", "20,480"):
        assert text in html and text in markdown and text not in without


def test_markdown_has_the_same_tables_well_formed(markdown, html):
    tables = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE)]
    captions = re.findall(r"^\*\*.*\*\*\n\n\|", markdown, re.MULTILINE)
    assert len(captions) == html.count("<table")
    for lines in tables:
        assert re.fullmatch(r"\|( -{3}:? \|)+", lines[1])
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines[0]
    values = " | ".join(["**75.0** ↑ ±5.0", "**80.0** ↑ ±0.0"] * 3)
    assert f"| contrast (lam=-0.3) 2 seeds | {values} |" in markdown
    assert "| Method | aime24: pass@1 | aime24: pass@4 |" in markdown and "| *grpo* | *60.0* |" in markdown
    assert "| a\\|b&lt;i> | contrast (lam=-0.3) |" in markdown
    assert "# 1 \\| 2 &lt;b>bold&lt;/b>\N{REPLACEMENT CHARACTER}" in markdown and "<script" not in markdown


def test_markdown_has_its_figures_beside_it(out, markdown):
    names = re.findall(r"!\[[^\n]*\]\(([^)\n]+)\)", markdown)
    assert {"report_dynamics-0.png", "report_lambda-0-0.png", "report_passk-0.png"} <= set(names)
    assert sorted(names) == sorted(path.name for path in out.glob("*.png"))
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in names)


@given(st.text())
def test_escaped_text_is_one_line_without_markup(text):
    found = markdown_text(text)
    assert "\n" not in found and "<" not in found
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`|$\[\]]", found)


def test_a_paragraph_stays_a_paragraph():
    texts = {"# a": "\\# a", "- a": "\\- a", "1. a": "1\\. a", "1.5": "1\\.5", "a - b": "a - b", "> a": "\\> a"}
    assert {text: markdown_paragraph(text) for text in texts} == texts


@given(st.text(st.characters(), max_size=60))
@settings(max_examples=40, deadline=None)
def test_any_text_survives(text):
    document = Document("t", "s", (Chapter("a", "A", (f"x{text}x",)),), {"runs": [text]})
    tree = Tree(to_html(document).encode("utf-8").decode("utf-8"))
    assert printable(f"x{text}x") in tree.texts["p"] and len(tree.having("script")) == 2
    embedded = embedded_json({"a": [text]})
    assert "<" not in embedded and (printable(text) != text or json.loads(embedded) == {"a": [text]})


def test_any_label_can_be_drawn(tmp_path):
    line = Series("$x_{\ud800\x00<b>", 1, as_table({}).sum(axis=1).reindex([1, 2], fill_value=1.0))
    figure = Figure("f", "c", [Panel("$\\frac{ \x07", "training step", "", [line])])
    assert figure.legend == [(line.label, 1)] and panel_pictures(figure.panels[0])["dark"].startswith("data:")


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_are_legible_in_both_schemes(scheme):
    roots = re.findall(r":root \{(.*?)\}", (TEMPLATES / "report.css").read_text("utf-8"), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", roots[scheme == "dark"]))
    for ground in ("page", "head", "paper"):
        for text in ("ink", "dim", "link", "up", "down"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert INK[scheme] == colours["ink"]
    assert all(contrast(line, colours["page"]) >= 3 for line in COLOURS)
    assert [dash(style) for style in (0, 1, 4)] == ["none", "5 2", "6 2 1 2 1 2"]
