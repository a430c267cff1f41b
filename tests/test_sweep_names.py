"""Names of jobs: short, fit for a directory, and never the same for two jobs."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.sweep.names import MAX_LENGTH, job_name, swept_overrides

KEYS = st.lists(st.sampled_from(["lam", "seed", "a", "b"]), min_size=1, max_size=3).map(".".join)
VALUES = st.text(string.ascii_letters + string.digits + " /\\'\"[]{},.=:$äß", max_size=120)
OVERRIDES = st.dictionaries(KEYS, VALUES, max_size=4).map(lambda pairs: [f"{k}={v}" for k, v in pairs.items()])


@pytest.mark.parametrize(
    ("swept", "name"),
    [
        (["algorithm.subgroup.lam=-0.3"], "lam=-0.3"),
        (["algorithm.subgroup.lam=-0.3", "data.seed=1"], "lam=-0.3,seed=1"),
        (["actor.optim.lr=1e-6", "critic.optim.lr=1e-5"], "actor.optim.lr=1e-6,critic.optim.lr=1e-5"),
        (["+algorithm.subgroup.std=none"], "std=none"),
        (["subgroup_offset=contrast"], "subgroup_offset=contrast"),
        ([], "job"),
    ],
)
def test_a_job_is_named_by_what_is_swept(swept, name):
    assert job_name(swept) == name


def test_hydras_separators_are_used():
    assert job_name(["data.seed=1", "lam=0"], kv_sep="-", item_sep="_") == "seed-1_lam-0"


@given(OVERRIDES)
def test_any_name_is_one_directory(swept):
    name = job_name(swept)
    assert 0 < len(name) <= MAX_LENGTH and name not in (".", "..")
    assert set(name) <= set(string.ascii_letters + string.digits + "_.+=,@-")


@given(OVERRIDES, OVERRIDES)
def test_jobs_of_a_sweep_have_names_of_their_own(one, other):
    # The jobs of a sweep sweep the same keys.
    other = [f"{a.partition('=')[0]}={b.partition('=')[2]}" for a, b in zip(one, other, strict=False)]
    one = one[: len(other)]
    assert (job_name(one) == job_name(other)) is (one == other)


def test_what_stands_on_the_command_line_is_not_swept():
    job = ["+experiment=toy", "name='a b'", "dir=${hydra:runtime.output_dir}", "x=0.3", "lam=-0.3"]
    line = ["+experiment=toy", "name='a b'", "dir=${hydra:runtime.output_dir}", "x=0.30", "lam=-0.3,0.3"]
    assert swept_overrides(job, line) == ["lam=-0.3"]


def test_what_a_sweeper_adds_is_swept():
    assert swept_overrides(["a=1", "lr=0.017"], ["a=1"]) == ["lr=0.017"]
