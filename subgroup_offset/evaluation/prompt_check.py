"""Measure the prompts of an evaluation before anything is started: verl cuts a longer one from the left with a warning
only, and the problem with it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from subgroup_offset.evaluation.plan import BenchmarkProblem, EvaluationError


def check_prompts(config: Any, problems: Sequence[BenchmarkProblem]) -> int:
    """The length in tokens of the longest prompt, as the run's agent loops will make them of its whole config.

    Raises:
        EvaluationError: if a prompt is longer than ``data.max_prompt_length``, or the context too short for it and
            ``data.max_response_length``: the engine would then shorten responses by itself.
    """
    from verl.utils.config import omega_conf_to_dataclass

    from subgroup_offset.rollout.prompt_tokens import Chat

    model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    worker = {"tools": [], "hf_model_type": getattr(model.hf_config, "model_type", None)}
    worker |= {"config": config, "tokenizer": model.tokenizer, "processor": model.processor}
    chat = Chat(SimpleNamespace(**worker, llm_client=None, dataset_cls=None))
    lengths = [len(chat.build(problem.chat)) for problem in problems]
    longest, limit, response = max(lengths), config.data.max_prompt_length, config.data.max_response_length
    long = [problem.id for problem, length in zip(problems, lengths, strict=True) if length > limit]
    if long:
        raise EvaluationError(
            f"{len(long)} of {len(problems)} prompts are longer than {limit} tokens, {long[0]} for one, and the "
            f"longest has {longest}: set --max-prompt-length to at least {longest}."
        )
    context = config.actor_rollout_ref.rollout.max_model_len
    if longest + response > context:
        raise EvaluationError(
            f"actor_rollout_ref.rollout.max_model_len={context} is less than the longest prompt, {longest} tokens, and "
            f"--max-response-length {response} together: leave it out, or set it to {longest + response} or above."
        )
    positions = getattr(model.hf_config.get_text_config(decoder=True), "max_position_embeddings", None)
    if positions is not None and context > positions:
        raise EvaluationError(
            f"The model has a context of {positions} tokens (max_position_embeddings), and {context} are asked for: "
            f"--max-prompt-length (at least {longest}) and --max-response-length together must not be more."
        )
    return longest
