"""The strategy stage's log in the terminal."""

import json
from io import StringIO

import pytest
from rich.console import Console

from subgroup_offset.reports.inspect import RecordError, read_records, render, run, select, span

PREVIEW = "[KEY CONDITIONS]\n- 20 m by 15 m\n[KEY IDEA]\n- {}\n- then [red]compute[/red]"


def slot(subgroup, successes, preview=None, rollouts=8):
    rewards = [None] * rollouts if successes is None else [1.0] * successes + [-1.0] * (rollouts - successes)
    return {
        "subgroup": subgroup,
        "preview": preview and PREVIEW.format(preview),
        "successes": successes,
        "rollouts": rollouts,
        "rewards": rewards,
    }


def row(uid="case", successes=(1, 6, 0, 4), step=1, problem="A butterfly", **changes):
    slots = [slot(k, s, f"idea {k}") for k, s in enumerate(successes)]
    base = {"step": step, "uid": uid, "index": 7, "problem": problem, "seconds": 1.26, "status": "finished"}
    return {**base, "slots": slots, "candidates": [], **changes}


@pytest.fixture
def log(tmp_path):
    """Writes rows (dicts, or lines as they are) to a file and returns its path."""

    def write(*rows, name="1.jsonl", end="\n"):
        path = tmp_path / name
        lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows]
        path.write_text("\n".join(lines) + end, "utf-8")
        return path

    return write


def shown(records, width=100, raw=False, color=None):
    console = Console(file=StringIO(), width=width, color_system=color, force_terminal=color is not None)
    render(records, console, raw)
    return console.file.getvalue()


def test_reads_every_field(log):
    failed = {"text": "", "previews": None, "kept": False, "slots": None, "reason": "request failed"}
    kept = {"text": "raw", "previews": ["a", "b"], "kept": True, "slots": [0, None], "reason": "too long"}
    (record,) = read_records(log(row(candidates=[failed, kept], extra="ignored")))
    assert (record.step, record.uid, record.index, record.problem) == (1, "case", 7, "A butterfly")
    assert (record.seconds, record.status, len(record.slots)) == (1.26, "finished", 4)
    assert record.slots[1].success_rate == 0.75
    assert record.slots[1].mean_reward == 0.5
    assert record.candidates[0].previews == record.candidates[0].slots == ()
    assert record.candidates[1].previews == ("a", "b")
    assert record.candidates[1].slots == (0, None)


def test_reads_a_directory_in_the_order_of_its_steps(log, tmp_path):
    for step in (10, 2, 1):
        log(row(uid=f"s{step}", step=step), name=f"{step}.jsonl")
    log("no log", name="notes.jsonl")
    assert [r.step for r in read_records(tmp_path)] == [1, 2, 10]


def test_line_separators_inside_text_end_no_line(log):
    (record,) = read_records(log(row(problem="a\u2028b\x85c")))
    assert record.problem == "a\u2028b\x85c"


def test_a_half_written_last_line_is_left_out(log):
    whole = json.dumps(row(problem="日"), ensure_ascii=False)
    path = log(whole, whole[:40], end="")
    assert len(read_records(path)) == 1
    cut = whole.encode().index("日".encode()) + 1  # within the character
    path.write_bytes(f"{whole}\n\n".encode() + whole.encode()[:cut])
    assert len(read_records(path)) == 1
    assert len(read_records(log(whole, whole, end=""))) == 2  # complete, only the line break is missing
    assert read_records(log("", end="")) == []


def test_a_malformed_line_is_named(log):
    with pytest.raises(RecordError, match=r"1\.jsonl, line 2: no JSON"):
        read_records(log(row(), '{"step": 1', row()))
    with pytest.raises(RecordError, match=r"1\.jsonl, line 1: no JSON"):
        read_records(log('{"step": 1'))
    without = row()
    del without["slots"]
    with pytest.raises(RecordError, match=r"line 1: no record .*the key 'slots' is missing.*not a rollout dump"):
        read_records(log(without))
    for wrong in ("[1]", "3", json.dumps(row(step="x")), json.dumps(row(slots=None)), json.dumps(row(slots=[1]))):
        with pytest.raises(RecordError, match="line 1: no record"):
            read_records(log(wrong))


def test_a_path_without_a_log_is_an_error(tmp_path):
    with pytest.raises(RecordError, match="is not there"):
        read_records(tmp_path / "none.jsonl")
    with pytest.raises(RecordError, match=r"holds no \{step\}\.jsonl"):
        read_records(tmp_path)


def test_span_counts_slots_with_rollouts_and_verdicts(log):
    mixed = [slot(0, 2), slot(1, None), slot(2, 0, rollouts=0), slot(3, 6)]
    paper, partly, none, one = read_records(log(row(), row(slots=mixed), row(slots=mixed[1:3]), row(slots=mixed[:1])))
    assert span(paper) == 0.75
    assert span(partly) == 0.5
    assert span(none) is None
    assert span(one) == 0


@pytest.fixture
def records(log):
    return read_records(
        log(
            row("flat", (4, 4)),
            row("wide", (8, 0), step=2, problem="Eine STRASSE [x]"),
            row("unknown", (None, None), status="failed"),
            row("some", (4, 2)),
            row("also", (2, 4)),
        )
    )


