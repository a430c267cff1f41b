"""The program that samples: ``python -m subgroup_offset.evaluation.sampler``, with verl's config and no trainer.

It starts as many of verl's standalone rollout replicas as the nodes have room for, and keeps them busy. Prompts go
through verl's own agent loops, so they are tokenized as in training and validation, and every agent loop that the
config names works. Each sample is on disk as soon as it is finished. Single-stage: no prompt is changed.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import hydra
import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker
from verl.experimental.reward_loop import RewardLoopManager
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env
from verl.utils.device import auto_set_device
from verl.utils.tracking import FileLogger
from verl.workers.rollout.llm_server import LLMServerManager

from subgroup_offset.evaluation.generations import SampleWriter
from subgroup_offset.evaluation.plan import BenchmarkProblem, SampleKey, read_requests
from subgroup_offset.rollout.guard import Cause, FailureGuard, PromptOutcomes, RunStopped

logger = logging.getLogger(__name__)

#: Requests that fail in a row, all for one reason, before the run gives up: a dead engine takes none any more.
FAILURES = 32


class Sampler(AgentLoopWorker):
    """verl's agent loops in this process: what goes in is a problem, what comes out a sample as it is written."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._end_tokens = _end_tokens(self.tokenizer, self.model_config.generation_config)

    async def sample(self, key: SampleKey, problem: BenchmarkProblem) -> dict[str, Any]:
        """A sample with the columns of ``generations.COLUMNS`` and more.

        Raises:
            Exception: whatever the agent loop, the engine or the reward raise.
        """
        chosen = self.rollout_config.val_kwargs
        output = await self._run_agent_loop(
            {
                "temperature": chosen.temperature,
                "top_p": chosen.top_p,
                "top_k": chosen.top_k,
                "repetition_penalty": 1.0,
                "logprobs": False,
            },
            {"step": 0, "sample_index": 0, "rollout_n": key.sample, "validate": True},
            agent_name=self.rollout_config.agent.default_agent_loop,
            trace=False,
            # The columns of a row of verl's data set.
            raw_prompt=problem.chat,
            data_source=problem.data_source,
            reward_model={"style": "rule", "ground_truth": problem.reference},
            extra_info=key._asdict(),
        )
        if not output.response_ids:
            raise RuntimeError("the engine gave up a request: its sample is missing, and the next start generates it")
        verdict = output.extra_fields.get("reward_extra_info") or {}
        # An end token in the last place is an end, whatever the length.
        whole = output.response_ids[-1] in self._end_tokens
        return {
            **key._asdict(),
            "response": self.tokenizer.decode(output.response_ids, skip_special_tokens=True),
            "reference": problem.reference,
            "prompt_tokens": len(output.prompt_ids),
            "response_tokens": len(output.response_ids),
            "truncated": not whole and len(output.response_ids) >= self.rollout_config.response_length,
            "reward": None if output.reward_score is None else float(output.reward_score),
            "reward_correct": None if verdict.get("acc") is None else float(verdict["acc"]) > 0.5,
        }

    async def _agent_loop_postprocess(
        self, output: AgentLoopOutput | list[AgentLoopOutput], validate: bool, **columns: Any
    ) -> AgentLoopOutput:
        """The last output with its reward; verl's own pads it for a batch of the trainer."""
        outputs = output if isinstance(output, list) else [output]
        await self._compute_score(outputs, columns)
        return outputs[-1]


async def sample_all(config: DictConfig) -> None:
    """Sample what ``evaluation.requests`` lists into ``evaluation.samples_dir``.

    Raises:
        RunStopped: when requests fail one after the other for one reason, and at the end if any has failed.
    """
    rewards = RewardLoopManager(config).reward_loop_worker_handles  # they start while the engines do
    servers = await LLMServerManager.create(config=config)
    sampler = Sampler(config, servers.get_client(), reward_loop_worker_handles=rewards)
    writer = SampleWriter(Path(config.evaluation.samples_dir))
    requests = read_requests(Path(config.evaluation.requests))
    progress = FileLogger("subgroup_offset", "evaluation")
    guard, all_of_them = FailureGuard(FAILURES), PromptOutcomes()

    async def keep_busy() -> None:
        for key, problem in requests:
            outcome = PromptOutcomes()
            try:
                writer.write(await sampler.sample(key, problem))
                await asyncio.to_thread(writer.sync)
                outcome.kept = 1
            except Exception as error:
                logger.warning("%s failed: %s", tuple(key), error, exc_info=Cause.of(error) not in all_of_them.said)
                outcome.lose(error)
            all_of_them.add(outcome)
            progress.log({}, all_of_them.kept)
            if reason := guard.look(outcome):
                raise RunStopped(reason)

    # What the engines take at once; more would only wait in front of them.
    at_once = len(servers.get_replicas()) * config.actor_rollout_ref.rollout.max_num_seqs
    await asyncio.gather(*(keep_busy() for _ in range(at_once)))
    if lost := all_of_them.lost.total():
        raise RunStopped(f"{lost} requests failed: {'; '.join(all_of_them.said.values())}")


@hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
def main(config: DictConfig) -> None:
    """Sample as the config says."""
    auto_set_device(config)
    with open_dict(config):
        rollout = config.actor_rollout_ref.rollout
        rollout.nnodes, rollout.n_gpus_per_node = config.trainer.nnodes, config.trainer.n_gpus_per_node
    OmegaConf.resolve(config)
    settings = OmegaConf.merge({"runtime_env": get_ppo_ray_runtime_env(config)}, config.ray_kwargs.get("ray_init", {}))
    ray.init(**OmegaConf.to_container(settings))
    asyncio.run(sample_all(config))


def _end_tokens(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    """Ids of the tokens at which the engine ends a response."""
    ends = getattr(generation_config, "eos_token_id", None)
    ends = ends if isinstance(ends, list | tuple) else [ends]
    return frozenset(token for token in (tokenizer.eos_token_id, *ends) if token is not None)


if __name__ == "__main__":
    main()
