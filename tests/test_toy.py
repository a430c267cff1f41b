"""The toy world: problems, texts, tokenizer, data, and (slow) the warm-started model."""

import random
from collections import Counter
from itertools import combinations, permutations, product
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from transformers import AutoTokenizer
from verl.utils.reward_score import math_dapo

from subgroup_offset.strategy import PAIR_MARKER as RUN_MARKER
from subgroup_offset.strategy import extract_pair, extract_preview
from subgroup_offset.strategy.selection import jaccard_distance
from subgroup_offset.toy import EXECUTION_TEMPLATE, PAIRED_TEMPLATE, STRATEGY_TEMPLATE, build_toy, write_data
from subgroup_offset.toy.build import default_cache_dir, world_key
from subgroup_offset.toy.check import is_right, measure, strategy_of
from subgroup_offset.toy.data import DATA_SOURCE
from subgroup_offset.toy.examples import IGNORE, STEP_SIZES, collate, sample_example, steps_of
from subgroup_offset.toy.previews import (
    MALFORMED_SHARE,
    malformed_pair,
    malformed_preview,
    paired_response,
    preview,
    strategy_response,
)
from subgroup_offset.toy.problems import (
    MAX_NUMBER,
    WORDINGS,
    Problem,
    all_pairs,
    near_misses,
    result_odds,
    split_pairs,
)
from subgroup_offset.toy.prompts import execution_prompt, messages, paired_prompt, strategy_prompt
from subgroup_offset.toy.responses import execution_response, execution_success, plain_response, plain_success, solve
from subgroup_offset.toy.sft import FLOOR, PEAK_RATE, WARMUP_STEPS, build_model, learning_rate, loss_of, train
from subgroup_offset.toy.strategies import PAIR_MARKER, STRATEGIES, by_name
from subgroup_offset.toy.tokenizer import END, PAD, VOCABULARY_MULTIPLE, build_tokenizer

PROBLEM = Problem(7, 8, 0)
LONGEST_PAIR = 57  # Tokens of the longest well-formed pair, with its end.


def experiment_strategy():
    """The strategy settings of the toy experiment."""
    text = (Path(__file__).parents[1] / "configs" / "experiment" / "toy.yaml").read_text()
    return yaml.safe_load(text)["algorithm"]["subgroup"]["strategy"]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


def test_near_misses_are_never_right_and_always_single_token_numbers():
    for a, b in all_pairs():
        for miss in near_misses(a, b):
            assert miss != a * b and 0 <= miss <= MAX_NUMBER


def test_result_odds_sum_to_one_and_give_the_right_result_its_success():
    for (a, b), strategy in product(all_pairs(), STRATEGIES):
        odds = result_odds(a, b, strategy.success)
        assert sum(odds.values()) == pytest.approx(1)
        assert odds[a * b] == strategy.success


def test_split_is_disjoint_also_under_exchange_of_factors_and_holds_out_a_fifth():
    training, validation = split_pairs()
    assert sorted(training + validation) == all_pairs()
    assert not {frozenset(pair) for pair in training} & {frozenset(pair) for pair in validation}
    assert 0.15 < len(validation) / len(all_pairs()) < 0.25


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_previews_have_the_exact_layout_and_no_numbers(strategy):
    rng = random.Random(0)
    for _ in range(100):
        text = preview(rng, strategy)
        lines = text.split("\n")
        assert [lines[0], lines[3]] == ["[KEY CONDITIONS]", "[KEY IDEA]"] and len(lines) == 6
        assert all(lines[i].startswith("- ") for i in (1, 2, 4, 5))
        assert not any(char.isdigit() for char in text)
        assert extract_preview(text) == text
        assert strategy_of(text) == strategy.name


def test_previews_differ_more_between_strategies_than_within_one():
    rng = random.Random(0)
    drawn = [(s.name, preview(rng, s)) for s in STRATEGIES for _ in range(12)]
    within, between = [], []
    for (name, text), (other, another) in combinations(drawn, 2):
        (within if name == other else between).append(jaccard_distance(text, another))
    assert max(within) < min(between)


