"""BiCC, bilateral context conditioning: a rollout is trained as the continuation of one that ended the other way.

Right rollouts are trained under the prompt plus the beginning of a wrong sibling, and wrong ones under that of a right
one (abstract and code of Skylanding/BiCC)::

    rho[t] = pi_theta(o_t | q, o_opp, o_<t) / pi_old(o_t | q, o_opp, o_<t)
    A = sqrt(n- / n+) for the right ones, -sqrt(n+ / n-) for the wrong ones

which is GRPO with the population standard deviation on verdicts. `portion` 0.4 of the sibling's tokens is the paper's
best. The sibling's beginning goes into the chat by a Jinja2 `template` (the code joins ids with a separator, for which
a chat has no place).

The worker rewrites the stored row, so that the trainer computes the old log-probabilities under the new prompt, too:
rho starts at 1. That is `ratio: matched`. The paper prints pi_old(o | q) below the line, and its code does the
inverse; `ratio: paper` is the printed one, together with `algorithm.rollout_correction.bypass_mode=True`, by which the
old log-probabilities are the sampler's. There rho leaves the clip range before the first update.

When it degenerates: a side is empty: the group is constant, its rows stay and get 0. A prompt that would exceed
`data.max_prompt_length`: less of the sibling, then none. Sessions of several outputs, and models whose positions have
several axes (images), stay plain. What stays is counted.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_choice, require_number, require_text

if TYPE_CHECKING:
    from subgroup_offset.partition import FinishedRollout
    from subgroup_offset.rollout.group import FinishedGroup

_KEY = "algorithm.subgroup.method.bicc"
TEMPLATE = "{{ problem }}\n\nAn earlier attempt, which is {{ verdict }}, begins like this:\n{{ attempt }}"
_SAMPLES = {"problem": "What is 2 + 2?", "attempt": "Let me see.", "verdict": "wrong"}
REWRITTEN, PLAIN = "bicc/rows_rewritten_count", "bicc/rows_plain_count"


@dataclass(frozen=True)
class BiCC(Method):
    """Slots scale and context, on verdicts; its half in the worker rewrites the rows."""

    slots: ClassVar[tuple[str, ...]] = ("scale", "context")
    on_verdicts: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    sees_groups: ClassVar[bool] = True
    logs: ClassVar[tuple[str, ...]] = (REWRITTEN, PLAIN)
    #: ``matched``: the ratio starts at 1; ``paper``: as printed.
    ratio: str = "matched"
    #: Share of the sibling's tokens, in (0, 1].
    portion: float = 0.4
    #: Which sibling: ``random`` (seeded by ``algorithm.subgroup.seed``, prompt and session) or ``shortest``.
    partner: str = "random"
    #: Jinja2 template, as text or a file's path, with ``problem``, ``attempt`` and ``verdict`` (right or wrong).
    template: str | None = None

    def __post_init__(self) -> None:
        require_choice(f"{_KEY}.ratio", self.ratio, ("matched", "paper"))
        require_choice(f"{_KEY}.partner", self.partner, ("random", "shortest"))
        require_text(f"{_KEY}.template", self.template, "a file's path or the template itself")
        if not 0 < require_number(f"{_KEY}.portion", self.portion) <= 1:
            raise ConfigError(f"{_KEY}.portion={self.portion} is no share: set it in (0, 1], for example to 0.4.")

    def scale(self, g: GroupView) -> Tensor:
        """(B,) 1 / sqrt(p (1 - p))."""
        return 1 / g.std(ddof=0).clamp(min=1 / g.k)  # of a group with both verdicts it is above 1 / k

    async def finish_group(self, group: FinishedGroup) -> Mapping[str, int]:
        """Rewrite the rows of a group with both verdicts."""
        from subgroup_offset.rollout.rewrite import rewritable, rewrite_prompt

        able = await rewritable(group)
        sides: dict[bool, list[FinishedRollout]] = {True: [], False: []}
        for rollout in able:
            if rollout.success is not None:
                sides[rollout.success].append(rollout)
        keys, rows, tags = [], [], []
        if sides[True] and sides[False]:
            for rollout in sides[True] + sides[False]:
                ids = await self._prompt(group, rollout, self._partner(group, rollout, sides[not rollout.success]))
                if ids is not None:
                    fields, lengths = rewrite_prompt(ids, group.outputs[rollout.session][0].response_ids)
                    keys.append(group.key(rollout.session))
                    rows.append(fields)
                    tags.append(lengths)
        if keys:
            await group.write(keys, rows, tags)
        total = sum(len(outputs) for outputs in group.outputs.values())
        return {REWRITTEN: len(keys), PLAIN: total - len(keys)}

    def _partner(
        self, group: FinishedGroup, rollout: FinishedRollout, others: list[FinishedRollout]
    ) -> FinishedRollout:
        if self.partner == "shortest":
            return min(others, key=lambda other: (other.tokens, other.session))
        seed = f"{group.config.algorithm.subgroup.get('seed', 0)}/{group.prompt['uid']}/{rollout.session}"
        return random.Random(seed).choice(others)

    async def _prompt(
        self, group: FinishedGroup, rollout: FinishedRollout, partner: FinishedRollout
    ) -> list[int] | None:
        """Ids of the prompt with the partner's beginning; None where there is no room for any of it."""
        from subgroup_offset.strategy.prompts import compile_template, problem_text, replace_problem

        template = compile_template(f"{_KEY}.template", self.template or TEMPLATE, _SAMPLES, optional={"verdict"})
        chat = list(rollout.fields["raw_prompt"])
        limit = group.config.actor_rollout_ref.rollout.prompt_length
        attempt = list(group.outputs[partner.session][0].response_ids)
        attempt = attempt[: max(1, ceil(self.portion * len(attempt)))]
        for _ in range(2):
            text = template.render(
                problem=problem_text(chat),
                attempt=group.tokenizer.decode(attempt, skip_special_tokens=True),
                verdict="right" if partner.success else "wrong",
            )
            ids = await group.chat.tokens(replace_problem(chat, text.strip()))
            if len(ids) <= limit:
                return ids
            attempt = attempt[: limit - len(ids)]  # less by what is too much
            if not attempt:
                return None
        return None

    def check_run(self, config: Any, findings: Any) -> None:
        """The template must be one, the ratio's denominator the one that is asked for, and rows movable."""
        from subgroup_offset.strategy.prompts import compile_template

        try:
            compile_template(f"{_KEY}.template", self.template or TEMPLATE, _SAMPLES, optional={"verdict"})
        except ConfigError as error:
            findings.error(str(error))
        bypass = bool((config.algorithm.get("rollout_correction") or {}).get("bypass_mode"))
        if bypass != (self.ratio == "paper"):
            findings.error(
                f"{_KEY}.ratio={self.ratio} and algorithm.rollout_correction.bypass_mode={bypass} do not go together: "
                f"the ratio {'as printed takes' if self.ratio == 'paper' else 'that starts at 1 does not take'} the "
                f"sampler's log-probabilities for the old ones. Set bypass_mode={not bypass}, or ratio to "
                f"{'paper' if bypass else 'matched'}."
            )
        if config.actor_rollout_ref.rollout.get("enable_rollout_routing_replay"):
            findings.error(
                f"{_KEY} changes where a row's tokens stand, by which router replay finds them: set "
                "actor_rollout_ref.rollout.enable_rollout_routing_replay=False."
            )
        if config.algorithm.subgroup.get("context") == "plain":
            findings.error(f"{_KEY} and algorithm.subgroup.context=plain both set the prompt: remove one of them.")
