"""The two prompts and what a run may replace them with."""

import pytest

from subgroup_offset.config import ConfigError, StrategyConfig
from subgroup_offset.strategy import load_templates
from subgroup_offset.strategy.prompts import problem_text, replace_problem

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2? {{ x }}"}]


def test_built_in_prompts_hold_the_problem_and_the_preview():
    templates = load_templates(StrategyConfig())
    strategy = templates.strategy_messages(CHAT)
    assert strategy[0] == CHAT[0] and "What is 2+2? {{ x }}" in strategy[1]["content"]
    assert "[KEY CONDITIONS]" in strategy[1]["content"] and "[KEY IDEA]" in strategy[1]["content"]
    execution = templates.execution_messages(CHAT, "- a plan")[1]["content"]
    assert execution.index("- a plan") < execution.index("What is 2+2?")
    assert execution.endswith("What is 2+2? {{ x }}")  # the dataset's answer instructions stay last
    assert "boxed" not in execution


def test_templates_from_text_and_file(tmp_path):
    path = tmp_path / "strategy.jinja"
    path.write_text("Plan: {{ problem }}")
    templates = load_templates(
        StrategyConfig(strategy_template=str(path), execution_template="{{ preview }}|{{ problem }}")
    )
    assert templates.strategy_messages(CHAT)[1]["content"] == "Plan: What is 2+2? {{ x }}"
    assert templates.execution_messages(CHAT, "p")[1]["content"] == "p|What is 2+2? {{ x }}"


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
