"""The two prompts and what a run may replace them with."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.config import ConfigError, StrategyConfig
from subgroup_offset.strategy import PAIR_MARKER, extract_pair, extract_preview, load_templates, split_instructions
from subgroup_offset.strategy.instructions import PREFIXES, SUFFIXES
from subgroup_offset.strategy.prompts import problem_text, replace_problem

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2? {{ x }}"}]


PROBLEM = "Let $x+y=10$. Find the largest value of $xy$."
# The dataset's own wording, written out here once more: instructions.py must not drift from it unnoticed.
DAPO_BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
DAPO_AFTER = '\n\nRemember to put your answer on its own line after "Answer:".'
DAPO = f"{DAPO_BEFORE}{PROBLEM}{DAPO_AFTER}"
GSM8K_AFTER = ' Let\'s think step by step and output the final answer after "####".'
BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


def user(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (DAPO, (DAPO_BEFORE, PROBLEM, DAPO_AFTER)),
        (f" \n{DAPO}\n", (f" \n{DAPO_BEFORE}", PROBLEM, f"{DAPO_AFTER}\n")),
        (f"{DAPO_BEFORE}{PROBLEM}", (DAPO_BEFORE, PROBLEM, "")),
        (f"{PROBLEM}{DAPO_AFTER}", ("", PROBLEM, DAPO_AFTER)),
        (f"{PROBLEM}{GSM8K_AFTER}", ("", PROBLEM, GSM8K_AFTER)),
        (f"{PROBLEM}\n{BOXED}", ("", PROBLEM, f"\n{BOXED}")),
        (f"{BOXED}\n{PROBLEM}", (f"{BOXED}\n", PROBLEM, "")),
        (PROBLEM, ("", PROBLEM, "")),
        (f" {PROBLEM} ", ("", f" {PROBLEM} ", "")),
        (f"Why write {BOXED!r} here? {PROBLEM}", ("", f"Why write {BOXED!r} here? {PROBLEM}", "")),
        (f"{DAPO_BEFORE}{DAPO_AFTER}", ("", f"{DAPO_BEFORE}{DAPO_AFTER}", "")),
        (BOXED, ("", BOXED, "")),
        ("", ("", "", "")),
    ],
)
def test_instructions_are_told_apart_from_the_problem(text, parts):
    assert split_instructions(text) == parts


SPACES = st.text(" \n", max_size=3)


@given(st.lists(st.one_of(st.sampled_from(PREFIXES + SUFFIXES), st.text(max_size=9), SPACES), max_size=6).map("".join))
def test_splitting_loses_nothing(text):
    parts = split_instructions(text)
    assert "".join(parts) == text
    assert parts[1].strip() or not text.strip()


@given(st.sampled_from(PREFIXES), st.sampled_from(SUFFIXES), SPACES, SPACES)
def test_every_known_wrapper_is_split_off(prefix, suffix, before, after):
    parts = (f"{before}{prefix}{after}", PROBLEM, f"{after}{suffix}{before}")
    assert split_instructions("".join(parts)) == parts


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("text", [DAPO, f"{PROBLEM}{GSM8K_AFTER}", f"{PROBLEM}\n{BOXED}"])
def test_the_strategy_stage_does_not_see_answer_instructions(text, paired):
    templates = load_templates(StrategyConfig())
    asked = templates.strategy_messages(user(text), paired)[-1]["content"]
    assert asked.startswith(f"{PROBLEM}\n")
    assert "Answer" not in asked and "####" not in asked and "boxed" not in asked and "step by step" not in asked


def test_a_system_turn_that_only_instructs_is_left_out_of_the_strategy_stage():
    templates = load_templates(StrategyConfig())
    chat = [{"role": "system", "content": BOXED}, *user(PROBLEM)]
    assert [m["role"] for m in templates.strategy_messages(chat)] == ["user"]
    assert templates.execution_messages(chat, "- p")[0] == chat[0]
    assert len(templates.strategy_messages([{"role": "system", "content": f"Be kind. {BOXED}"}, *user(PROBLEM)])) == 2


def test_all_that_slots_share_comes_before_their_preview():
    # So that a server computes it once: the whole problem, then the instructions.
    templates = load_templates(StrategyConfig())
    text = templates.execution_messages(user(DAPO), "- a plan")[0]["content"]
    assert text.startswith(f"{DAPO}\n\n")
    other = templates.execution_messages(user(DAPO), "* another")[0]["content"]
    assert text.endswith("\n\n- a plan") and "clearly flawed" in text
    assert other == text.removesuffix("- a plan") + "* another"


def test_the_preview_can_be_read_back_from_the_execution_prompt():
    preview = "[KEY CONDITIONS]\n- a is odd\n[KEY IDEA]\n- use parity"
    text = load_templates(StrategyConfig()).execution_messages(user(DAPO), preview)[0]["content"]
    assert extract_preview(text) == preview
    # As a chat template leaves it in the prompt of a model that is told not to think, and of one that thinks.
    assert extract_preview(f"user\n{text}\nassistant\n<think>\n\n</think>\n\n") == preview
    assert extract_preview(f"user\n{text}\nassistant\n<think>\n") == preview


def test_the_paired_prompt_asks_for_two_previews_and_a_marker():
    templates = load_templates(StrategyConfig())
    text = templates.strategy_messages(CHAT, paired=True)[1]["content"]
    assert "What is 2+2? {{ x }}" in text and "deliberately different" in text
    assert text.splitlines().count(PAIR_MARKER) >= 2  # in the format and in an example at least
    assert PAIR_MARKER not in templates.strategy_messages(CHAT)[1]["content"]


@pytest.mark.parametrize(("paired", "extract"), [(False, extract_preview), (True, extract_pair)])
def test_the_built_in_examples_follow_their_own_rules(paired, extract):
    text = load_templates(StrategyConfig()).strategy_messages(user("Q"), paired)[0]["content"]
    examples = re.split(r"^Example for another problem.*\n", text, flags=re.MULTILINE)[1:]
    assert len(examples) == 2
    for example in examples:
        found = extract(example)
        assert found is not None
        for preview in found if paired else [found]:
            conditions, idea = preview.split("[KEY IDEA]")
            assert 2 <= conditions.count("\n- ") <= 4 and 2 <= idea.count("\n- ") <= 4
            assert not re.search(r"[\d=+]", preview)  # no numbers, no equations


def test_built_in_prompts_hold_the_problem_and_the_preview():
    templates = load_templates(StrategyConfig())
    strategy = templates.strategy_messages(CHAT)
    assert strategy[0] == CHAT[0] and "What is 2+2? {{ x }}" in strategy[1]["content"]
    assert "[KEY CONDITIONS]" in strategy[1]["content"] and "[KEY IDEA]" in strategy[1]["content"]
    execution = templates.execution_messages(CHAT, "- a plan")[1]["content"]
    assert execution.startswith("What is 2+2? {{ x }}\n\n") and execution.endswith("\n\n- a plan")
    assert "boxed" not in execution  # which form the answer has is the dataset's to say


@pytest.mark.parametrize("problem", ["Q", " Q? \n", "Find $x$:\n\n- x is odd"])
@pytest.mark.parametrize("paired", [False, True])
def test_the_built_in_strategy_prompts_end_by_asking_for_the_problem(paired, problem):
    """Without it a base model goes on with the list of examples."""
    text = load_templates(StrategyConfig()).strategy_messages(user(problem), paired)[0]["content"]
    cue = text.rpartition("\n\nTwo solution previews" if paired else "\n\nSolution preview")[2]
    assert cue.endswith(f' for the problem at the top ("{problem.strip()}"):')
    assert text.startswith(problem.strip())


def test_the_blocks_that_a_strategy_prompt_shows():
    templates = load_templates(StrategyConfig())
    single, paired = templates.examples(), templates.examples(paired=True)
    assert (len(single), len(paired)) == (3, 6)  # the placeholders and two examples, once or in pairs
    assert "- a decisive given or constraint" in single[0] and "two friends" in single[1]
    asked = templates.strategy_messages(user("Q"))[0]["content"]
    assert all(block in asked and extract_preview(block) == block for block in single)
    toy = StrategyConfig(strategy_template="{{ problem }}\nPreview only.", paired_template="{{ problem }} {{ marker }}")
    assert load_templates(toy).examples() == load_templates(toy).examples(paired=True) == ()


def test_templates_from_text_and_file(tmp_path):
    path = tmp_path / "strategy.jinja"
    path.write_text("Plan: {{ problem }}")
    templates = load_templates(
        StrategyConfig(strategy_template=str(path), execution_template="{{ preview }}|{{ problem }}")
    )
    assert templates.strategy_messages(CHAT)[1]["content"] == "Plan: What is 2+2? {{ x }}"
    assert templates.execution_messages(CHAT, "p")[1]["content"] == "p|What is 2+2? {{ x }}"


def test_a_paired_template():
    templates = load_templates(StrategyConfig(paired_template="{{ problem }}: two plans, {{ marker }}"))
    asked = templates.strategy_messages(user("Q"), paired=True)[0]["content"]
    assert asked == f"Q: two plans, {PAIR_MARKER}"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"paired_template": "{{ problem }}"}, "paired_template=.*does not use the variable marker"),
        ({"paired_template": "{{ marker }}"}, "paired_template=.*does not use the variable problem"),
        ({"paired_template": "{{ problem }} {{ marker }} {{ preview }}"}, "paired_template=.*unknown variable preview"),
        ({"strategy_template": "{{ problem }} {{ marker }}"}, "strategy_template=.*unknown variable marker"),
        ({"strategy_template": "{{ 1 }}"}, "strategy_template=.*does not use the variable problem"),
        ({"strategy_template": "{{ problem.text.en }}"}, "strategy_template=.*cannot be rendered"),
        ({"strategy_template": "{{ problem | nonsense }}"}, "strategy_template=.*not a Jinja2 template"),
    ],
)
def test_each_template_is_checked_at_start_up(setting, message):
    with pytest.raises(ConfigError, match=message):
        load_templates(StrategyConfig(**setting))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "strategy.jinja"
    path.write_bytes(b"\xff{{ problem }}")
    with pytest.raises(ConfigError, match="nor a file that can be read"):
        load_templates(StrategyConfig(strategy_template=str(path)))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("no/such/file", "neither a template .* nor a file"),
        ("{{ problem }}", "does not use the variable preview"),
        ("{{ problem }} {{ preview }} {{ hint }}", "unknown variable hint"),
        ("{{ problem ", "not a Jinja2 template"),
    ],
)
def test_bad_templates_are_refused(template, message):
    with pytest.raises(ConfigError, match=f"execution_template=.*{message}"):
        load_templates(StrategyConfig(execution_template=template))


def test_a_turn_of_several_parts():
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "old"}]}]
    assert problem_text(chat) == "old"
    assert replace_problem(chat, "new") == [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "new"}]}
    ]
    assert problem_text(chat) == "old"  # the dataset's chat is not touched


def test_the_last_user_turn_counts():
    chat = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "?"},
        {"role": "user", "content": "b"},
    ]
    assert problem_text(chat) == "b"
    with pytest.raises(ValueError, match="no user turn"):
        problem_text([{"role": "system", "content": "x"}])
