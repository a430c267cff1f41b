"""A method of somebody else's package: it changes nothing and writes down what the formulas are given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView

#: What is written of every row that has a token.
FIELDS = ("uid", "prompts", "responses", "response_mask", "old_log_probs", "rollout_log_probs", "sgo_guided")


@dataclass(frozen=True)
class Notebook(Method):
    """Slot weight, 1 throughout."""

    slots: ClassVar[tuple[str, ...]] = ("weight",)
    needs_labels: ClassVar[bool] = True
    #: One JSON line a step goes here.
    file: str = ""

    def weight(self, g: GroupView) -> Tensor:
        """(B,) ones."""
        rows = g.mask.any(dim=-1)
        step: dict[str, Any] = {name: [_plain(value) for value in g.objects(name, rows)] for name in FIELDS}
        step |= {"reward": g.r[rows].tolist(), "success": g.success[rows].tolist()}
        with Path(self.file).open("a") as notes:
            notes.write(json.dumps(step) + "\n")
        return torch.ones_like(g.r)


def install(directory: Path) -> None:
    """Make the directory, on a PYTHONPATH, what an installed package looks like: its entry point names the method."""
    metadata = directory / "strange-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[subgroup_offset.methods]\nnotebook = strange_method:Notebook\n")


def _plain(value: Any) -> Any:
    value = getattr(value, "data", value) if not torch.is_tensor(value) else value
    return value.tolist() if hasattr(value, "tolist") else value
