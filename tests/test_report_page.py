"""The report in a browser: its script, what it asks for, and that it fits a phone. Needs Chromium."""

import pytest
from chromium import BINARY, chromium
from report_runs import record, rollouts, write_lines, write_run

from subgroup_offset.reports.write import write_report

_TAKE = "document.title='owned'"
EVIL = f"</script><script>{_TAKE}</script><img src='http://x.example/i.png' onerror=\"{_TAKE}\">"

pytestmark = pytest.mark.skipif(BINARY is None, reason="no chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("websockets", reason="the DevTools protocol needs the package websockets")
    root = tmp_path_factory.mktemp("page")
    write_run(root / "runs" / "plain", lam=None, pass_rate=0.6)
    write_run(root / "runs" / "zero", pass_rate=0.5)
    write_run(root / "runs" / "contrast", lam=-0.3, pass_rate=0.7, text=EVIL)
    odd = record(6, 3)
    odd["problem"], odd["slots"][1]["preview"] = f"A butterfly {EVIL}", f"[KEY IDEA]\n- {EVIL}"
    write_lines(root / "runs" / "contrast" / "strategy" / "6.jsonl", [record(6, 1), odd, record(6, 4)])
    long = rollouts(6, 3, "long " * 4000)
    write_lines(root / "runs" / "contrast" / "rollouts" / "6.jsonl", [*rollouts(6, 4, EVIL), *long])
    written = write_report([root / "runs"], root / "out", title="In the browser")
    with chromium(root / "profile") as opened:
        opened.look(1280)
        opened.open(written.html)
        yield opened
        assert reported(opened) == []


def reported(page):
    """Errors, messages on the console and requests besides the page itself."""
    bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    requests = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
    return [*requests[1:], *(e for e in page.events if e["method"] in bad)]


def choose(page, control, value):
    page.value(
        f"{{const e = document.getElementById('{control}'); e.value = {value!r};"
        "e.dispatchEvent(new Event(e.id === 'filter' ? 'input' : 'change', {bubbles: true})); 0}"
    )


def cards(page):
    return page.value("[...document.querySelectorAll('.prompt h3')].map(e => e.textContent)")


def count(page):
    return page.value("document.getElementById('count').textContent")


@pytest.fixture(autouse=True)
def fresh(page):
    """Every test starts with the page as it opens, on the run with the odd texts."""
    page.look(1280)
    choose(page, "filter", "")
    choose(page, "order", "span")
    choose(page, "run", "1")
    return page


def test_nothing_is_asked_for_and_nothing_goes_wrong(page):
    (opened,) = [e["params"]["request"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
    assert opened["url"].startswith("file://")
    assert reported(page) == []  # and once more after all tests


def test_tables_and_figures_are_seen(page):
    assert page.value("document.querySelectorAll('table').length") > 12
    sizes = page.value("[...document.querySelectorAll('.panel svg')].map(e => e.getBoundingClientRect().height)")
    assert len(sizes) >= 8 and min(sizes) > 100
    assert page.value("document.querySelector('#main table caption').textContent").startswith("Main results")


def test_the_last_step_is_shown_with_the_greatest_span_first(page):
    assert page.value("[...document.getElementById('run').options].map(e => e.text)") == [
        "strategy_grpo (zero)",
        "contrast (lam=-0.3) (contrast)",
    ]
    assert page.value("document.getElementById('step').value") == "6"
    heads = cards(page)
    assert [head.rsplit("span ")[1] for head in heads] == ["1.00", "0.75", "0.25"]
    assert count(page).startswith("3 of 3 matching prompts shown; 3 of the 3 prompts")
    choose(page, "order", "-span")
    assert cards(page) == heads[::-1]


def test_the_table_is_table_6s(page):
    rows = page.value(
        "[...document.querySelector('.prompt table').rows].map(r => [...r.cells].map(c => c.innerText.split('\\n')[0]))"
    )
    assert rows[0] == ["Slot", "Key idea of the preview", "Successes", "Mean reward"]
    assert rows[1] == ["0", "(plain prompt)", "4/4", "1.00"]
    assert rows[2] == ["1", "- idea 1", "0/4", "-1.00"]


def test_the_filter_looks_into_problems_previews_and_rollouts(page):
    choose(page, "filter", "BUTTERFLY")
    assert len(cards(page)) == 1
    choose(page, "filter", "idea 3")
    assert len(cards(page)) == 3
    choose(page, "filter", "of session 15")
    assert len(cards(page)) == 2
    choose(page, "filter", "not in there")
    assert cards(page) == [] and count(page).startswith("0 of 0 matching")


def test_all_steps_come_in_pages(page):
    choose(page, "step", "all")
    assert count(page).startswith("20 of 28 matching prompts shown; 28 of the 33 prompts")
    assert page.value("document.getElementById('more').hidden") is False
    page.value("document.getElementById('more').click()")
    assert len(cards(page)) == 28
    assert page.value("document.getElementById('more').hidden") is True


def test_rollouts_open_as_text_and_say_what_is_left_out(page):
    page.value("document.querySelectorAll('.prompt > details').forEach(e => e.open = true)")
    texts = page.value(
        "new Promise(done => setTimeout(() => done("
        "[...document.querySelectorAll('.rollout')].map(e => e.innerText)), 300))"
    )
    assert len(texts) == 32
    assert texts[0].startswith("Rollout 0, score 1.00") and f"{EVIL} of session 0" in texts[0]
    assert "characters left out" in texts[16] and texts[16].endswith("of session 0")
    assert page.value("document.title") == "In the browser"
    assert page.value("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 26)")])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_it_fits_and_follows_the_scheme(page, scheme, ground, width):
    page.look(width, scheme=scheme)
    page.value("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value("getComputedStyle(document.body).backgroundColor") == ground
    ink = page.value("getComputedStyle(document.body).color")
    assert page.value("getComputedStyle(document.querySelector('.panel svg text')).fill") == ink


def test_a_table_scrolls_inside_of_its_container(page):
    page.look(390)
    right = "e.getBoundingClientRect().right"
    widths = page.value(f"[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth, e.clientWidth, {right}])")
    assert any(inner > outer for inner, outer, _ in widths)
    assert max(right for *_, right in widths) <= 390
