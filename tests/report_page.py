"""A report with hostile texts, and a reader of its page: for the tests of the page, parsed and in a browser."""

from html.parser import HTMLParser

from report_runs import record, rollouts, write_lines, write_run
from typer.testing import CliRunner

from subgroup_offset.cli import app

_TAKE = "document.title='owned'"
EVIL = (
    f"</script><script>{_TAKE}</script><img src='http://x.example/i.png' onerror=\"{_TAKE}\"> & \u2028 {{{{ 7*7 }}}} "
    "<!-- | *b* $x$"
)
VOID = {"meta", "input", "br", "img", "link", "hr", "source"}


class Tree(HTMLParser):
    """Checks the nesting while it collects elements and texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], {}
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


def hostile_report(root):
    """The directory of a sweep's report, with hostile texts wherever a run can put one."""
    write_run(root / "runs" / "plain", lam=None, pass_rate=0.6)
    zero = write_run(root / "runs" / "zero", pass_rate=0.5)
    write_lines(zero / "strategy" / "6.jsonl", [{**record(6, 4), "problem": "# 1 | 2\n<b>bold</b>\ud800"}])
    contrast = write_run(root / "runs" / "a|b<i>", lam=-0.3, pass_rate=0.7, text=EVIL)
    write_run(root / "runs" / "seed", lam=-0.3, seed=2, pass_rate=0.8, records=False, dumps=False)
    odd = record(6, 3)
    odd["problem"], odd["slots"][1]["preview"] = f"# 1\nA butterfly {EVIL}\ud800", f"[KEY IDEA]\n- {EVIL}"
    odd["slots"][2]["subgroup"] = EVIL
    write_lines(contrast / "strategy" / "6.jsonl", [record(6, 1), odd, record(6, 4)])
    write_lines(contrast / "rollouts" / "6.jsonl", [*rollouts(6, 4, EVIL), *rollouts(6, 3, "long " * 4000)])
    lines = [{"step": 6, "data": {f"val-core/{EVIL}\x07/acc/mean@8": 0.5}}]
    evil = {"actor_rollout_ref__model__path": EVIL, "data__x": EVIL}
    write_lines(write_run(root / "runs" / "evil", lam=0.3, changes=evil) / "metrics.jsonl", lines)
    options = ["--output", root / "out", "--title", EVIL, "--prompts", 4, "--smooth", 0]
    result = CliRunner().invoke(app, ["report", *map(str, [root / "runs", *options])])
    assert result.exit_code == 0, result.output
    assert f"5 runs: wrote {root}/out/report.html" in result.output
    return root / "out"
