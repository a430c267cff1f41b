"""The data of the subgroup browser: the paper's Table 6 for the most informative prompts of every step, with rollouts.

Everything that is left out is said: how many prompts of a step, how many characters of a text, and why rollouts of a
step are not there.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from subgroup_offset.config import StrategyConfig
from subgroup_offset.reports.dumps import DumpProblems, DumpRow, read_dump, within_bytes
from subgroup_offset.reports.inspect import select, span
from subgroup_offset.reports.methods import STRATEGY
from subgroup_offset.reports.records import PromptRecord, RecordProblems, SlotRecord, read_records
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.settings import STRATEGY_DIR, SUBGROUP
from subgroup_offset.slots import slot_sizes
from subgroup_offset.strategy import extract_preview, split_instructions

DUMP_FIX = "trainer.rollout_data_dir=DIR"
PROBLEM_CHARACTERS = 4000  #: Of a problem.


@dataclass(frozen=True)
class BrowserLimits:
    """What keeps the page small."""

    #: Prompts of a step, the most informative ones.
    prompts: int = 5
    #: Characters of all rollouts' texts together; each is cut to its share of it, within the two bounds.
    characters: int = 6_000_000
    shortest: int = 80
    longest: int = 4000
    #: Bytes of rollout dumps that are read for each run.
    dump_bytes: int = 2 * 2**30


@dataclass(frozen=True)
class _Rollout:
    session: int
    output: int
    score: float | None
    #: Of :func:`cut`.
    text: tuple[str, int, str]


@dataclass
class _Step:
    step: int
    prompts: list[PromptRecord]
    #: Prompts of the step, those not shown included; None where they were not read.
    total: int | None
    note: str = ""
    #: By prompt and slot.
    rollouts: dict[tuple[str, int], list[_Rollout]] = field(default_factory=dict)


def browser_data(runs: Sequence[Run], limits: BrowserLimits) -> dict[str, Any] | None:
    """Everything that the page's script shows, as JSON values; None where no run has a subgroup to show."""
    found = {run.name: steps for run in runs if (steps := _steps_of(run, limits))}
    if not found:
        return None
    shown = [run for run in runs if run.name in found]
    # Counted by what the records say, for texts are cut as they are read.
    count = sum(_expected(run, found[run.name]) for run in shown)
    limit = min(max(limits.characters // max(count, 1), limits.shortest), limits.longest)
    for run in shown:
        _add_rollouts(run, found[run.name], limits, limit)
    return {
        "prompts": limits.prompts,
        "characters": limit,
        "runs": [
            {
                "name": run.name,
                "label": run.method.label,
                "steps": [_step_json(step) for step in found[run.name]],
            }
            for run in shown
        ],
    }


def cut(text: str, limit: int) -> tuple[str, int, str]:
    """Beginning, number of characters left out, end: the whole text and 0 where it is short enough.

    The answer stands at the end, so two fifths of what is kept come from there.
    """
    if len(text) <= limit:
        return text, 0, ""
    tail = 2 * limit // 5
    return text[: limit - tail], len(text) - limit, text[len(text) - tail :]


def _expected(run: Run, steps: Sequence[_Step]) -> int:
    """How many rollouts of the chosen prompts the dumps should hold."""
    dumped = [step for step in steps if step.step in run.rollout_files]
    return sum(slot.rollouts for step in dumped for prompt in step.prompts for slot in prompt.slots)


def _steps_of(run: Run, limits: BrowserLimits) -> list[_Step]:
    if run.strategy_files:
        return _from_records(run, limits)
    if run.settings is None or not run.method.strategy_based:
        return []
    partition = run.settings.get(f"{SUBGROUP}.partition", "strategy")
    if partition != "strategy":
        what = f"Subgroups of partition={partition} in the browser: no file holds them."
        run.lacks(what, f"{SUBGROUP}.partition=strategy.")
        return []
    if run.rollout_files:
        run.lacks(
            "Records of the strategy stage; subgroups are taken from the rollout dump instead (success: a score > 0).",
            f"{STRATEGY_DIR}=DIR",
        )
        return _from_dumps(run, limits)
    run.lacks("Records of the strategy stage, and so its subgroups.", f"{STRATEGY_DIR}=DIR (and {DUMP_FIX})")
    return []


def _from_records(run: Run, limits: BrowserLimits) -> list[_Step]:
    if not run.rollout_files:
        run.lacks("Rollout texts for the subgroup browser.", DUMP_FIX)
    steps, problems = [], RecordProblems()
    for step, path in run.strategy_files.items():
        records = read_records(path, problems)
        if records:
            # Candidates that were not kept are the bulk of a record and are not shown.
            kept = [replace(record, candidates=()) for record in select(records, limit=limits.prompts)]
            steps.append(_Step(step, kept, len(records)))
    for said in problems.texts():
        run.lacks(f"In the records of the strategy stage: {said}.", "Nothing: the others are shown.")
    return steps


def _from_dumps(run: Run, limits: BrowserLimits) -> list[_Step]:
    steps, problems = [], DumpProblems()
    readable = within_bytes(run.rollout_files, limits.dump_bytes)
    for step, path in run.rollout_files.items():
        if step not in readable:
            steps.append(_Step(step, [], None, _too_large(path)))
            continue
        groups = defaultdict(list)
        for row in read_dump(path, None, problems):
            groups[row.prompt].append(replace(row, text=""))  # texts are read again for what is kept
        records = [
            _record(step, rows, _slot_sizes(run, 1 + max(row.session for row in rows))) for rows in groups.values()
        ]
        if records:
            steps.append(_Step(step, select(records, limit=limits.prompts), len(records)))
    _note(run, problems)
    return steps


def _note(run: Run, problems: DumpProblems) -> None:
    if problems.text():
        run.lacks(f"In the rollout dumps: {problems.text()}.", "Nothing, if the run is still going.")


def _too_large(path: Path) -> str:
    size = path.stat().st_size / 2**20
    return f"The rollout dump was not read: {size:,.0f} MiB, and the dumps of the run together are over the limit."


def _record(step: int, rows: Sequence[DumpRow], sizes: Sequence[int]) -> PromptRecord:
    """A prompt as the strategy stage would have recorded it, as far as its rollouts tell."""
    slots: list[list[DumpRow]] = [[] for _ in sizes]
    for row in rows:
        slots[_slot_of(row.session, sizes)].append(row)
    found = []
    for slot, members in enumerate(slots):
        last = list({row.session: row for row in members}.values())  # the last output of a session has its score
        scores = tuple(row.score for row in last)
        won = None if None in scores else sum(score > 0 for score in scores if score is not None)
        preview = extract_preview(last[0].input) if last else None
        found.append(SlotRecord(slot, preview, won, len(last), scores))
    status, unknown = "from the rollout dump", float("nan")
    return PromptRecord(step, rows[0].prompt, None, rows[0].input, unknown, status, tuple(found), ())


def _slot_sizes(run: Run, sessions: int) -> tuple[int, ...]:
    """How many rollouts each slot of a prompt was given, by the config; in all at least as many as it had sessions."""

    def count(key: str) -> int | None:
        value = run.settings.get(key) if run.settings else None
        return value if isinstance(value, int) and value > 0 else None

    return slot_sizes(
        max(count("actor_rollout_ref.rollout.n") or 1, sessions),
        count(f"{STRATEGY}num_strategies") or StrategyConfig().num_strategies,
        count(f"{STRATEGY}rollouts_per_strategy"),
        step=2 if run.settings and run.settings.get(f"{STRATEGY}sampling") == "paired" else 1,
    )


def _slot_of(session: int, sizes: Sequence[int]) -> int:
    """Sessions are given to the slots in order; the number of slots for a session that is none's."""
    return bisect_right(list(accumulate(sizes)), session)


def _add_rollouts(run: Run, steps: Sequence[_Step], limits: BrowserLimits, characters: int) -> None:
    files = {step.step: path for step in steps if (path := run.rollout_files.get(step.step)) and step.prompts}
    readable = within_bytes(files, limits.dump_bytes)
    problems = DumpProblems()
    for step in steps:
        if not step.prompts:
            continue
        if step.step not in files:
            step.note = "No rollout dump of this step."
        elif step.step not in readable:
            step.note = _too_large(files[step.step])
        else:
            _read_rollouts(run, step, files[step.step], characters, problems)
    if run.strategy_files:  # without records the dumps were read before, all rows of them
        _note(run, problems)


def _read_rollouts(run: Run, step: _Step, path: Path, characters: int, problems: DumpProblems) -> None:
    sizes = {prompt.uid: _recorded_sizes(run, prompt) for prompt in step.prompts}
    strange = 0
    for row in read_dump(path, sizes.keys(), problems):
        slot = _slot_of(row.session, sizes[row.prompt])
        rollout = _Rollout(row.session, row.output, row.score, cut(row.text, characters))
        step.rollouts.setdefault((row.prompt, slot), []).append(rollout)
        strange += slot >= len(sizes[row.prompt])
    if strange:
        step.note = f"{strange} rollouts of failed prompts are not shown: their slots are not known."


def _recorded_sizes(run: Run, prompt: PromptRecord) -> tuple[int, ...]:
    """Rollouts of each slot: as recorded where none is missing, else as the config gives them."""
    recorded = tuple(slot.rollouts for slot in prompt.slots)
    configured = _slot_sizes(run, sum(recorded))
    # A data set may give a prompt another n than the config does, which shows in the number of slots at most.
    return recorded if prompt.status == "finished" or len(configured) != len(recorded) else configured


def _step_json(step: _Step) -> dict[str, Any]:
    prompts = [_prompt_json(prompt, step) for prompt in step.prompts]
    return {"step": step.step, "total": step.total, "note": step.note, "prompts": prompts}


def _prompt_json(prompt: PromptRecord, step: _Step) -> dict[str, Any]:
    return {
        "uid": prompt.uid,
        "span": span(prompt),
        "seconds": None if math.isnan(prompt.seconds) else prompt.seconds,
        "status": prompt.status,
        "problem": cut(split_instructions(prompt.problem)[1].strip(), PROBLEM_CHARACTERS),
        "slots": [_slot_json(prompt.uid, k, slot, step) for k, slot in enumerate(prompt.slots)],
    }


def _slot_json(uid: str, k: int, slot: SlotRecord, step: _Step) -> dict[str, Any]:
    rollouts = sorted(step.rollouts.get((uid, k), []), key=lambda r: (r.session, r.output))
    return {
        "slot": k,
        "subgroup": slot.subgroup,
        "preview": slot.preview,
        "successes": slot.successes,
        "rollouts": slot.rollouts,
        "reward": slot.mean_reward,
        "texts": [asdict(rollout) for rollout in rollouts],
    }
