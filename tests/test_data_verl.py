"""What `subgroup-offset data` makes of real problems, read and scored by verl itself."""

import asyncio
import json

import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.reward_score import default_compute_score

from subgroup_offset.data.prepare import prepare
from subgroup_offset.data.sources import BENCHMARKS
from subgroup_offset.strategy.instructions import PREFIXES, SUFFIXES, split_instructions
from subgroup_offset.toy.tokenizer import build_tokenizer

# File of problems -> benchmark, split, problems, `data_source` in verl.
FILES = {
    "aime24": ("aime24", "test", 30, "aime24"),
    "aime25": ("aime25", "test", 30, "aime25"),
    "aime26": ("aime26", "train", 30, "aime26"),
    "hmmt25": ("hmmt25", "train", 30, "aime_style_hmmt25"),
    "gsm8k_train": ("gsm8k", "train", 400, "aime_style_gsm8k"),
    "gsm8k_test": ("gsm8k", "test", 100, "aime_style_gsm8k"),
}
REPLICAS = 3


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


@pytest.fixture(scope="module")
def written(shared_data, tmp_path_factory):
    """The report of each file, and what stands in the source."""
    directory = tmp_path_factory.mktemp("data")
    reports = {}
    for file, (name, split, _, _) in FILES.items():
        source = shared_data / f"{file}.jsonl"
        report = prepare(name, source=str(source), split=split, replicas=REPLICAS, output=directory)
        reports[file] = report, [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    return reports


@pytest.fixture
def dataset(tokenizer, tmp_path, monkeypatch):
    """verl's data set over some files, all prompts filtered by length as in training."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    config = OmegaConf.create(
        {"max_prompt_length": 8192, "filter_overlong_prompts_workers": None, "cache_dir": str(tmp_path)}
    )
    return lambda *paths: RLHFDataset([str(path) for path in paths], tokenizer, config)


@pytest.mark.parametrize("file", FILES)
def test_rows_and_their_scores(written, file):
    (report, source), (name, split, count, data_source) = written[file], FILES[file]
    rows = pd.read_parquet(report.path).to_dict("records")
    assert len(rows) == report.rows == count * REPLICAS and len(source) == report.problems == count
    for index, row in enumerate(rows):
        given, truth = source[index % count], row["reward_model"]["ground_truth"]
        (message,) = row["prompt"]
        prefix, problem, suffix = split_instructions(message["content"])
        assert (prefix, problem, suffix) == (f"{PREFIXES[0]}\n\n", given["problem"].strip(), f"\n\n{SUFFIXES[0]}")
        assert message["role"] == "user" and row["ability"] == "math" and row["data_source"] == data_source
        assert row["reward_model"] == {"style": "rule", "ground_truth": given["answer"]}
        extra = {"index": index, "benchmark": name, "split": split, "id": given["id"], "replica": index // count}
        assert row["extra_info"] == extra
        if index < count:
            right, wrong = (
                default_compute_score(data_source, f"So.\nAnswer: {truth}{more}", truth) for more in ("", "1")
            )
            assert (right["acc"], right["score"], wrong["acc"], wrong["score"]) == (True, 1, False, -1)


def test_verl_loads_all_files_at_once(written, dataset):
    data = dataset(*(report.path for report, _ in written.values()))
    assert len(data) == REPLICAS * sum(count for _, _, count, _ in FILES.values())
    first = data[0]
    assert first["raw_prompt"] == [{"role": "user", "content": first["prompt"][0]["content"]}] and first["index"] == 0
    assert {data[i]["data_source"] for i in range(len(data))} == {source for *_, source in FILES.values()}


def test_verl_reports_every_benchmark_apart():
    sources = [benchmark.data_source for benchmark in BENCHMARKS.values()]
    metrics = process_validation_metrics(sources, sources, {"acc": [float(i) for i in range(len(sources))]})
    assert {source: values["acc"]["mean@1"] for source, values in metrics.items()} == {
        source: i for i, source in enumerate(sources)
    }


def test_verls_own_form_of_gsm8k(shared_data, tmp_path, dataset):
    source = str(shared_data / "gsm8k_test.jsonl")
    report = prepare("gsm8k", source=source, split="test", instruction="gsm8k", output=tmp_path)
    data = dataset(report.path)
    assert len(data) == 100 and report.data_source == "openai/gsm8k"
    for row in (data[i] for i in range(len(data))):
        assert row["raw_prompt"][0]["content"].endswith(
            ' Let\'s think step by step and output the final answer after "####".'
        )
        truth = row["reward_model"]["ground_truth"]
        assert default_compute_score("openai/gsm8k", f"So.\n#### {truth}", truth) == 1
        assert default_compute_score("openai/gsm8k", f"So.\nAnswer: {truth}", truth) == 0


@pytest.mark.parametrize(
    ("name", "instruction", "answer"),
    [(name, "dapo", "Answer: 42") for name in BENCHMARKS] + [("gsm8k", "gsm8k", "#### 42")],
)
def test_the_dapo_reward_manager_knows_every_data_source(name, instruction, answer, tokenizer, tmp_path, dataset):
    (tmp_path / "source.jsonl").write_text('{"problem": "What is 6 times 7?", "answer": "42"}\n')
    report = prepare(name, source=str(tmp_path / "source.jsonl"), instruction=instruction, output=tmp_path)
    row = dataset(report.path)[0]
    manager = DAPORewardManager(OmegaConf.create({"reward": {}}), tokenizer, None)
    manager.loop = asyncio.new_event_loop()
    try:
        for text, acc in ((f"It is so.\n{answer}", 1), (f"It is so.\n{answer}0", 0)):
            ids = torch.tensor([tokenizer.encode(text)])
            batch = TensorDict({"responses": ids, "attention_mask": torch.ones_like(ids)}, batch_size=1)
            fields = {key: pd.array([row[key]], dtype=object).to_numpy() for key in ("data_source", "reward_model")}
            data = DataProto(batch, fields | {"extra_info": pd.array([row["extra_info"]], dtype=object).to_numpy()})
            result = manager.loop.run_until_complete(manager.run_single(data))
            assert result["reward_extra_info"]["acc"] == acc and (result["reward_score"] == 1) == bool(acc)
    finally:
        manager.loop.close()
