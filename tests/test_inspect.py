"""The strategy stage's log in the terminal."""

import json
from io import StringIO

import pytest
from report_runs import write_run
from rich.console import Console

from subgroup_offset.reports.inspect import RecordError, RecordProblems, read_records, render, run, select, span

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
    with pytest.raises(RecordError, match=r"1\.jsonl:2: no JSON"):
        read_records(log(row(), '{"step": 1', row()))
    with pytest.raises(RecordError, match=r"1\.jsonl:1: no JSON"):
        read_records(log('{"step": 1'))
    without = row()
    del without["slots"]
    with pytest.raises(RecordError, match=r"1: no record .*the key 'slots' is missing.*not a rollout dump"):
        read_records(log(without))
    wrong = ("[1]", "3", row(step="x"), row(slots=None), row(slots=[1]), row(slots=[{**slot(0, 1), "preview": 3}]))
    for line in (
        *wrong,
        json.dumps(row()).replace("1.26", "1" * 400),
        json.dumps(row(step=2)).replace("2", "Infinity"),
    ):
        with pytest.raises(RecordError, match=":1: no "):
            read_records(log(line))


def test_lines_that_cannot_be_read_are_left_out_and_counted(log):
    problems = RecordProblems()
    found = read_records(log(row("a"), "not JSON", row("b"), '{"step": 1}', '{"half'), problems)
    assert [record.uid for record in found] == ["a", "b"]
    assert (problems.unreadable, problems.odd_rewards) == (3, 0)
    (said,) = problems.texts()
    assert "3 lines could not be read: first one" in said and "1.jsonl:2: no JSON" in said
    read_records(log(row(), '{"half', end=""), problems)  # the run is writing it
    assert problems.unreadable == 3


@pytest.mark.parametrize("reward", ["tensor(-1.39)", "1.0", [1.0], float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_unknown_and_said(log, reward):
    problems = RecordProblems()
    slots = [{**slot(0, 1, rollouts=2), "rewards": [reward, 0.5]}, {**slot(1, None, rollouts=1), "rewards": [None]}]
    (record,) = read_records(log(row(slots=slots)), problems)
    assert record.slots[0].rewards == (None, 0.5)
    assert (record.slots[0].mean_reward, record.slots[0].successes) == (0.5, 1)
    assert problems.texts() == ["1 rewards are no finite number and count as unknown, in no mean"]


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
    assert uids(min_span=0.25) == ["wide", "some", "also"]
    assert uids(min_span=0.26, step=1) == []
    assert uids(limit=0) == []
    assert select([]) == []


def test_informative_is_what_the_training_counts_as_such(log):
    """A span of 3 of 8, as `subgroup/informative_share`; 33/40 - 18/40 is less than 0.375 in floats."""
    slots = [slot(0, 33, rollouts=40), slot(1, 18, rollouts=40)]
    found = read_records(log(row("two", (4, 2)), row("three", (4, 1)), row("exact", slots=slots), row("six", (7, 1))))
    assert [r.uid for r in select(found, informative=True)] == ["six", "three", "exact"]
    assert [r.uid for r in select(found, informative=True, min_span=0.5)] == ["six"]


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


def printed(path, **arguments):
    console = Console(file=StringIO(), width=100)
    run(path, console=console, **arguments)
    return console.file.getvalue()


def test_run_reads_filters_and_prints(log, capsys):
    path = log(row("first"), row("second", (4, 4)))
    text = printed(path, informative=True)
    assert "prompt first" in text
    assert "prompt second" not in text
    assert text.endswith("1 of 2 prompts shown.\n")
    assert run(path, step=5) == 0
    assert capsys.readouterr().out == "0 of 2 prompts shown.\n"


def test_run_says_what_it_left_out(log, tmp_path):
    log(row("first"), "no JSON", row("third"))
    log(row("fourth", step=2, slots=[{**slot(0, 1), "rewards": ["tensor(-1.39)"]}]), "[1]", name="2.jsonl")
    shown = printed(tmp_path)
    assert "3 of 3 prompts shown." in shown
    assert f"2 lines could not be read: first one {tmp_path}/1.jsonl:2: no JSON" in shown
    assert "1 rewards are no finite number" in shown


def test_a_file_without_any_record_is_refused(log):
    with pytest.raises(RecordError, match=r"no record that .*1\.jsonl:1: .*'uid' is missing.*not a rollout dump"):
        printed(log('{"step": 1}', '{"input": ""}'))


def test_a_run_is_inspected_where_its_config_says(tmp_path):
    elsewhere = str(tmp_path / "elsewhere")
    write_run(tmp_path / "run", steps=2, changes={"algorithm__subgroup__strategy__data_dir": elsewhere})
    (tmp_path / "run" / "strategy").rename(elsewhere)
    text = printed(tmp_path / "run", limit=1)
    assert "step 1 · prompt prompt14" in text and "run ·" not in text
    assert "1 of 12 prompts shown." in text


def test_all_runs_of_a_sweep_are_inspected_and_named(tmp_path):
    for lam, records in ((-0.3, True), (0.0, True), (0.3, False)):
        write_run(tmp_path / "sweep" / f"lam={lam}", lam=lam, steps=1, records=records)
    text = printed(tmp_path / "sweep", limit=20)
    assert text.count("lam=-0.3 · step 1") == text.count("lam=0.0 · step 1") == 6
    assert "12 of 12 prompts shown." in text
    assert "1 of 3 runs have no log of the strategy stage: lam=0.3 (there is no {step}.jsonl in its" in text


def test_runs_that_logged_to_one_place_have_one_log(tmp_path):
    changes = {"algorithm__subgroup__strategy__data_dir": str(tmp_path / "one")}
    for name in ("a", "b"):
        write_run(tmp_path / "sweep" / name, steps=1, records=name == "a", changes=changes)
    write_run(tmp_path / "sweep" / "c", steps=1)
    (tmp_path / "sweep" / "a" / "strategy").rename(tmp_path / "one")
    text = printed(tmp_path / "sweep", limit=20)
    assert text.count("a or b · step 1") == text.count("c · step 1") == 6


NO_LOG = {"algorithm__subgroup__strategy__data_dir": None}


def test_a_run_without_a_log_says_what_to_set(tmp_path):
    write_run(tmp_path / "run", records=False, changes=NO_LOG)
    with pytest.raises(RecordError, match=r"run: its .* not logged: .*algorithm\.subgroup\.strategy\.data_dir=DIR"):
        printed(tmp_path / "run")
    write_run(tmp_path / "sweep" / "a", records=False)
    with pytest.raises(RecordError, match=r"a: there is no \{step\}\.jsonl in its .*strategy\.data_dir=/"):
        printed(tmp_path / "sweep" / "a")
    write_run(tmp_path / "sweep" / "b", records=False, changes=NO_LOG)
    with pytest.raises(RecordError, match=r"None of the 2 runs in .*sweep has a log of the strategy stage"):
        printed(tmp_path / "sweep")
    (tmp_path / "run" / "hydra" / ".hydra" / "config.yaml").unlink()
    with pytest.raises(RecordError, match="no config that can be read"):
        printed(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match=r"empty holds no \{step\}\.jsonl and no run"):
        printed(tmp_path / "empty")
    with pytest.raises(RecordError, match="is not there"):
        printed(tmp_path / "none")
