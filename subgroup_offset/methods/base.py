"""What a method is: a frozen dataclass whose fields are its settings, with one function for each slot it fills.

The normal form that all methods are points of (`compose.py`), for rollout i of group g and token t::

    A[i,t] = u[i,t] * w[i] * s[i] * (r[i] - b[i] - lam * delta[i])

====================  ==========  ======================================================================
slot                  exclusive   function
====================  ==========  ======================================================================
baseline              yes         ``baseline(g)``: (B,) b; without one, the group's mean
scale                 yes         ``scale(g)``: (B,) s; without one, what ``algorithm.subgroup.std`` says
weight                no          ``weight(g)``: (B,) w, multiplied
token                 no          ``token(g)``: (B, T) u, multiplied
credit                yes         ``credit(g)``: rows and their (B, T) advantages, in place of the above
clip                  yes         ``rarity(g)``: (B,) in [0, 1], one number a row for the policy loss
loss                  yes         a policy loss of its own, named in ``losses``
context               yes         the prompt that is trained on is another (in the rollout's worker)
====================  ==========  ======================================================================

Rows of constant groups get exactly 0 from all slots but credit, rows that do not count get 0 from all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from subgroup_offset.methods.groups import GroupView

if TYPE_CHECKING:
    from subgroup_offset.preflight.findings import Findings
    from subgroup_offset.rollout.group import FinishedGroup

#: Slots that one method at most may fill.
EXCLUSIVE = ("baseline", "scale", "clip", "loss", "context", "credit")
SLOTS = (*EXCLUSIVE, "weight", "token")


class Method:
    """Base of all methods. Subclasses are frozen dataclasses; ``__post_init__`` checks the settings."""

    #: The slots that it fills.
    slots: ClassVar[tuple[str, ...]]
    #: Names of policy losses (``actor_rollout_ref.actor.policy_loss.loss_mode``), one of which it needs.
    losses: ClassVar[tuple[str, ...]] = ()
    #: Whether it is defined for verdicts: rewards are then 1 where the rollout succeeded and 0 elsewhere, for all.
    on_verdicts: ClassVar[bool] = False
    #: Whether it reads or writes fields of the rows, which are found by their labels.
    needs_labels: ClassVar[bool] = False
    #: Keys that it, its policy loss or its part of the rollout may log.
    logs: ClassVar[tuple[str, ...]] = ()
    #: Whether its ``finish_group`` is called in the rollout's workers; needs this package's rollout manager.
    sees_groups: ClassVar[bool] = False
    #: Whether ``algorithm.subgroup.lam`` has a meaning beside it.
    takes_lam: ClassVar[bool] = True

    def baseline(self, g: GroupView) -> Tensor:
        """(B,) b, in units of the reward, for slot ``baseline``."""
        raise NotImplementedError

    def scale(self, g: GroupView) -> Tensor:
        """(B,) s, for slot ``scale``."""
        raise NotImplementedError

    def weight(self, g: GroupView) -> Tensor:
        """(B,) w, for slot ``weight``."""
        raise NotImplementedError

    def token(self, g: GroupView) -> Tensor:
        """(B, T) u, for slot ``token``; must be 1 where it leaves a token as it is."""
        raise NotImplementedError

    def credit(self, g: GroupView) -> tuple[Tensor, Tensor]:
        """(B,) bool, the rows whose advantages it sets, and (B, T) these advantages, for slot ``credit``."""
        raise NotImplementedError

    def rarity(self, g: GroupView) -> Tensor:
        """(B,) in [0, 1], what the policy loss is told of each row, for slot ``clip``."""
        raise NotImplementedError

    async def finish_group(self, group: FinishedGroup) -> Mapping[str, int]:
        """Look at a prompt whose last rollout has ended, in its worker, before verl may train on its rows.

        Returns:
            What there is to count, by the key it is logged under (summed over prompts and workers).
        """
        raise NotImplementedError

    def check_run(self, config: Any, findings: Findings) -> None:
        """Say what of a run's whole config it cannot work with, before the run starts."""
