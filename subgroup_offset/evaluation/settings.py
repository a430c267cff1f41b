"""``evaluation.json``: what an evaluation's samples are samples of, and how often it was started.

A directory holds one evaluation. Another start of it adds to the same samples, so it must ask for the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.files import write_text
from subgroup_offset.text import flat, shortened

FILE_NAME = "evaluation.json"


@dataclass
class EvaluationRecord:
    """What stands in the file."""

    #: Whatever changes what the samples are; nested mappings are compared leaf by leaf.
    settings: dict[str, Any] = field(default_factory=dict)
    #: Of each start when it was, how many samples were missing, and its overrides.
    starts: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, directory: Path) -> EvaluationRecord:
        """The record of a directory, or an empty one where there is none.

        Raises:
            EvaluationError: for a file that is no record, or samples without one.
        """
        path = directory / FILE_NAME
        try:
            known = json.loads(path.read_text("utf-8"))
            return cls(known["settings"], known["starts"])
        except FileNotFoundError:
            if any(directory.glob("samples/*.jsonl")):
                raise EvaluationError(
                    f"{directory / 'samples'} holds samples, but there is no {FILE_NAME} that says of what: give "
                    "another --output, or remove them."
                ) from None
            return cls()
        except (ValueError, KeyError, TypeError) as error:
            raise EvaluationError(
                f"{path} is no record of an evaluation ({error}): give another --output, or remove the directory."
            ) from None

    def agree(self, settings: Mapping[str, Any], directory: Path) -> None:
        """Take over the settings of this start; nothing is written.

        Raises:
            EvaluationError: if the directory holds an evaluation with others; all differences are named.
        """
        wanted = json.loads(json.dumps(settings))  # as they come back from the file
        before, now = dict(flat(self.settings)), dict(flat(wanted))
        lines = [
            f"\n  {key}: {_shown(before.get(key))} there, {_shown(now.get(key))} now"
            for key in sorted(before | now)
            if before.get(key) != now.get(key)
        ]
        if self.settings and lines:
            raise EvaluationError(
                f"{directory} holds an evaluation with other settings:{''.join(lines)}\n"
                "Give another --output, or the settings that it was begun with."
            )
        self.settings = wanted

    def save(self, directory: Path) -> None:
        """Write the file whole or not at all."""
        content = {"settings": self.settings, "starts": self.starts}
        write_text(directory / FILE_NAME, json.dumps(content, indent=1) + "\n")


def _shown(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
    return shortened(text, 120)