def test_select(records):
    def uids(**filters):
        return [r.uid for r in select(records, **filters)]

    assert uids() == ["wide", "some", "also", "flat", "unknown"]
    assert uids(limit=2) == ["wide", "some"]
    assert uids(order="file", limit=None) == ["flat", "wide", "unknown", "some", "also"]
    assert uids(order="file", limit=1) == ["flat"]
    assert uids(step=2) == ["wide"]
    assert uids(contains="straße") == uids(contains="[x]") == ["wide"]
    assert uids(min_span=0.25) == uids(informative=True) == ["wide", "some", "also"]
    assert uids(min_span=0.26, step=1) == []
    assert uids(limit=0) == []
    assert select([]) == []


def test_select_refuses_what_it_cannot_do(records):
    with pytest.raises(ValueError, match="order='best' is unknown: use one of span, file"):
        select(records, order="best")
    with pytest.raises(ValueError, match="limit=-1 is negative"):
        select(records, limit=-1)


def test_a_prompt_as_in_table_6(log):
    text = shown(read_records(log(row("3f0c2d9e-1b7a"))))
    assert "step 1 · prompt 3f0c2d9e · span 0.75 · 1.3 s · finished" in text
    assert "A butterfly" in text
    rows = [line for line in text.splitlines() if "/8" in line]
    assert [line.split() for line in rows] == [
        ["1", "│", "1", "│", "-", "idea", "1", "│", "6/8", "│", "0.50"],
        ["3", "│", "3", "│", "-", "idea", "3", "│", "4/8", "│", "0.00"],
        ["0", "│", "0", "│", "-", "idea", "0", "│", "1/8", "│", "-0.75"],
        ["2", "│", "2", "│", "-", "idea", "2", "│", "0/8", "│", "-1.00"],
    ]
    assert "- then [red]compute[/red]" in text
    assert "20 m by 15 m" not in text  # a condition, not the idea


def test_unknown_values_and_plain_slots(log):
    slots = [slot(0, None), slot("[b]tool[/b]", 1, rollouts=1), slot(2, 0, rollouts=0)]
    (record,) = read_records(log(row(slots=slots, status="failed")))
    text = shown([record])
    assert "failed" in text
    assert text.count("(plain prompt)") == 3
    assert "[b]tool[/b]" in text
    order = [line.split()[0] for line in text.splitlines() if "plain" in line]
    assert order == ["1", "0", "2"]  # the unknown ones last
    assert "–/8" in text
    assert "0/0" in text
    assert "span –" in shown(read_records(log(row(slots=[]))))


def test_a_preview_without_headers_is_shown_whole(log):
    slots = [{**slot(0, 1), "preview": "free text"}]
    assert "free text" in shown(read_records(log(row(slots=slots))))


def test_the_problem_is_shortened_unless_raw(log):
    instruction = 'Remember to put your answer on its own line after "Answer:".'
    problem = f"One\n\ntwo {'word ' * 100}end.\n\n{instruction}"
    records = read_records(log(row(problem=problem)))
    short, whole = " ".join(shown(records).split()), " ".join(shown(records, raw=True).split())
    assert "One two word" in short
    assert "…" in short
    assert "end." not in short
    assert "Remember" not in short
    assert "word end. Remember" in whole


@pytest.mark.parametrize("width", [20, 59, 60, 200])
@pytest.mark.parametrize("color", [None, "truecolor"])
def test_markup_and_escapes_in_the_text_are_only_text(log, width, color):
    raw = "[KEY IDEA]\r\n[/b] :smile: \x1b]0;title\x07 \udcff [link=x]"
    candidate = {"text": raw, "previews": None, "kept": False, "slots": None, "reason": "unusable"}
    # A lone surrogate is valid in JSON as an escape only.
    line = json.dumps(row(problem="[bold]x[/bold] \x1b[31m [/]", candidates=[candidate]))
    text = shown(read_records(log(line)), width, raw=True, color=color)
    flat = "".join(text.split())
    assert "[bold]x[/bold]" in flat
    assert "�[31m" in flat
    assert "[KEYIDEA]" in flat
    assert "[/b]:smile:" in flat
    assert "\x1b]0;" not in text
    assert "\x1b[31m" not in text
    text.encode("utf-8")
    if color is None:
        assert "\x1b" not in text
        assert all(len(line) <= width for line in text.splitlines())
        assert "6/8" in text
        assert ("┃" in text) == (width >= 60)  # a table, or a list of slots


def test_raw_shows_every_candidate(log):
    candidates = [
        {"text": "first", "previews": ["a", "b"], "kept": True, "slots": [2, 3], "reason": "kept"},
        {"text": "second", "previews": None, "kept": False, "slots": None, "reason": "request failed"},
    ]
    records = read_records(log(row(candidates=candidates)))
    text = shown(records, raw=True)
    assert "Candidate 0: kept, slot 2, slot 3\n  first" in text
    assert "Candidate 1: request failed\n  second" in text
    assert "Candidate" not in shown(records)


def test_run_reads_filters_and_prints(log, capsys):
    path = log(row("first"), row("second", (4, 4)))
    console = Console(file=StringIO(), width=100)
    assert run(path, informative=True, console=console) == 1
    text = console.file.getvalue()
    assert "prompt first" in text
    assert "prompt second" not in text
    assert text.endswith("1 of 2 prompts shown.\n")
    assert run(path, step=5) == 0
    assert capsys.readouterr().out == "0 of 2 prompts shown.\n"
