"""Log-probabilities that vLLM gives a prompt: ``python olmo3_engine.py MODEL HF_OVERRIDES...`` prints them as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def engine_log_probs(model: str, *hf_overrides: dict[str, Any]) -> list[list[float]]:
    """Run this program, for an engine with each of the overrides in turn; vLLM takes a process over."""
    command = [sys.executable, __file__, model, *map(json.dumps, hf_overrides)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(model: str, *hf_overrides: str) -> None:
    """Engines in this process."""
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"}
    print(json.dumps([prompt_log_probs(model, json.loads(overrides)) for overrides in hf_overrides]))


def prompt_log_probs(model: str, hf_overrides: dict[str, Any]) -> list[float]:
    """Of the second token of IDS and all that follow."""
    from olmo3_models import IDS
    from vllm import LLM, SamplingParams

    engine = LLM(
        model,
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        max_model_len=64,
        max_num_seqs=1,
        hf_overrides=hf_overrides,
    )
    sampling = SamplingParams(max_tokens=1, prompt_logprobs=1, detokenize=False)
    (result,) = engine.generate([{"prompt_token_ids": IDS.tolist()}], sampling)
    tokens = zip(result.prompt_logprobs[1:], IDS[1:].tolist(), strict=True)
    return [by_token[token].logprob for by_token, token in tokens]


if __name__ == "__main__":
    main(*sys.argv[1:])
