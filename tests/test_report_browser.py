"""The subgroup browser's data: which prompts, which rollouts, and that nothing is left out in silence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import PREVIEW, record, rollouts, write_lines, write_run

from subgroup_offset.reports.browser import BrowserLimits, browser_data, cut
from subgroup_offset.reports.runs import load_runs


@pytest.fixture
def browse(tmp_path):
    """The data of one run and what the run lacks."""

    def make(limits=None, **arguments):
        write_run(tmp_path / "run", **{"lam": -0.3, "steps": 2, **arguments})
        return again(limits)

    def again(limits=None):
        (run,) = load_runs([tmp_path / "run"])
        return browser_data([run], limits or BrowserLimits()), " ".join(what for what, _ in run.missing)

    make.again = again
    return make


@given(st.text(), st.integers(0, 50))
def test_a_cut_text_says_how_much_is_left_out(text, limit):
    head, left, tail = cut(text, limit)
    assert len(head) + left + len(tail) == len(text)
    assert text.startswith(head) and text.endswith(tail)
    assert (head == text) if len(text) <= limit else (len(head) + len(tail) == limit and left > 0)


def test_the_most_informative_prompts_of_every_step(browse):
    data, _ = browse(BrowserLimits(prompts=2))
    (run,) = data["runs"]
    assert (run["name"], run["title"]) == ("run", "contrast (lam=-0.3) (run)")
    assert [(s["step"], s["total"]) for s in run["steps"]] == [(1, 6), (2, 6)]
    # Spans are i / 4, at most 1: prompts 4 and 5, the first of equals first.
    assert [[p["uid"] for p in s["prompts"]] for s in run["steps"]] == [
        ["prompt14", "prompt15"],
        ["prompt24", "prompt25"],
    ]
    prompt = run["steps"][0]["prompts"][0]
    assert (prompt["span"], prompt["seconds"], prompt["problem"]) == (1.0, 1.5, ("Problem 4 of step 1", 0, ""))
    assert [(s["name"], s["success"], s["reward"]) for s in prompt["slots"]] == [
        ("0", "4/4", "1.00"), ("1", "0/4", "-1.00"), ("2", "0/4", "-1.00"), ("3", "0/4", "-1.00"),
    ]  # fmt: skip
    assert [s["preview"] for s in prompt["slots"][:2]] == [None, PREVIEW.format(1)]
    json.dumps(data, allow_nan=False)


def test_rollouts_are_those_of_the_slot(browse):
    data, missing = browse(BrowserLimits(prompts=6))
    for step in data["runs"][0]["steps"]:
        for prompt in step["prompts"]:
            for slot in prompt["slots"]:
                sessions = [rollout["session"] for rollout in slot["texts"]]
                assert sessions == [4 * slot["slot"] + z for z in range(4)]
                assert f"{sum(rollout['score'] > 0 for rollout in slot['texts'])}/4" == slot["success"]
                assert slot["texts"][0]["text"] == (f"an output of session {sessions[0]}", 0, "")
    assert "dump" not in missing


def test_texts_share_what_the_page_may_hold(browse):
    # 2 steps x 5 prompts x 16 rollouts = 160 texts.
    data, _ = browse(BrowserLimits(characters=160 * 100), text="x" * 200)
    assert data["characters"] == 100
    head, left, tail = data["runs"][0]["steps"][0]["prompts"][0]["slots"][0]["texts"][0]["text"]
    assert (len(head), left, tail) == (60, 113, "x" * 27 + " of session 0")


def test_runs_without_dumps_take_no_share_of_the_page(tmp_path):
    paths = [write_run(tmp_path / "a", steps=1), write_run(tmp_path / "b", lam=0.3, steps=1, dumps=False)]
    # 5 prompts x 16 rollouts of one step of one run.
    assert browser_data(load_runs(paths), BrowserLimits(characters=80 * 90))["characters"] == 90


def test_without_dumps_there_are_no_texts_and_it_is_said(browse):
    data, missing = browse(dumps=False)
    assert "Rollout texts for the subgroup browser." in missing
    assert {step["note"] for step in data["runs"][0]["steps"]} == {"No rollout dump of this step."}


@pytest.mark.parametrize("dumps", [False, True])
def test_without_records_there_are_no_subgroups_and_it_is_said(browse, dumps):
    data, missing = browse(records=False, dumps=dumps)
    assert data is None
    assert "Records of the strategy stage, and so its subgroups." in missing


def test_plain_grpo_has_no_subgroups_and_lacks_none(browse):
    data, missing = browse(lam=None)
    assert data is None
    assert "strategy" not in missing


def test_only_strategies_have_records(browse):
    data, missing = browse(lam=None, changes={"algorithm__subgroup__partition": "length"})
    assert data is None
    assert "Subgroups of partition=length in the browser" in missing


def test_rollouts_without_uids_are_said(browse, tmp_path):
    browse()
    write_lines(tmp_path / "run" / "rollouts" / "1.jsonl", [{**rollouts(1, 4, "x")[0], "uid": None, "gts": "prompt14"}])
    data, missing = browse.again()
    prompts = [step["prompts"] for step in data["runs"][0]["steps"]]
    assert [any(slot["texts"] for slot in found[0]["slots"]) for found in prompts] == [False, True]
    assert "In the rollout dumps: lines that cannot be read: 1" in missing and "no uid" in missing


def test_half_written_files_are_read_as_far_as_they_go(browse, tmp_path):
    browse()
    for folder, cut_line in (("strategy", '{"step": 2, "uid"'), ("rollouts", '{"input": "prompt24 ')):
        with (tmp_path / "run" / folder / "2.jsonl").open("a") as file:
            file.write(cut_line)
    data, missing = browse.again()
    assert data["runs"][0]["steps"][1]["total"] == 6
    assert "In the rollout dumps: a half-written last line: 1" in missing


def test_a_broken_record_is_said_and_all_others_stay(browse, tmp_path):
    browse()
    odd = record(1, 0)
    odd["slots"][1]["rewards"][2] = "tensor(-1.39)"
    write_lines(tmp_path / "run" / "strategy" / "1.jsonl", [{"no": "record"}, odd, record(1, 3)])
    data, missing = browse.again()
    assert [(step["step"], step["total"]) for step in data["runs"][0]["steps"]] == [(1, 2), (2, 6)]
    assert "lines that cannot be read: 1, the first" in missing and "1.jsonl:1: no record" in missing
    assert "rewards that are no finite number" in missing
    assert data["runs"][0]["steps"][0]["prompts"][1]["slots"][1]["reward"] == "-1.00"


# n = 10 over K = 4 where Z is left open.
UNEVEN = {"algorithm__subgroup__strategy__rollouts_per_strategy": None, "actor_rollout_ref__rollout__n": 10}
SIZES = (3, 3, 2, 2)


def uneven_rows(uid="prompt14"):
    row = rollouts(1, 4, "x")[0]
    return [{**row, "uid": f"{uid}_{session}_0", "score": float(session)} for session in range(10)]


def uneven_record(**changes):
    slots = [
        {"subgroup": k, "preview": None, "successes": 0, "rollouts": n, "rewards": [0] * n} for k, n in enumerate(SIZES)
    ]
    return {**record(1, 4), "slots": slots, **changes}


def sessions_of(data):
    (prompt,) = data["runs"][0]["steps"][0]["prompts"]
    slots = sorted(prompt["slots"], key=lambda slot: slot["slot"])
    return [[rollout["session"] for rollout in slot["texts"]] for slot in slots]


def test_rollouts_that_are_spread_unevenly_stand_in_their_slots(browse, tmp_path):
    browse(records=False, steps=1, changes=UNEVEN)
    write_lines(tmp_path / "run" / "rollouts" / "1.jsonl", uneven_rows())
    write_lines(tmp_path / "run" / "strategy" / "1.jsonl", [uneven_record()])
    data, _ = browse.again()
    assert sessions_of(data) == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]


def test_a_failed_prompt_has_the_slots_of_the_config(browse, tmp_path):
    browse(records=False, steps=1, changes=UNEVEN)
    failed = uneven_record(status="failed")
    failed["slots"][0]["rollouts"] = 1  # sessions 1 and 2 failed
    write_lines(tmp_path / "run" / "strategy" / "1.jsonl", [failed])
    write_lines(tmp_path / "run" / "rollouts" / "1.jsonl", [r for i, r in enumerate(uneven_rows()) if i not in (1, 2)])
    data, _ = browse.again()
    assert sessions_of(data) == [[0], [3, 4, 5], [6, 7], [8, 9]]


def test_rollouts_whose_slot_is_not_known_are_counted(browse, tmp_path):
    browse(records=False, steps=1, changes=UNEVEN)
    failed = uneven_record(status="failed")
    failed["slots"] = failed["slots"][:2]  # the data set gave this prompt another n
    write_lines(tmp_path / "run" / "strategy" / "1.jsonl", [failed])
    write_lines(tmp_path / "run" / "rollouts" / "1.jsonl", uneven_rows())
    data, _ = browse.again()
    assert sessions_of(data) == [[0, 1, 2], [3, 4, 5]]
    assert "4 rollouts of failed prompts are not shown" in data["runs"][0]["steps"][0]["note"]


def test_a_finished_prompt_has_the_slots_that_were_recorded(browse, tmp_path):
    """Whatever the config says: verl lets a data set give a prompt an n of its own."""
    browse(records=False, steps=1)
    write_lines(tmp_path / "run" / "strategy" / "1.jsonl", [uneven_record()])
    write_lines(tmp_path / "run" / "rollouts" / "1.jsonl", uneven_rows())
    data, _ = browse.again()
    assert sessions_of(data) == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