def test_malformed_previews_are_rare_and_some_of_them_cannot_be_extracted():
    rng = random.Random(0)
    raw = [strategy_response(rng, PROBLEM) for _ in range(4000)]
    odd = sum(extract_preview(text) != text for text in raw) / len(raw)
    assert odd == pytest.approx(MALFORMED_SHARE, abs=0.012)
    broken = [extract_preview(malformed_preview(rng, STRATEGIES[0], PROBLEM)) for _ in range(200)]
    assert 0.2 < sum(text is None for text in broken) / len(broken) < 0.6
    assert all(strategy_of(text) == STRATEGIES[0].name for text in broken if text is not None)


def test_pairs_name_two_strategies_in_every_order_alike_and_few_are_malformed():
    rng = random.Random(0)
    raw = [paired_response(rng) for _ in range(4000)]
    pairs = [pair for pair in map(extract_pair, raw) if pair is not None]
    assert 1 - len(pairs) / len(raw) == pytest.approx(MALFORMED_SHARE, abs=0.012)
    assert all(f"{first}\n{PAIR_MARKER}\n{second}" in raw for first, second in pairs[:100])
    orders = Counter((strategy_of(first), strategy_of(second)) for first, second in pairs)
    assert set(orders) == set(permutations([s.name for s in STRATEGIES], 2))
    assert all(count / len(pairs) == pytest.approx(1 / 12, abs=0.02) for count in orders.values())
    broken = {malformed_pair(rng, *STRATEGIES[:2]) for _ in range(200)}
    assert not [text for text in broken if extract_pair(text) is not None]
    assert {text.count(PAIR_MARKER) for text in broken} == {0, 1}


def test_the_longest_pair_fits_a_strategy_call(tokenizer):
    def length(text):
        return len(tokenizer.encode(text))

    def longest(strategy):
        bullets = [max(variants, key=length) for variants in (*strategy.conditions, *strategy.idea)]
        conditions, idea = ("\n".join(f"- {bullet}" for bullet in pair) for pair in (bullets[:2], bullets[2:]))
        return f"[KEY CONDITIONS]\n{conditions}\n[KEY IDEA]\n{idea}"

    pairs = [f"{longest(a)}\n{PAIR_MARKER}\n{longest(b)}" for a, b in permutations(STRATEGIES, 2)]
    assert all(extract_pair(text) is not None for text in pairs)
    assert max(map(length, pairs)) + 1 == LONGEST_PAIR <= experiment_strategy()["max_tokens"]


def test_response_text_and_scoring_by_math_dapo():
    rng = random.Random(0)
    seen = set()
    for _ in range(200):
        strategy = rng.choice(STRATEGIES)
        response = solve(rng, PROBLEM, strategy)
        result = response.text.rpartition(" ")[2]
        assert response.text == f"Method: {strategy.name}\n7 x 8 = {result}\nAnswer: {result}"
        assert response.text[response.spot :].startswith(result + "\n")
        score = math_dapo.compute_score(response.text, str(PROBLEM.answer))
        right = result == "56"
        assert score == {"score": 1.0 if right else -1.0, "acc": right, "pred": result}
        assert is_right(PROBLEM, response.text) == right
        seen.add(right)
    assert seen == {True, False}


def test_success_belongs_to_the_named_strategy():
    rng = random.Random(0)
    tries = 4000
    for strategy in STRATEGIES:
        drawn = [execution_response(rng, PROBLEM, strategy).text for _ in range(tries)]
        named = [text for text in drawn if text.startswith(f"Method: {strategy.name}\n")]
        assert len(named) / tries == pytest.approx(0.95, abs=0.015)
        assert sum(is_right(PROBLEM, t) for t in named) / len(named) == pytest.approx(strategy.success, abs=0.03)
        success = sum(is_right(PROBLEM, t) for t in drawn) / tries
        assert success == pytest.approx(execution_success(strategy), abs=0.03)
    plain = sum(is_right(PROBLEM, plain_response(rng, PROBLEM).text) for _ in range(tries)) / tries
    assert plain == pytest.approx(plain_success(), abs=0.03)
    assert 0.25 < plain_success() < 0.35


def test_unknown_strategy_names_the_known_ones():
    with pytest.raises(KeyError, match="recall"):
        by_name("magic")


