"""``evaluation.json``: what an evaluation's samples are samples of, and how often it was started.

A directory holds one evaluation. Another start of it adds to the same samples, so it must ask for the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subgroup_offset.evaluation.plan import EvaluationError

FILE_NAME = "evaluation.json"


@dataclass
class EvaluationRecord:
    """What stands in the file.

    Attributes:
        settings: whatever changes what the samples are; nested mappings are compared leaf by leaf.
        starts: of each start when it was, how many samples were missing, and its overrides.
    """

    settings: dict[str, Any]
    starts: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, directory: Path, settings: Mapping[str, Any]) -> EvaluationRecord:
        """The record of a directory, or a new one where there is none; nothing is written.

        Raises:
            EvaluationError: if the directory holds an evaluation with other settings; all differences are named.
        """
        wanted = json.loads(json.dumps(settings))  # as they come back from the file
        path = directory / FILE_NAME
        try:
            known = json.loads(path.read_text("utf-8"))
            record = cls(**known)
        except FileNotFoundError:
            if any(directory.glob("samples/*.jsonl")):
                raise EvaluationError(
                    f"{directory / 'samples'} holds samples, but there is no {FILE_NAME} that says of what: give "
                    "another --output, or remove them."
                ) from None
            return cls(wanted)
        except (ValueError, TypeError) as error:
            raise EvaluationError(
                f"{path} is no record of an evaluation ({error}): give another --output, or remove the directory."
            ) from None
        different = list(_differences(record.settings, wanted))
        if different:
            raise EvaluationError(
                f"{directory} holds an evaluation with other settings:\n"
                + "\n".join(f"  {name}: {before} there, {now} now" for name, before, now in different)
                + "\nGive another --output, or the settings that it was begun with."
            )
        return record

    def save(self, directory: Path) -> None:
        """Write the file whole or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / f".{FILE_NAME}.{os.getpid()}.tmp"
        draft.write_text(json.dumps({"settings": self.settings, "starts": self.starts}, indent=1) + "\n", "utf-8")
        draft.replace(directory / FILE_NAME)


def _differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    """The leaves that are not the same: their dotted name and both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from _differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif before != now:
        yield name, _shown(before), _shown(now)


def _shown(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
