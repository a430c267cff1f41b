"""One prompt's subgroups as in the paper's Table 6, from a rollout dump."""

import json

import pytest

from subgroup_offset.reports.prompt_table import most_informative, read_rollouts, subgroups_of

PREVIEW = "[KEY CONDITIONS]\n- a\n[KEY IDEA]\n- b"


@pytest.fixture
def dump(tmp_path):
    """Two prompts and a padding row; the second prompt has the successes of Table 6: 6, 4, 1 and 0 of 8."""
    rows = [{"uid": f"flat_{i}_0", "input": "q", "output": "o", "score": 1.0 if i % 8 < 4 else -1.0} for i in range(32)]
    for slot, successes in enumerate((1, 6, 0, 4)):
        for z in range(8):
            score = 1.0 if z < successes else -1.0
            rows.append(
                {"uid": f"case_{8 * slot + z}_0", "input": f"q\n{PREVIEW}{slot}", "output": "o", "score": score}
            )
    rows.append({"uid": "pad_0_0", "input": "", "output": "", "score": 0.0})
    path = tmp_path / "1.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_the_papers_case(dump):
    rollouts = read_rollouts(dump)
    assert len(rollouts) == 64
    group = most_informative(rollouts, per_subgroup=8)
    assert {r.prompt for r in group} == {"case"}
    subgroups = subgroups_of(group, 8, (-0.3, 0.0, 0.3))
    assert [s.successes for s in subgroups] == [6, 4, 1, 0]
    assert [s.preview[-1] for s in subgroups] == ["1", "3", "0", "2"]
    # Rewards of -1 and 1: mean -0.3125, sample std 0.96512..., offset of the best subgroup 0.8125.
    std = (32 / 31 * (1 - 0.3125**2)) ** 0.5
    success, failure = subgroups[0].credit[-0.3]
    assert success == pytest.approx((1 + 0.3125 + 0.3 * 0.8125) / std, abs=1e-5)
    assert failure == pytest.approx((-1 + 0.3125 + 0.3 * 0.8125) / std, abs=1e-5)
    assert subgroups[3].credit[0.3][0] is None  # it had no success
    plain = {s.credit[0.0][1] for s in subgroups}
    assert len(plain) == 1  # lam = 0 gives every failure the same
