"""What the checks of a run found, told all at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from subgroup_offset.config import ConfigError

logger = logging.getLogger(__name__)

_told: set[str] = set()


@dataclass
class Findings:
    """Messages of the checks; each names key, value and fix."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def error(self, message: str) -> None:
        """Note what would silently change a result, or fail only after the models are loaded."""
        self.errors.append(message)

    def warn(self, message: str) -> None:
        """Note what has no effect."""
        self.warnings.append(message)

    def settle(self) -> None:
        """Log each warning once per process.

        Raises:
            ConfigError: with all errors, one a line, so that one edit answers them.
        """
        for message in self.warnings:
            if message not in _told:
                _told.add(message)
                logger.warning(message)
        if self.errors:
            raise ConfigError("\n".join(self.errors))
