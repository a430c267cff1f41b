"""The strategy stage's JSONL: what is written can be read again, whatever the text is."""

from subgroup_offset.reports.inspect import read_records
from subgroup_offset.strategy.record import RecordWriter, stage_record
from subgroup_offset.strategy.stage import CandidateRecord, Plan
from subgroup_offset.strategy.stats import StageStats

CHAT = [{"role": "user", "content": "Q 数"}]


def record(step: int, text: str = "raw") -> dict:
    plan = Plan(
        previews=["p", None],
        messages=[CHAT, CHAT],
        stats=StageStats(seconds_sum=0.5),
        subgroups=[0, 1],
        candidates=[CandidateRecord(text, ("p",), (0,), "kept"), CandidateRecord("x", (), (), "unusable")],
    )
    outcomes = [(0, 1.0, True), (0, -1.0, False), (1, None, None)]
    return stage_record(plan, CHAT, outcomes, {"step": step, "uid": "u", "index": 3}, "finished")


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
    writer.write([record(1), record(2, "\udcff half a token")])
    writer.write([record(1)])
    assert [r.step for r in read_records(tmp_path / "d")] == [1, 1, 2]
    assert read_records(tmp_path / "d" / "1.jsonl")[0].problem == "Q 数"
    # Another run in the same directory begins its steps anew.
    RecordWriter(str(tmp_path / "d")).write([record(1)])
    assert [r.step for r in read_records(tmp_path / "d")] == [1, 2]
