"""VeriGate: where every rollout of a prompt is wrong, its steps are compared (arXiv 2605.30451, abstract and summary).

Prompts with a success keep GRPO's advantages. In one without, a process reward model scores the steps of each rollout,
q_{i,1..S_i}, and all tokens of step j get

    A = coef * (c_{i,j} - mean) / (sd + 1e-6),    c_{i,j} = sum_{j' >= j} q_{i,j'}

with the mean and the sample standard deviation over all steps of the prompt's rollouts. Only such prompts are scored:
that is the point of the gate.

What the source leaves open, and the choice here: steps end at blank lines (`separator`), whose tokens belong to the
step before. Suffix sums favour long answers; `credit: mean` takes suffix means. A wrong group whose rewards differ (a
bonus for the format) is scored, too, and its credit replaces GRPO's; `gate: constant` leaves it to GRPO.

When it degenerates: all steps alike, or fewer than two of them: 0, counted. A rollout whose scores fail has 0 and is in
no statistic, since a missing step would spoil its sums; if all fail, the prompt has 0. Only the last output row of a
session is scored. The mean is over steps, so over tokens the credit does not sum to 0: `verigate/token_mean`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from subgroup_offset.advantage import EPSILON
from subgroup_offset.logs import WarnOnce
from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_choice, require_int, require_number, require_text

if TYPE_CHECKING:
    from subgroup_offset.partition import FinishedRollout
    from subgroup_offset.rollout.group import FinishedGroup
    from subgroup_offset.rollout.step_scorer import StepScorer

_KEY = "algorithm.subgroup.method.verigate"
#: The field with a row's steps, as JSON: [[end, score], ...], null where there are none, or that the gate left it.
FIELD, LEFT = "sgo_steps", "left to GRPO"
SCORED, FAILED = "verigate/scored_rollouts_count", "verigate/failed_rollouts_count"

_warn_once = WarnOnce(logging.getLogger(__name__))
_scorers: dict[VeriGate, StepScorer] = {}


@dataclass(frozen=True)
class VeriGate(Method):
    """Slot credit; its half in the worker asks the scorer."""

    slots: ClassVar[tuple[str, ...]] = ("credit",)
    needs_labels: ClassVar[bool] = True
    sees_groups: ClassVar[bool] = True
    logs: ClassVar[tuple[str, ...]] = (
        SCORED,
        FAILED,
        "verigate/credited_groups_count",
        "verigate/flat_groups_count",
        "verigate/token_mean",
    )
    #: Dotted path of an async callable ``(problem, steps) -> scores``; or ``url``.
    scorer: str | None = None
    #: A process reward model served by vLLM's pooling server.
    url: str | None = None
    #: The name it is served by; null asks the server.
    model: str | None = None
    #: The model's token at the end of a step, and the system prompt it was trained with (Qwen2.5-Math-PRM's).
    tag: str = "<extra_0>"
    system: str = "Please reason step by step, and put your final answer within \\boxed{}."
    #: Seconds a rollout's request may take, further attempts, and requests at a time of one worker.
    timeout: float = 60.0
    retries: int = 2
    concurrency: int = 32
    #: What parts the steps of a response.
    separator: str = "\n\n"
    #: Suffix ``sum`` or ``mean``.
    credit_of: str = "sum"
    #: Which prompts are scored: with ``no_success``, or those whose rewards are ``constant`` besides.
    gate: str = "no_success"
    #: Of the credit, relative to GRPO's advantages.
    coef: float = 1.0

    def __post_init__(self) -> None:
        for name in ("scorer", "url", "model", "tag", "system", "separator"):
            require_text(f"{_KEY}.{name}", getattr(self, name), "a text")
        if (self.scorer is None) == (self.url is None):
            raise ConfigError(
                f"{_KEY}.scorer={self.scorer} and {_KEY}.url={self.url}: set one of them, the dotted path of an async "
                "callable (problem, steps) -> scores, or the URL of vLLM's pooling server with a process reward model."
            )
        for name in ("tag", "separator"):
            if not getattr(self, name):
                raise ConfigError(f"{_KEY}.{name} is empty: set it to a text, or leave it out.")
        require_choice(f"{_KEY}.credit_of", self.credit_of, ("sum", "mean"))
        require_choice(f"{_KEY}.gate", self.gate, ("no_success", "constant"))
        require_int(f"{_KEY}.retries", self.retries, minimum=0)
        require_int(f"{_KEY}.concurrency", self.concurrency, minimum=1)
        for name in ("timeout", "coef"):
            if require_number(f"{_KEY}.{name}", getattr(self, name)) <= 0:
                raise ConfigError(f"{_KEY}.{name}={getattr(self, name)} is not above 0: set it above.")

    # In the worker.

    async def finish_group(self, group: FinishedGroup) -> Mapping[str, int]:
        """Score the rollouts of a prompt without a success, and write what each step got to its row."""
        there = [r for r in group.rollouts if r.reward is not None and math.isfinite(r.reward)]
        if not there or any(r.reward > 0 if r.success is None else r.success for r in there):
            return {}
        if self.gate == "constant" and len({float(r.reward) for r in there}) > 1:
            await self._write(group, dict.fromkeys((r.session for r in there), LEFT))
            return {}
        found = await asyncio.gather(*(self._score(group, rollout) for rollout in there))
        await self._write(group, {rollout.session: scored for rollout, scored in zip(there, found, strict=True)})
        failed = sum(scored is None for scored in found)
        return {SCORED: len(found) - failed, FAILED: failed}

    async def _write(self, group: FinishedGroup, steps: Mapping[int, Any]) -> None:
        keys, rows = [], []
        for session, outputs in group.outputs.items():
            for output in range(len(outputs)):
                last = output == len(outputs) - 1
                keys.append(group.key(session, output))
                rows.append({FIELD: json.dumps(steps.get(session) if last else None)})
        await group.write(keys, rows)

    async def _score(self, group: FinishedGroup, rollout: FinishedRollout) -> list[tuple[int, float]] | None:
        from subgroup_offset.rollout.steps import split_steps
        from subgroup_offset.strategy.prompts import problem_text

        steps = split_steps(group.outputs[rollout.session][-1].response_ids, group.tokenizer, self.separator)
        if not steps:
            return []
        try:
            problem = problem_text(list(group.prompt["raw_prompt"]))
            scores = [float(score) for score in await self._scorer()(problem, [step.text for step in steps])]
            if len(scores) != len(steps) or not all(map(math.isfinite, scores)):
                raise ValueError(f"{len(scores)} scores for {len(steps)} steps, or one that is not finite: {scores}")
        except Exception as error:  # the scorer is somebody else's, and may be down: never the run's end
            _warn_once(
                "failed",
                f"verigate: a rollout's steps cannot be scored ({type(error).__name__}: {error}): it has no credit. "
                f"Counted in {FAILED}, said once a process.",
            )
            return None
        return [(step.end, score) for step, score in zip(steps, scores, strict=True)]

    def _scorer(self) -> StepScorer:
        from subgroup_offset.rollout.step_scorer import PoolingServer, load_scorer

        if self not in _scorers:
            _scorers[self] = (
                load_scorer(f"{_KEY}.scorer", self.scorer)
                if self.url is None
                else PoolingServer(
                    self.url, self.model, self.tag, self.system, self.timeout, self.retries, self.concurrency
                )
            )
        return _scorers[self]

    # In the estimator.

    def credit(self, g: GroupView) -> tuple[Tensor, Tensor]:
        """The rows of prompts without a success, and their tokens' credit (B, T)."""
        rows = g.valid & (g.c == 0)
        credit = torch.zeros(g.mask.shape, dtype=torch.float64, device=g.mask.device)
        prompts: dict[int, dict[int, list]] = {}
        numbers = rows.nonzero().flatten().tolist()
        for row, prompt, text in zip(numbers, g.stats.group[rows].tolist(), g.objects(FIELD, rows), strict=True):
            if (steps := json.loads(text)) == LEFT:
                rows[row] = False
            else:
                prompts.setdefault(prompt, {})[row] = steps or []
        flat = sum(not self._spread(of_prompt, credit) for of_prompt in prompts.values())
        credit = torch.where(g.mask & rows[:, None], credit, 0.0)
        g.metrics["verigate/credited_groups_count"] = float(len(prompts) - flat)
        g.metrics["verigate/flat_groups_count"] = float(flat)
        if rows.any():
            g.metrics["verigate/token_mean"] = float(credit[rows].sum() / g.mask[rows].sum().clamp(min=1))
        return g.of_rollout(rows), credit

    def _spread(self, steps: Mapping[int, list[tuple[int, float]]], credit: Tensor) -> bool:
        """Write the credit of one prompt's rows (row -> steps) into (B, T); False where there is none to give."""
        suffixes = {row: self._suffixes([score for _, score in of_row]) for row, of_row in steps.items()}
        values = torch.tensor([c for suffix in suffixes.values() for c in suffix], dtype=torch.float64)
        if len(values) < 2 or values.min() == values.max():
            return False
        mean, sd = values.mean(), values.std()
        for row, of_row in steps.items():
            start = 0
            for (end, _), c in zip(of_row, suffixes[row], strict=True):
                credit[row, start:end] = self.coef * (c - mean) / (sd + EPSILON)
                start = end
        return True

    def _suffixes(self, scores: list[float]) -> list[float]:
        sums, total = [], 0.0
        for count, score in enumerate(reversed(scores), start=1):
            total += score
            sums.append(total if self.credit_of == "sum" else total / count)
        return sums[::-1]

    def check_run(self, config: Any, findings: Any) -> None:
        """The scorer has to be importable here, as it will have to be in the workers."""
        if self.scorer is not None:
            from subgroup_offset.rollout.step_scorer import load_scorer

            try:
                load_scorer(f"{_KEY}.scorer", self.scorer)
            except ConfigError as error:
                findings.error(str(error))
