"""The toy world's files: the data that verl reads, and a build that is cached whole or not at all."""

import pandas as pd
import pytest

from subgroup_offset.toy import build_toy, write_data
from subgroup_offset.toy.build import default_cache_dir, world_key
from subgroup_offset.toy.data import DATA_SOURCE
from subgroup_offset.toy.problems import ToyProblem
from subgroup_offset.toy.prompts import messages


def test_parquet_has_what_verl_reads_over_disjoint_pairs(tmp_path):
    write_data(tmp_path, train_size=400, val_size=40, seed=1)
    frames = {split: pd.read_parquet(tmp_path / f"toy-{split}.parquet") for split in ("train", "val")}
    assert {split: len(frame) for split, frame in frames.items()} == {"train": 400, "val": 40}
    pairs = {}
    for split, frame in frames.items():
        assert list(frame.columns) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
        assert set(frame.data_source) == {DATA_SOURCE}
        assert [info["index"] for info in frame.extra_info] == list(range(len(frame)))
        assert all(info["split"] == split for info in frame.extra_info)
        for prompt, reward, info in zip(frame.prompt, frame.reward_model, frame.extra_info, strict=True):
            assert list(prompt) == messages(ToyProblem(info["a"], info["b"], info["wording"]).text)
            assert reward == {"style": "rule", "ground_truth": str(info["a"] * info["b"])}
        pairs[split] = {frozenset((info["a"], info["b"])) for info in frame.extra_info}
    assert not pairs["train"] & pairs["val"]


def test_data_is_the_same_for_the_same_seed(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_data(tmp_path / name, 50, 10, seed)
    a, b, c = (pd.read_parquet(tmp_path / name / "toy-train.parquet").extra_info.tolist() for name in "abc")
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
