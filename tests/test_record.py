"""Records of the strategy stage and verl's rollout dumps: what is written is read again, and odd lines are counted."""

import json

import pytest
from report_runs import PREVIEW, rollouts, write_lines

from subgroup_offset.strategy.dump import prompt_of, read_rollouts
from subgroup_offset.strategy.json_lines import RecordError, Unusable
from subgroup_offset.strategy.record import RecordWriter, read_records, stage_record
from subgroup_offset.strategy.stage import CandidateRecord, SlotPlan
from subgroup_offset.strategy.stats import StageStats

CHAT = [{"role": "user", "content": "Q 数"}]


def record(step: int, text: str = "raw") -> dict:
    plan = SlotPlan(
        previews=["p", None],
        messages=[CHAT, CHAT],
        stats=StageStats(seconds_sum=0.5),
        subgroups=[0, 1],
        candidates=[CandidateRecord(text, ("p",), (0,), "kept"), CandidateRecord("x", (), (), "unusable")],
    )
    outcomes = [(0, 1.0, True), (0, -1.0, False), (1, None, None)]
    return stage_record(plan, CHAT, outcomes, {"step": step, "uid": "u", "index": 3}, "finished")


@pytest.fixture
def read(tmp_path):
    """Reads lines (rows, or texts as they are) as records; None as problems: the first odd line raises."""

    def make(*lines, unusable=None, end="\n"):
        path = tmp_path / "1.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        path.write_bytes(("\n".join(texts) + end).encode("utf-8", "surrogateescape"))
        return read_records(path, unusable)

    return make


def test_outcomes_stand_with_their_slots():
    first, second = record(1)["slots"]
    assert first == {"subgroup": 0, "preview": "p", "successes": 1, "rollouts": 2, "rewards": [1.0, -1.0]}
    assert second == {"subgroup": 1, "preview": None, "successes": None, "rollouts": 1, "rewards": [None]}
    kept, unusable = record(1)["candidates"]
    assert (kept["kept"], kept["slots"]) == (True, [0])
    assert (unusable["kept"], unusable["previews"], unusable["slots"]) == (False, None, None)


def test_what_is_written_is_read_again(tmp_path):
    writer = RecordWriter(str(tmp_path / "d"))
    writer.write([])
    assert not (tmp_path / "d").exists()
    writer.write([record(10), record(2, "\udcff half a token\u2028")])
    writer.write([record(10)])
    (tmp_path / "d" / "notes.jsonl").write_text("no log")
    second, tenth, _ = found = read_records(tmp_path / "d")
    assert [r.step for r in found] == [2, 10, 10]  # in the order of the steps
    assert (tenth.uid, tenth.index, tenth.problem, tenth.seconds, tenth.status) == ("u", 3, "Q 数", 0.5, "finished")
    assert [(s.slot, s.success, s.success_rate, s.reward) for s in tenth.slots] == [
        (0, "1/2", 0.5, "0.00"),
        (1, "–/1", None, "–"),
    ]
    assert second.candidates[0] == CandidateRecord("\udcff half a token\u2028", ("p",), (0,), "kept")
    assert second.candidates[0].kept and not second.candidates[1].kept
    # Another run in the same directory begins its steps anew.
    RecordWriter(str(tmp_path / "d")).write([record(10)])
    assert [r.step for r in read_records(tmp_path / "d")] == [2, 10]


def test_a_half_written_last_line_is_left_out(read):
    whole = json.dumps(record(1), ensure_ascii=False)
    within = whole.encode()[: whole.encode().index("数".encode()) + 1].decode("utf-8", "surrogateescape")
    for cut in (whole[:40], within):
        unusable = Unusable()
        assert len(read(whole, cut, end="")) == len(read(whole, cut, end="", unusable=unusable)) == 1
        assert "a half-written last line: 1" in unusable.texts()[0]
    assert len(read(whole, whole, end="")) == 2  # complete, only the line break is missing
    assert read("", end="") == []


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 1', "[1]", "3", {"step": 1}, {**record(1), "step": "x"}, {**record(1), "slots": None},
        {**record(1), "slots": [{**record(1)["slots"][0], "preview": 3}]},
        json.dumps(record(1)).replace("0.5", "1" * 400), json.dumps(record(2)).replace("2", "Infinity"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_named_or_counted(read, line):
    with pytest.raises(RecordError, match=r"1\.jsonl:2: no record of the strategy stage"):
        read(record(1), line, record(1))
    unusable = Unusable()
    assert len(read(record(1), line, line, record(1), unusable=unusable)) == 2
    assert "lines that cannot be read: 2, the first" in unusable.texts()[0] and "1.jsonl:2:" in unusable.texts()[0]


@pytest.mark.parametrize("reward", ["tensor(-1.39)", "1.0", [1.0], float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_unknown_and_counted(read, reward):
    row, unusable = record(1), Unusable()
    row["slots"][0]["rewards"][0] = reward
    (found,) = read(row, unusable=unusable)
    assert found.slots[0].rewards == (None, -1.0)
    assert (found.slots[0].mean_reward, found.slots[0].successes) == (-1.0, 1)
    assert "rewards that are no finite number, which count as unknown: 1" in unusable.texts()[0]


def test_a_path_without_a_log_is_an_error(tmp_path):
    with pytest.raises(RecordError, match="is not there"):
        read_records(tmp_path / "none.jsonl")
    with pytest.raises(RecordError, match=r"holds no \{step\}\.jsonl"):
        read_records(tmp_path)


def test_rollouts_of_wanted_prompts(tmp_path):
    rows = [*rollouts(1, 1, "x"), *rollouts(1, 2, "x"), {**rollouts(1, 3, "x")[0], "uid": "pad_0_0"}]
    path = tmp_path / "1.jsonl"
    write_lines(path, [*rows, {**rows[0], "score": float("nan")}])
    assert len(list(read_rollouts(path))) == 33
    *_, odd = found = list(read_rollouts(path, {"prompt11"}))
    assert len(found) == 17 and {row.prompt for row in found} == {"prompt11"}
    assert (found[1].session, found[1].part, found[1].output, odd.score) == (1, 0, "x of session 1", None)
    write_lines(path, [{"output": ""}, {**rows[0], "uid": None}, *rows])
    unusable = Unusable()
    assert len(list(read_rollouts(path, None, unusable))) == 32
    assert "lines that cannot be read: 2, the first" in unusable.texts()[0]
    with pytest.raises(RecordError, match="1: no rollout of verl's dump"):
        list(read_rollouts(path))


def test_a_prompt_from_its_rollouts(tmp_path):
    write_lines(
        tmp_path / "1.jsonl", [row for row in rollouts(1, 3, "x") if not 4 <= int(row["uid"].split("_")[1]) < 8]
    )
    prompt = prompt_of(1, list(read_rollouts(tmp_path / "1.jsonl")), (4, 4, 4, 4))
    assert (prompt.step, prompt.uid, prompt.span) == (1, "prompt13", 0.75)
    assert [(slot.success, slot.reward) for slot in prompt.slots] == [
        ("3/4", "0.50"), ("0/0", "–"), ("0/4", "-1.00"), ("0/4", "-1.00"),
    ]  # fmt: skip
    assert [slot.preview for slot in prompt.slots[::2]] == [None, PREVIEW.format(2)]
