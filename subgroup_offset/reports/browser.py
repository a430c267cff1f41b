"""The data of the subgroup browser: the paper's Table 6 for the most informative prompts of every step, with rollouts.

Everything that is left out is said: how many prompts of a step, how many characters of a text, and why rollouts of a
step are not there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from subgroup_offset.config import StrategyConfig
from subgroup_offset.reports.methods import STRATEGY
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.settings import STRATEGY_DIR, SUBGROUP
from subgroup_offset.slots import slot_sizes
from subgroup_offset.strategy import split_instructions
from subgroup_offset.strategy.dump import read_rollouts, slot_of
from subgroup_offset.strategy.json_lines import Unusable
from subgroup_offset.strategy.record import read_records
from subgroup_offset.strategy.subgroups import PromptRecord, SlotRecord, select

DUMP_FIX = "trainer.rollout_data_dir=DIR"
PROBLEM_CHARACTERS = 4000  #: Of a problem.
Texts = dict[tuple[str, int], list[dict[str, Any]]]  #: Rollouts by prompt and slot, as JSON values.


@dataclass(frozen=True)
class BrowserLimits:
    """What keeps the page small."""

    #: Prompts of a step, the most informative ones.
    prompts: int = 5
    #: Characters of all rollouts' texts together; each is cut to its share of it, within the two bounds.
    characters: int = 6_000_000
    shortest: int = 80
    longest: int = 4000


def browser_data(runs: Sequence[Run], limits: BrowserLimits) -> dict[str, Any] | None:
    """Everything that the page's script shows, as JSON values; None where no run has a subgroup to show."""
    found = {run: prompts for run in runs if (prompts := _informative(run, limits))}
    if not found:
        return None
    # Counted by what the records say, for texts are cut as they are read.
    expected = sum(
        slot.rollouts
        for run, steps in found.items()
        for step in steps.keys() & run.rollout_files.keys()
        for prompt in steps[step][1]
        for slot in prompt.slots
    )
    characters = min(max(limits.characters // max(expected, 1), limits.shortest), limits.longest)
    return {
        "prompts": limits.prompts,
        "characters": characters,
        "runs": [
            {
                "name": run.name,
                "title": run.name if run.name == run.method.label else run.title,
                "steps": _steps_json(run, steps, characters),
            }
            for run, steps in found.items()
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


def _informative(run: Run, limits: BrowserLimits) -> dict[int, tuple[int, list[PromptRecord]]]:
    """By step: how many prompts it has, and the most informative ones."""
    if not run.strategy_files:
        partition = run.setting(f"{SUBGROUP}.partition", "strategy")
        if run.method.strategy_based and partition != "strategy":
            what = f"Subgroups of partition={partition} in the browser: no file holds them."
            run.lacks(what, f"{SUBGROUP}.partition=strategy.")
        elif run.method.strategy_based:
            run.lacks("Records of the strategy stage, and so its subgroups.", f"{STRATEGY_DIR}=DIR (and {DUMP_FIX})")
        return {}
    if not run.rollout_files:
        run.lacks("Rollout texts for the subgroup browser.", DUMP_FIX)
    steps, unusable = {}, Unusable()
    for step, path in run.strategy_files.items():
        if records := read_records(path, unusable):
            # Candidates that were not kept are the bulk of a record and are not shown.
            kept = [replace(record, candidates=()) for record in select(records, limit=limits.prompts)]
            steps[step] = len(records), kept
    _note(run, "records of the strategy stage", unusable)
    return steps


def _note(run: Run, where: str, unusable: Unusable) -> None:
    for what in unusable.texts():
        run.lacks(f"In the {where}: {what}.", "Nothing, if the run is still going; all else is shown.")


def _slot_sizes(run: Run, sessions: int) -> tuple[int, ...]:
    """How many rollouts each slot of a prompt was given, by the config; in all at least as many as it had sessions."""

    def count(key: str) -> int | None:
        value = run.setting(key)
        return value if isinstance(value, int) and value > 0 else None

    return slot_sizes(
        max(count("actor_rollout_ref.rollout.n") or 1, sessions),
        count(f"{STRATEGY}num_strategies") or StrategyConfig().num_strategies,
        count(f"{STRATEGY}rollouts_per_strategy"),
        step=2 if run.setting(f"{STRATEGY}sampling") == "paired" else 1,
    )


def _recorded_sizes(run: Run, prompt: PromptRecord) -> tuple[int, ...]:
    """Rollouts of each slot: as recorded where none is missing, else as the config gives them."""
    recorded = tuple(slot.rollouts for slot in prompt.slots)
    configured = _slot_sizes(run, sum(recorded))
    # A data set may give a prompt another n than the config does, which shows in the number of slots at most.
    return recorded if prompt.status == "finished" or len(configured) != len(recorded) else configured


def _steps_json(run: Run, steps: dict[int, tuple[int, list[PromptRecord]]], characters: int) -> list[dict[str, Any]]:
    unusable, found = Unusable(), []
    for step, (total, prompts) in steps.items():
        texts, note = {}, "No rollout dump of this step."
        if path := run.rollout_files.get(step):
            texts, note = _texts(
                path, {prompt.uid: _recorded_sizes(run, prompt) for prompt in prompts}, characters, unusable
            )
        shown = [_prompt_json(prompt, texts) for prompt in prompts]
        found.append({"step": step, "total": total, "note": note, "prompts": shown})
    _note(run, "rollout dumps", unusable)
    return found


def _texts(path: Path, sizes: dict[str, tuple[int, ...]], characters: int, unusable: Unusable) -> tuple[Texts, str]:
    """The rollouts of prompts with slots of these sizes, and a note on those that are not shown."""
    texts: Texts = defaultdict(list)
    strange = 0
    for rollout in read_rollouts(path, sizes.keys(), unusable):
        slot = slot_of(rollout.session, sizes[rollout.prompt])
        strange += slot >= len(sizes[rollout.prompt])
        values = {"session": rollout.session, "part": rollout.part, "score": rollout.score}
        texts[rollout.prompt, slot].append({**values, "text": cut(rollout.output, characters)})
    return texts, f"{strange} rollouts of failed prompts are not shown: their slots are not known." if strange else ""


def _prompt_json(prompt: PromptRecord, texts: Texts) -> dict[str, Any]:
    return {
        "uid": prompt.uid,
        "span": prompt.span,
        "seconds": None if math.isnan(prompt.seconds) else prompt.seconds,
        "status": prompt.status,
        "successes": sum(slot.successes or 0 for slot in prompt.slots),
        "problem": cut(split_instructions(prompt.problem)[1].strip(), PROBLEM_CHARACTERS),
        "slots": [_slot_json(slot, texts.get((prompt.uid, slot.slot), [])) for slot in prompt.best_first],
    }


def _slot_json(slot: SlotRecord, rollouts: list[dict[str, Any]]) -> dict[str, Any]:
    own = str(slot.subgroup) == str(slot.slot)
    return {
        "name": str(slot.slot) if own else f"{slot.slot} (subgroup {slot.subgroup})",
        "slot": slot.slot,
        "idea": slot.key_idea,
        "preview": slot.preview,
        "success": slot.success,
        "reward": slot.reward,
        "texts": sorted(rollouts, key=lambda rollout: (rollout["session"], rollout["part"])),
    }
