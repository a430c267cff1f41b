"""Checks of a whole verl config before Ray starts, so that a contradiction costs seconds and no accelerator.

What would make the method something else without a word is an error; what has no effect is a warning, once per process.
Settings of verl's own that it ignores are what ``algorithm.subgroup.checks`` says, warnings by default. verl's own
defaults trigger nothing. A run that does not use this package is not checked.
"""

from subgroup_offset.preflight.manager import MANAGER_NAME
from subgroup_offset.preflight.run import check_as_main_ppo, check_run, install

__all__ = ["MANAGER_NAME", "check_as_main_ppo", "check_run", "install"]