def test_templates_render_to_the_documented_prompts():
    assert strategy_prompt("P") == "P\nPreview only, no answer."
    assert execution_prompt("P", "V\nW") == "P\nFollow this preview unless it is flawed:\nV\nW"
    assert paired_prompt("P") == "P\nTwo previews, [ANOTHER APPROACH] between."
    assert "{{ problem }}" in STRATEGY_TEMPLATE and "{{ preview }}" in EXECUTION_TEMPLATE
    assert "{{ problem }}" in PAIRED_TEMPLATE and "{{ marker }}" in PAIRED_TEMPLATE


def test_pairs_are_parted_by_the_marker_of_the_strategy_stage():
    assert PAIR_MARKER == RUN_MARKER


def test_the_experiment_carries_the_templates_of_the_warm_start():
    strategy = experiment_strategy()
    assert strategy["strategy_template"] == STRATEGY_TEMPLATE
    assert strategy["paired_template"] == PAIRED_TEMPLATE
    assert strategy["execution_template"] == EXECUTION_TEMPLATE


@pytest.mark.parametrize("wording", range(len(WORDINGS)))
def test_every_wording_holds_both_factors(wording):
    assert {"12", "5"} <= set(Problem(12, 5, wording).text.rstrip(".?").split())


def test_numbers_are_single_tokens_wherever_they_stand(tokenizer):
    for number in range(MAX_NUMBER + 1):
        assert tokenizer.tokenize(str(number)) == [str(number)]
        assert str(number) in tokenizer.tokenize(f"7 x 8 = {number}\n")


def test_tokenizer_round_trips_any_text_also_after_saving(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    rng = random.Random(0)
    texts = [sample_example(rng, kind, all_pairs()).answer for kind in STEP_SIZES for _ in range(50)]
    texts += ["2056 201", " two\n\n- spaces  x", "Grüße 你好 \U0001f600", f"a{END}\nb{PAD}", "\t[KEY X]-7.5", ""]
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert loaded.encode(text) == ids and loaded.decode(ids) == text
    assert (loaded.eos_token, loaded.pad_token) == (END, PAD)


def test_vocabulary_is_small_and_a_round_number(tokenizer):
    assert len(tokenizer) % VOCABULARY_MULTIPLE == 0 and len(tokenizer) < 1000


def test_chat_template(tokenizer):
    text = tokenizer.apply_chat_template(messages("Hi"), add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_the_world_is_spoken_in_whole_words(tokenizer):
    """No text of the world falls back to single bytes of a word."""
    rng = random.Random(1)
    for kind in STEP_SIZES:
        for _ in range(100):
            example = sample_example(rng, kind, all_pairs())
            pieces = tokenizer.tokenize(example.user + "\n" + example.answer)
            assert not [piece for piece in pieces if len(piece) == 1 and piece.isalpha() and piece not in "ĠĊ"]


def test_loss_covers_the_assistants_tokens_and_the_result_has_its_odds(tokenizer):
    example = sample_example(random.Random(0), "plain", [(7, 8)])
    other = sample_example(random.Random(1), "execution", [(3, 3)])
    batch = collate(tokenizer, [example, other])
    for row, sample in enumerate((example, other)):
        labelled = batch.labels[row][batch.labels[row] != IGNORE]
        assert tokenizer.decode(labelled) == sample.answer + END
        # A label is the token one place to its right.
        places = torch.where(batch.labels[row] != IGNORE)[0]
        assert torch.equal(batch.ids[row, places + 1], labelled)
        result = batch.labels.flatten()[batch.spots[row]]
        assert tokenizer.decode([result]) == sample.answer.rpartition(" ")[2]
        assert batch.odds[row].sum().item() == pytest.approx(1)
    assert (batch.odds[0] > 0).sum() == 5 and (batch.odds[1] > 0).sum() == 3


def test_steps_are_the_same_for_the_same_seed(tokenizer):
    first, again, other = (next(steps_of(tokenizer, seed)) for seed in (3, 3, 4))
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(first, again, strict=True))
    assert not all(a.ids.shape == b.ids.shape and torch.equal(a.ids, b.ids) for a, b in zip(first, other, strict=True))


def test_learning_rate_rises_then_falls_to_the_floor():
    rates = [learning_rate(step, 300) for step in range(300)]
    assert rates[WARMUP_STEPS - 1] == pytest.approx(PEAK_RATE) == pytest.approx(max(rates))
    assert rates[-1] == pytest.approx(FLOOR * PEAK_RATE)


def test_training_lowers_the_loss_and_is_reproducible(tokenizer):
    losses = []
    for _ in range(2):
        model = build_model(tokenizer, seed=0)
        seen: list[float] = []
        train(model, tokenizer, seed=0, steps=4, progress=lambda step, steps, loss, seen=seen: seen.append(loss))
        losses.append(seen)
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0] - 0.01
    assert 800_000 < sum(p.numel() for p in model.parameters()) < 900_000
    with torch.no_grad():
        assert loss_of(model, next(steps_of(tokenizer, 9))).isfinite()


