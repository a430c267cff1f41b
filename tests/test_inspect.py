"""The strategy stage's log in the terminal."""

import json
from io import StringIO

import pytest
from report_runs import write_run
from rich.console import Console

from subgroup_offset.reports.inspect import render, run
from subgroup_offset.strategy.json_lines import RecordError
from subgroup_offset.strategy.record import read_records
from subgroup_offset.strategy.subgroups import select

PREVIEW = "[KEY CONDITIONS]\n- 20 m by 15 m\n[KEY IDEA]\n- {}\n- then [red]compute[/red]"
DATA_DIR = "algorithm__subgroup__strategy__data_dir"


def slot(subgroup, successes, preview=None, rollouts=8):
    rewards = [None] * rollouts if successes is None else [1.0] * successes + [-1.0] * (rollouts - successes)
    preview = preview and PREVIEW.format(preview)
    counts = {"successes": successes, "rollouts": rollouts, "rewards": rewards}
    return {"subgroup": subgroup, "preview": preview, **counts}


def row(uid="case", successes=(1, 6, 0, 4), step=1, problem="A butterfly", **changes):
    slots = [slot(k, s, f"idea {k}") for k, s in enumerate(successes)]
    base = {"step": step, "uid": uid, "index": 7, "problem": problem, "seconds": 1.26, "status": "finished"}
    return {**base, "slots": slots, "candidates": [], **changes}


