"""What the checks of a run found, said all at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from subgroup_offset.config import ConfigError
from subgroup_offset.logs import WarnOnce

logger = logging.getLogger(__name__)

#: The version of verl whose source says which settings it ignores.
READ_OFF = "0.9.1"

warn_once = WarnOnce(logger)


@dataclass
class Findings:
    """Messages of the checks; each names key, value and fix."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    quirks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def error(self, message: str) -> None:
        """Note what would make the method something else, or fail only after the models are loaded."""
        self.errors.append(message)

    def warn(self, message: str) -> None:
        """Note what has no effect."""
        self.warnings.append(message)

    def quirk(self, message: str) -> None:
        """Note a setting of verl's own that verl accepts and does not follow."""
        self.quirks.append(message)

    def note(self, message: str) -> None:
        """Note what was decided for the run, where it left that open."""
        self.notes.append(message)

    def report(self, checks: str = "warn") -> None:
        """Print the notes, and log each warning once per process.

        Args:
            checks: ``algorithm.subgroup.checks``, what the quirks are: ``error``, ``warn`` or ``off``.

        Raises:
            ConfigError: with all errors, one a line, so that one edit answers them.
        """
        quirks = [f"verl {READ_OFF} (algorithm.subgroup.checks={checks}): {quirk}" for quirk in self.quirks]
        errors = self.errors + (quirks if checks == "error" else [])
        for note in self.notes:
            print(f"subgroup_offset: {note}")
        for message in self.warnings + (quirks if checks == "warn" else []):
            warn_once(message, message)
        if errors:
            raise ConfigError("\n".join(errors))
