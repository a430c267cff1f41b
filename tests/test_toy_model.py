"""The toy world's tokenizer and warm start: what fits the experiment, the loss, and (slow) what the model learned."""

import random
from itertools import permutations
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoTokenizer

from subgroup_offset.strategy import extract_pair
from subgroup_offset.toy import EXECUTION_TEMPLATE, PAIRED_TEMPLATE, STRATEGY_TEMPLATE, build_toy
from subgroup_offset.toy.check import measure
from subgroup_offset.toy.examples import IGNORE, STEP_SIZES, collate, sample_example, steps_of
from subgroup_offset.toy.problems import MAX_NUMBER, all_pairs
from subgroup_offset.toy.prompts import messages
from subgroup_offset.toy.sft import FLOOR, PEAK_RATE, WARMUP_STEPS, build_model, learning_rate, loss_of, train
from subgroup_offset.toy.strategies import PAIR_MARKER, STRATEGIES
from subgroup_offset.toy.tokenizer import END, PAD, VOCABULARY_MULTIPLE, build_tokenizer

LONGEST_PAIR = 57  # Tokens of the longest well-formed pair, with its end.


def experiment_strategy():
    """The strategy settings of the toy experiment."""
    text = (Path(__file__).parents[1] / "configs" / "experiment" / "toy.yaml").read_text()
    return yaml.safe_load(text)["algorithm"]["subgroup"]["strategy"]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


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


def test_the_experiment_carries_the_templates_of_the_warm_start():
    strategy = experiment_strategy()
    assert strategy["strategy_template"] == STRATEGY_TEMPLATE
    assert strategy["paired_template"] == PAIRED_TEMPLATE
    assert strategy["execution_template"] == EXECUTION_TEMPLATE


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
    for steps in (4, 2):
        model = build_model(tokenizer, seed=0)
        seen: list[float] = []
        train(model, tokenizer, seed=0, steps=steps, progress=lambda step, steps, loss, seen=seen: seen.append(loss))
        losses.append(seen)
    assert losses[0][:2] == losses[1]  # the second follows an update
    assert losses[0][-1] < losses[0][0] - 0.01
    assert 800_000 < sum(p.numel() for p in model.parameters()) < 900_000
    with torch.no_grad():
        assert loss_of(model, next(steps_of(tokenizer, 9))).isfinite()


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