def test_parquet_has_what_verl_reads_over_disjoint_pairs(tmp_path):
    write_data(tmp_path, train_size=400, val_size=40, seed=1)
    frames = {split: pd.read_parquet(tmp_path / f"{split}.parquet") for split in ("train", "val")}
    assert {split: len(frame) for split, frame in frames.items()} == {"train": 400, "val": 40}
    pairs = {}
    for split, frame in frames.items():
        assert list(frame.columns) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
        assert set(frame.data_source) == {DATA_SOURCE}
        assert [info["index"] for info in frame.extra_info] == list(range(len(frame)))
        assert all(info["split"] == split for info in frame.extra_info)
        for prompt, reward, info in zip(frame.prompt, frame.reward_model, frame.extra_info, strict=True):
            assert list(prompt) == messages(Problem(info["a"], info["b"], info["wording"]).text)
            assert reward == {"style": "rule", "ground_truth": str(info["a"] * info["b"])}
        pairs[split] = {frozenset((info["a"], info["b"])) for info in frame.extra_info}
    assert not pairs["train"] & pairs["val"]


def test_data_is_the_same_for_the_same_seed(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_data(tmp_path / name, 50, 10, seed)
    a, b, c = (pd.read_parquet(tmp_path / name / "train.parquet").extra_info.tolist() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(("sizes", "key"), [((0, 4), "train_size=0"), ((4, -1), "val_size=-1")])
def test_empty_splits_are_refused(tmp_path, sizes, key):
    with pytest.raises(ValueError, match=rf"{key}.*positive"):
        write_data(tmp_path, *sizes)


def test_build_refuses_no_steps(tmp_path):
    with pytest.raises(ValueError, match=r"steps=0.*positive"):
        build_toy(tmp_path, steps=0)


def test_build_is_cached_and_leaves_nothing_half_written(tmp_path):
    seen: list[tuple[int, int]] = []
    first = build_toy(tmp_path, steps=2, progress=lambda step, steps, loss: seen.append((step, steps)))
    again = build_toy(tmp_path, steps=2, progress=lambda *_: pytest.fail("the second call trained again"))
    assert first == again and seen == [(1, 2), (2, 2)]
    assert [path.name for path in tmp_path.iterdir()] == [f"toy-{world_key(0, 2)}"]
    assert first.root == first.train.parent == first.val.parent == first.model.parent
    assert (first.model / "config.json").exists() and first.train.exists() and first.val.exists()


def test_a_failed_build_leaves_nothing(tmp_path):
    def fail(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_toy(tmp_path, steps=2, progress=fail)
    assert list(tmp_path.iterdir()) == []


def test_cache_directory_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBGROUP_OFFSET_CACHE", str(tmp_path))
    assert default_cache_dir() == tmp_path
    monkeypatch.delenv("SUBGROUP_OFFSET_CACHE")
    assert default_cache_dir().parts[-2:] == (".cache", "subgroup_offset")


@pytest.mark.slow
def test_warm_start_meets_its_targets():
    """1200 answers a share: three standard errors are at most 0.043, the tolerance is 0.1."""
    found = measure(build_toy().model, n=1200, seed=1)
    assert found.well_formed >= 0.9
    for strategy in STRATEGIES:
        assert found.success[strategy.name] == pytest.approx(strategy.success, abs=0.1)
        assert found.followed[strategy.name] == pytest.approx(0.95, abs=0.06)
        assert 0.12 < found.strategy_shares[strategy.name] < 0.4
    assert found.pairs_well_formed >= 0.85
    assert found.pairs_different >= 0.9
    assert all(0.12 < share < 0.4 for share in found.pair_shares.values())
    assert found.pairs_ended > 0.95
    assert 0.15 < found.plain < 0.45
    assert 0.15 < found.plain_cool < 0.5
    assert found.short_responses > 0.98