@pytest.fixture
def log(tmp_path):
    """Writes rows (dicts, or lines as they are) to a file and returns its path."""

    def write(*rows, name="1.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in rows), "utf-8")
        return path

    return write


def shown(path, width=100, raw=False, color=None):
    console = Console(file=StringIO(), width=width, color_system=color, force_terminal=color is not None)
    render(read_records(path), console, raw)
    return console.file.getvalue()


def printed(path, **arguments):
    console = Console(file=StringIO(), width=100)
    run(path, console=console, **arguments)
    return console.file.getvalue()


def test_span_counts_slots_with_rollouts_and_verdicts(log):
    mixed = [slot(0, 2), slot(1, None), slot(2, 0, rollouts=0), slot(3, 6)]
    found = read_records(log(row(), row(slots=mixed), row(slots=mixed[1:3]), row(slots=mixed[:1])))
    assert [record.span for record in found] == [0.75, 0.5, None, 0]


def test_select(log):
    wide = row("wide", (8, 0), step=2, problem="Eine STRASSE [x]")
    unknown = row("unknown", (None, None), status="failed")
    records = read_records(log(row("flat", (4, 4)), wide, unknown, row("some", (4, 2)), row("also", (2, 4))))

    def uids(**filters):
        return [r.uid for r in select(records, **filters)]

    assert uids() == ["wide", "some", "also", "flat", "unknown"]
    assert uids(limit=2) == ["wide", "some"]
    assert uids(order="file", limit=None) == ["flat", "wide", "unknown", "some", "also"]
    assert uids(order="file", limit=1) == ["flat"]
    assert uids(contains="straße") == uids(contains="[x]") == uids(step=2) == ["wide"]
    assert uids(min_span=0.25) == ["wide", "some", "also"]
    assert uids(min_span=0.26, step=1) == uids(limit=0) == []
    with pytest.raises(ValueError, match="order='best' is unknown: use one of span, file"):
        uids(order="best")
    with pytest.raises(ValueError, match="limit=-1 is negative"):
        uids(limit=-1)


def test_informative_is_what_the_training_counts_as_such(log):
    """A span of 3 of 8, as `subgroup/informative_share`; 33/40 - 18/40 is less than 0.375 in floats."""
    slots = [slot(0, 33, rollouts=40), slot(1, 18, rollouts=40)]
    found = read_records(log(row("two", (4, 2)), row("three", (4, 1)), row("exact", slots=slots), row("six", (7, 1))))
    assert [r.uid for r in select(found, informative=True)] == ["six", "three", "exact"]
    assert [r.uid for r in select(found, informative=True, min_span=0.5)] == ["six"]


def test_a_prompt_as_in_table_6(log):
    text = shown(log(row("3f0c2d9e-1b7a")))
    assert "step 1 · prompt 3f0c2d9e · span 0.75 · 1.3 s · finished" in text and "A butterfly" in text
    rows = [line for line in text.splitlines() if "/8" in line]
    assert [line.replace("│", "").split() for line in rows] == [
        ["1", "1", "-", "idea", "1", "6/8", "0.50"],
        ["3", "3", "-", "idea", "3", "4/8", "0.00"],
        ["0", "0", "-", "idea", "0", "1/8", "-0.75"],
        ["2", "2", "-", "idea", "2", "0/8", "-1.00"],
    ]
    assert "- then [red]compute[/red]" in text
    assert "20 m by 15 m" not in text  # a condition, not the idea
    assert "free text" in shown(log(row(slots=[{**slot(0, 1), "preview": "free text"}])))


def test_unknown_values_and_plain_slots(log):
    slots = [slot(0, None), slot("[b]tool[/b]", 1, rollouts=1), slot(2, 0, rollouts=0)]
    text = shown(log(row(slots=slots, status="failed")))
    assert text.count("(plain prompt)") == 3
    assert all(part in text for part in ("failed", "[b]tool[/b]", "–/8", "0/0"))
    assert [line.split()[0] for line in text.splitlines() if "plain" in line] == ["1", "0", "2"]  # unknown ones last
    assert "span –" in shown(log(row(slots=[])))


def test_the_problem_is_shortened_unless_raw(log):
    problem = f"One\n\ntwo {'word ' * 100}end.\n\n" + 'Remember to put your answer on its own line after "Answer:".'
    path = log(row(problem=problem))
    short, whole = " ".join(shown(path).split()), " ".join(shown(path, raw=True).split())
    assert "One two word" in short and "…" in short and "end." not in short and "Remember" not in short
    assert "word end. Remember" in whole


@pytest.mark.parametrize("width", [20, 59, 60, 200])
@pytest.mark.parametrize("color", [None, "truecolor"])
def test_markup_and_escapes_in_the_text_are_only_text(log, width, color):
    raw = "[KEY IDEA]\r\n[/b] :smile: \x1b]0;title\x07 \udcff [link=x]"
    candidate = {"text": raw, "previews": None, "kept": False, "slots": None, "reason": "unusable"}
    text = shown(log(row(problem="[bold]x[/bold] \x1b[31m [/]", candidates=[candidate])), width, raw=True, color=color)
    flat = "".join(text.split())
    assert all(part in flat for part in ("[bold]x[/bold]", "�[31m", "[KEYIDEA]", "[/b]:smile:"))
    assert "\x1b]0;" not in text and "\x1b[31m" not in text
    text.encode("utf-8")
    if color is None:
        assert "\x1b" not in text and "6/8" in text
        assert all(len(line) <= width for line in text.splitlines())
        assert ("┃" in text) == (width >= 60)  # a table, or a list of slots


def test_raw_shows_every_candidate(log):
    kept = {"text": "first", "previews": ["a", "b"], "kept": True, "slots": [2, 3], "reason": "kept"}
    failed = {"text": "second", "previews": None, "kept": False, "slots": None, "reason": "request failed"}
    path = log(row(candidates=[kept, failed]))
    text = shown(path, raw=True)
    assert "Candidate 0: kept, slot 2, slot 3\n  first" in text and "Candidate 1: request failed\n  second" in text
    assert "Candidate" not in shown(path)


def test_run_reads_filters_and_prints(log, capsys):
    path = log(row("first"), row("second", (4, 4)))
    text = printed(path, informative=True)
    assert "prompt first" in text and "prompt second" not in text
    assert text.endswith("1 of 2 prompts shown.\n")
    assert run(path, step=5) == 0
    assert capsys.readouterr().out == "0 of 2 prompts shown.\n"


def test_run_names_what_it_left_out(log, tmp_path):
    log(row("first"), "no JSON", row("third"))
    log(row("fourth", step=2, slots=[{**slot(0, 1), "rewards": ["tensor(-1.39)"]}]), "[1]", name="2.jsonl")
    text = printed(tmp_path)
    assert "3 of 3 prompts shown." in text
    assert f"lines that cannot be read: 2, the first {tmp_path}/1.jsonl:2: no record" in text
    assert "rewards that are no finite number" in text
    with pytest.raises(RecordError, match=r"no record that .*1\.jsonl:1: .*'uid' is missing.*not a rollout dump"):
        printed(log('{"step": 1}', '{"input": ""}'))


def test_a_run_is_inspected_where_its_config_says(tmp_path):
    elsewhere = str(tmp_path / "elsewhere")
    write_run(tmp_path / "run", steps=2, changes={DATA_DIR: elsewhere})
    (tmp_path / "run" / "strategy").rename(elsewhere)
    text = printed(tmp_path / "run", limit=1)
    assert "step 1 · prompt prompt14" in text and "run ·" not in text
    assert "1 of 12 prompts shown." in text


def test_a_run_without_a_log_says_what_to_set(tmp_path):
    write_run(tmp_path / "run", records=False, changes={DATA_DIR: None})
    with pytest.raises(RecordError, match=r"stage was not logged: .*algorithm\.subgroup\.strategy\.data_dir=DIR"):
        printed(tmp_path / "run")
    write_run(tmp_path / "early", records=False)
    with pytest.raises(RecordError, match=r"no \{step\}\.jsonl in its .*strategy\.data_dir=/"):
        printed(tmp_path / "early")
    (tmp_path / "run" / "hydra" / ".hydra" / "config.yaml").unlink()
    for path in (tmp_path / "run", tmp_path):  # the latter as a sweep's: one run at a time
        with pytest.raises(RecordError, match=r"nor a run's config that can be read: .* the directory of one run"):
            printed(path)
    with pytest.raises(RecordError, match="is not there"):
        printed(tmp_path / "none")
