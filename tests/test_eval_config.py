"""The config of the run that samples, and prompts measured before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from eval_samples import problem
from transformers import Qwen3Config

from subgroup_offset.evaluation.plan import BenchmarkProblem, EvaluationError
from subgroup_offset.evaluation.prompt_check import check_prompts
from subgroup_offset.evaluation.run_config import (
    SEED_STRIDE,
    Sampling,
    compose_run,
    fixed_settings,
    shaping_settings,
)
from subgroup_offset.toy.tokenizer import build_tokenizer

POSITIONS = 512


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A config and a tokenizer; nothing here needs weights."""
    directory = tmp_path_factory.mktemp("model")
    config = Qwen3Config(architectures=["Qwen3ForCausalLM"], max_position_embeddings=POSITIONS)
    config.save_pretrained(directory)
    build_tokenizer().save_pretrained(directory)
    return directory


def composed(model: Path, sampling: Sampling, *user: str, start: int = 0):
    paths = (Path("/a dir/with=signs/requests.json"), Path("/it's/samples"))
    fixed = fixed_settings(sampling, start, model, *paths)
    return compose_run(sampling, fixed, user)[0]


@pytest.mark.parametrize("user", [["+platform=cpu"], ["+recipe=qwen3_8b", "trainer.nnodes=4"], ["+recipe=olmo3_7b"]])
def test_the_paper_is_the_default_whatever_the_platform(model, user):
    config = composed(model, Sampling(), *user)
    rollout = config.actor_rollout_ref.rollout
    sampling = rollout.val_kwargs
    assert (sampling.n, sampling.temperature, sampling.top_p, sampling.top_k) == (16, 0.7, 1.0, -1)
    assert (rollout.prompt_length, rollout.response_length, rollout.max_model_len) == (2048, 20480, 22528)
    assert rollout.load_format == "auto"  # verl's is dummy: weights that a trainer replaces
    assert config.evaluation.requests == "/a dir/with=signs/requests.json"
    assert config.evaluation.samples_dir == "/it's/samples"
    if "trainer.nnodes=4" in user:
        assert config.trainer.nnodes == 4 and rollout.gpu_memory_utilization == 0.8


def test_no_two_starts_share_a_seed(model):
    seeds = [composed(model, Sampling(seed=5), start=start).actor_rollout_ref.rollout.seed for start in range(3)]
    assert seeds == [5, 5 + SEED_STRIDE, 5 + 2 * SEED_STRIDE]
    assert SEED_STRIDE > 1024  # verl adds the number of the engine


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("actor_rollout_ref.rollout.val_kwargs.temperature=1.0", "temperature=1.0: use --temperature"),
        ("actor_rollout_ref.rollout.load_format=dummy", "load_format=dummy: leave it out"),
        ("actor_rollout_ref.rollout.response_length=10", "response_length=10: use --max-response-length"),
        ("actor_rollout_ref.rollout.full_determinism=True", "full_determinism=True: leave it out"),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size=16", "=16 x .* GPUs, has no room on trainer.nnodes=1 x"),
        ("trainer.nodes=2", "The overrides cannot be used: .*trainer.nodes"),
        ("trainer.nnodes=[", "The overrides cannot be used"),
    ],
)
def test_what_an_override_must_not_change(model, user, message):
    with pytest.raises(EvaluationError, match=message):
        composed(model, Sampling(), user)


def test_what_shapes_samples_is_told(model):
    plain = shaping_settings(composed(model, Sampling()))
    other = shaping_settings(
        composed(model, Sampling(), "actor_rollout_ref.rollout.val_kwargs.top_k=20", "trainer.nnodes=2")
    )
    assert {key for key in plain if plain[key] != other[key]} == {"actor_rollout_ref.rollout.val_kwargs.top_k"}


def test_samplings_that_cannot_be():
    with pytest.raises(EvaluationError, match=r"--top-p 0 is outside"):
        Sampling(top_p=0)


def long_problem(tokens: int) -> BenchmarkProblem:
    return BenchmarkProblem("a", f"of {tokens}", "aime24", (("user", " 7" * (tokens // 2)),), "7")


def test_prompts_are_measured_by_the_models_tokenizer(model):
    config = composed(model, Sampling(max_prompt_length=256, max_response_length=128), "+platform=cpu")
    problems = [problem("a", "1"), long_problem(100)]
    longest = check_prompts(config, problems)
    tokenizer = build_tokenizer()
    chat = [{"role": "user", "content": problems[1].prompt[0][1]}]
    assert longest == len(tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"])


def test_prompts_without_room_are_refused(model):
    def refused(message, *user, **lengths):
        with pytest.raises(EvaluationError, match=message):
            check_prompts(composed(model, Sampling(**lengths), "+platform=cpu", *user), problems)

    problems = [problem("a", "1"), long_problem(120), long_problem(200)]
    refused(
        r"2 of 3 prompts are longer than 100 tokens, of 120 for one, .* set --max-prompt-length to at least 2\d\d",
        max_prompt_length=100,
        max_response_length=16,
    )
    refused(
        r"max_model_len=220 is less than the longest prompt, 2\d\d tokens",
        "actor_rollout_ref.rollout.max_model_len=220",
        max_prompt_length=256,
        max_response_length=128,
    )
    refused(
        r"has a context of 512 tokens \(max_position_embeddings\), and 768 are asked for",
        max_prompt_length=256,
        max_response_length=512,
    )
