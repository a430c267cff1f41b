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

With strategies the preview stays in the prompt, and the sibling may have had another one.

When it degenerates: a side is empty: the group is constant, its rows stay and get 0. A prompt that would exceed
`data.max_prompt_length`, or the context together with the response: less of the sibling, then none. Sessions of several
outputs, images, models whose positions have several axes, and prompts that the agent loop has made or cut itself stay
plain. What stays is counted.

`bicc/log_ratio_mean` is what the sibling changes, log pi_old(o | q, o_opp) - log pi_old(o | q) a token, with the
trainer's and the sampler's log-probabilities; in it are the groups with both verdicts. It says how far the printed rho
is from 1. With `ratio: paper` nobody computes the former.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_choice, require_number, require_text

if TYPE_CHECKING:
    from jinja2 import Template

    from subgroup_offset.partition import FinishedRollout
    from subgroup_offset.rollout.group import FinishedGroup

_KEY = "algorithm.subgroup.method.bicc"
TEMPLATE = "{{ problem }}\n\nAn earlier attempt, which is {{ verdict }}, begins like this:\n{{ attempt }}"
_SAMPLES = {"problem": "What is 2 + 2?", "attempt": "Let me see.", "verdict": "wrong"}
REWRITTEN, PLAIN, LOG_RATIO = "bicc/rows_rewritten_count", "bicc/rows_plain_count", "bicc/log_ratio_mean"


@dataclass(frozen=True)
class BiCC(Method):
    """Slots scale and context, on verdicts; its half in the worker rewrites the rows."""

    slots: ClassVar[tuple[str, ...]] = ("scale", "context")
    on_verdicts: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    sees_groups: ClassVar[bool] = True
    logs: ClassVar[tuple[str, ...]] = (REWRITTEN, PLAIN, LOG_RATIO)
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
        self._log_ratio(g)
        return 1 / g.std(ddof=0).clamp(min=1 / g.k)  # of a group with both verdicts it is above 1 / k

    def _log_ratio(self, g: GroupView) -> None:
        tokens = g.mask & (g.valid & g.varied)[:, None]
        if self.ratio == "matched" and tokens.any() and g.has("rollout_log_probs"):
            ratio = (g.read("old_log_probs") - g.read("rollout_log_probs"))[tokens]
            ratio = ratio[ratio.isfinite()]
            if len(ratio):
                g.metrics[LOG_RATIO] = float(ratio.mean())

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
        from subgroup_offset.strategy.prompts import problem_text, replace_problem

        chat = list(rollout.fields["raw_prompt"])
        settings = group.config.actor_rollout_ref.rollout
        context = settings.get("max_model_len") or settings.prompt_length + settings.response_length
        limit = min(settings.prompt_length, context - len(group.outputs[rollout.session][0].response_ids))
        attempt = list(group.outputs[partner.session][0].response_ids)
        attempt = attempt[: max(1, ceil(self.portion * len(attempt)))]
        while attempt:
            text = self._compiled.render(
                problem=problem_text(chat),
                attempt=group.tokenizer.decode(attempt, skip_special_tokens=True),
                verdict="right" if partner.success else "wrong",
            )
            ids = await group.chat.tokens(replace_problem(chat, text.strip()))
            if len(ids) <= limit:
                return ids
            # Less by what is too much, once more where the shorter text has not that many fewer tokens.
            attempt = attempt[: limit - len(ids)]
        return None

    @cached_property
    def _compiled(self) -> Template:
        from subgroup_offset.strategy.prompts import compile_template

        return compile_template(f"{_KEY}.template", self.template or TEMPLATE, _SAMPLES, optional={"verdict"})

    def check_run(self, config: Any, findings: Any) -> None:
        """The template must be one, the ratio's denominator the one that is asked for, and rows movable."""
        try:
            _ = self._compiled
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
        if self.ratio == "paper" and not config.actor_rollout_ref.rollout.get("calculate_log_probs"):
            findings.error(
                f"{_KEY}.ratio=paper divides by the sampler's probabilities, and actor_rollout_ref.rollout."
                "calculate_log_probs=False keeps none: set it to True."
            )
        if (config.get("distillation") or {}).get("enabled"):
            findings.error(
                f"{_KEY} changes the prompt of rows on which the teacher of distillation.enabled=True has spoken "
                "already, token by token: remove one of them."
            )
        if config.actor_rollout_ref.rollout.get("enable_rollout_routing_replay"):
            findings.error(
                f"{_KEY} changes where a row's tokens stand, by which router replay finds them: set "
                "actor_rollout_ref.rollout.enable_rollout_routing_replay=False."
            )
        if config.algorithm.subgroup.get("context") == "plain":
            findings.error(f"{_KEY} and algorithm.subgroup.context=plain both set the prompt: remove one of them.")
