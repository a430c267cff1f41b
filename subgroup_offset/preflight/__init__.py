"""Checks of a whole verl config before Ray starts, so that a contradiction costs seconds and no accelerator.

What would change a result without a word is an error; what has no effect is a warning, once per process. verl's own
defaults trigger neither. A run that does not use this package is not checked.
"""

from subgroup_offset.preflight.ours import MANAGER_NAME
from subgroup_offset.preflight.run import check_as_main_ppo, check_run, install

__all__ = ["MANAGER_NAME", "check_as_main_ppo", "check_run", "install"]
