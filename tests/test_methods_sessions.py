"""Sessions of several output rows, and padding rows, under methods that read rows."""

from __future__ import annotations

import torch

from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.methods.rows import LOSS_FIELD, GivenRows

#: Session 1 has two rows: its tokens are those of both, its reward the last one's.
ROWS = [(0, 0, 1.0), (1, 0, 0.0), (1, 1, 0.0), (2, 0, 0.0), (3, 0, 1.0)]
IDS = [RolloutLabel("p", 0, session, output, success=reward > 0).encode() for session, output, reward in ROWS]
MASK = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=torch.float64)


def estimate(method, fields, ids=IDS, mask=MASK, rewards=tuple(reward for *_, reward in ROWS)):
    tokens = torch.zeros_like(mask)
    tokens[:, 0] = torch.tensor(rewards)
    rows = GivenRows(fields)
    config = {"subgroup": {"method": method}}
    return compute_grpo_subgroup_advantage(tokens, mask, ids, config, rows=rows)[0], rows


def joined(fields: dict[str, torch.Tensor]):
    """The same batch with session 1 as one row of all its tokens."""
    wide = {name: torch.zeros(4, 5, dtype=torch.float64) for name in fields}
    mask = torch.zeros(4, 5, dtype=torch.float64)
    for row, sources in enumerate(([0], [1, 2], [3], [4])):
        place = 0
        for source in sources:
            for t in range(3):
                if MASK[source, t]:
                    mask[row, place] = 1
                    for name, values in fields.items():
                        wide[name][row, place] = values[source, t]
                    place += 1
    ids = [RolloutLabel("p", 0, session, success=session in (0, 3)).encode() for session in range(4)]
    return wide, ids, mask, (1.0, 0.0, 0.0, 1.0)


def test_a_session_is_one_rollout_however_many_rows_it_has():
    torch.manual_seed(1)
    fields = {"old_log_probs": -torch.rand(5, 3).double(), "ref_log_prob": -torch.rand(5, 3).double()}
    for method in ({"rcc": {}}, {"rcc": {"shift": "sum"}}, {"reco": {}}, {"reco": {"probability": "exact"}}):
        apart, _ = estimate(method, fields)
        wide, ids, mask, rewards = joined(fields)
        together, _ = estimate(method, wide, ids, mask, rewards)
        assert torch.allclose(apart[[0, 2, 3, 4], 0], together[:, 0]), method
        assert torch.equal(apart[1], apart[2] * MASK[1]), method  # the earlier row has what the session has


def test_the_rarity_is_the_groups_on_every_row():
    _, rows = estimate({"gapo": {}}, {})
    torch.testing.assert_close(rows.fields[LOSS_FIELD].flatten(), torch.full((5,), 2 / 3))


def test_a_tokens_weight_is_its_own():
    ratio = torch.tensor([[0.0, -1.0, -2.0]]).expand(5, 3).double()
    fields = {"old_log_probs": ratio - 1, "rollout_log_probs": torch.full((5, 3), -1.0).double()}
    weighted, _ = estimate({"oc_grpo": {}}, {**fields, "sgo_guided": [1, 1, 1, 0, 1]})
    plain, _ = estimate({}, {})
    expected = torch.where(torch.tensor([1, 1, 1, 0, 1])[:, None] > 0, ratio.exp(), 1.0).float()
    torch.testing.assert_close(weighted, plain * expected)


def test_padding_rows_get_0_and_have_every_written_field():
    ids, mask = [*IDS, "padab", "padab"], torch.cat([MASK, torch.zeros(2, 3, dtype=torch.float64)])
    fields = {"old_log_probs": torch.full((7, 3), float("nan")).double()}
    fields["old_log_probs"][:5] = -1.0
    found, rows = estimate({"gapo": {}, "reco": {}}, fields, ids, mask, (*(reward for *_, reward in ROWS), 9.0, 9.0))
    assert found[5:].abs().max() == 0 and bool(torch.isfinite(found).all())
    assert rows.fields[LOSS_FIELD].shape == (7, 1) and rows.fields[LOSS_FIELD][5:].tolist() == [[0.0], [0.0]]
    torch.testing.assert_close(
        found[:5], estimate({"gapo": {}, "reco": {}}, {"old_log_probs": fields["old_log_probs"][:5]})[0]
    )
