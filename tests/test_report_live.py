"""The report's page in a browser: it asks nobody, shows texts as texts, filters, sorts and fits."""

import pytest
from chromium import BINARY, chromium
from report_page import EVIL, hostile_report


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    if BINARY is None:
        pytest.skip("no chromium here: apt-get install chromium")
    pytest.importorskip("websockets", reason="the DevTools protocol needs the package websockets")
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.look(1280)
        page.open(hostile_report(tmp_path_factory.mktemp("report")) / "report.html")
        yield page
        assert reported(page) == []


@pytest.fixture
def page(opened):
    """As it opens, on the run with the odd texts."""
    opened.look(1280)
    for control, value in (("filter", ""), ("order", "span"), ("run", "1")):
        choose(opened, control, value)
    return opened


def reported(page):
    """Errors, messages on the console and requests besides the page itself; what is in the page asks nobody."""
    bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    requests = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
    assert requests[0].startswith("file://")
    return [*(u for u in requests[1:] if not u.startswith("data:")), *(e for e in page.events if e["method"] in bad)]


def choose(page, control, value):
    page.value(
        f"{{const e = document.getElementById('{control}'); e.value = {value!r};"
        "e.dispatchEvent(new Event(e.id === 'filter' ? 'input' : 'change', {bubbles: true})); 0}"
    )


def cards(page):
    return page.value("[...document.querySelectorAll('.prompt h3')].map(e => e.textContent)")


def count(page):
    return page.value("document.getElementById('count').textContent")


def test_tables_and_figures_are_seen(page):
    sizes = page.value("[...document.querySelectorAll('.panel img')].map(e => [e.complete, e.naturalHeight, e.height])")
    assert len(sizes) >= 8 and all(complete and min(heights) > 100 for complete, *heights in sizes)
    assert page.value("document.querySelector('#main table caption').textContent").startswith("Main results")


def test_the_last_step_is_shown_with_the_greatest_span_first(page):
    names = page.value("[...document.getElementById('run').options].map(e => e.text)")
    assert names[:2] == ["strategy_grpo (zero)", "contrast (lam=-0.3) (a|b<i>)"]
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
    assert rows[:3] == [
        ["Slot", "Key idea of the preview", "Successes", "Mean reward"],
        ["0", "(plain prompt)", "4/4", "1.00"],
        ["1", "- idea 1", "0/4", "-1.00"],
    ]


def test_the_filter_looks_into_problems_previews_and_rollouts(page):
    for text, found in (("BUTTERFLY", 1), ("idea 3", 3), ("of session 15", 2), ("not in there", 0)):
        choose(page, "filter", text)
        assert len(cards(page)) == found and count(page).startswith(f"{found} of {found} matching")


def test_all_steps_come_in_pages(page):
    choose(page, "step", "all")
    assert count(page).startswith("20 of 23 matching prompts shown; 23 of the 33 prompts")
    page.value("document.getElementById('more').click()")
    assert len(cards(page)) == 23 and page.value("document.getElementById('more').hidden") is True


def test_rollouts_open_as_text_and_tell_what_is_left_out(page):
    page.value("document.querySelectorAll('.prompt > details').forEach(e => e.open = true)")
    texts = page.value(
        "new Promise(done => setTimeout(() => done("
        "[...document.querySelectorAll('.rollout')].map(e => e.innerText)), 300))"
    )
    assert len(texts) == 32
    assert texts[0].startswith("Rollout 0, score 1.00") and f"{EVIL} of session 0" in texts[0]
    assert "characters left out" in texts[16] and texts[16].endswith("of session 0")
    assert page.value("document.title") == EVIL
    assert page.value("document.querySelectorAll('img:not(.panel img)').length") == 0


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 26)")])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_it_fits_and_follows_the_scheme(page, scheme, ground, width):
    page.look(width, scheme=scheme)
    page.value("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value("getComputedStyle(document.body).backgroundColor") == ground
    shown, dark = page.value(
        "[document.querySelector('.panel img').currentSrc, document.querySelector('.panel source').srcset]"
    )
    assert (shown == dark) == (scheme == "dark")
    right = "e.getBoundingClientRect().right"
    tables = page.value(f"[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth > e.clientWidth, {right}])")
    assert max(right for _, right in tables) <= width and (width > 400 or any(scrolls for scrolls, _ in tables))
