"""What the tests of the worker pool let workers do; a spawned process must be able to import it."""

import os
import time

from subgroup_offset.evaluation.equality import Outcome


def act(what: str, value: str) -> Outcome:
    """Do as the answer says."""
    if what == "hang":
        time.sleep(600)
    if what == "exit":
        os._exit(3)
    if what == "raise":
        raise RuntimeError("on purpose")
    if what == "recurse":
        return act(what, value)
    if what == "fill the memory":
        return Outcome("equal", detail=str(len(bytearray(1 << 40))))
    if what == "wait a little":
        time.sleep(0.2)
    return Outcome("equal", detail=value)


def die() -> None:
    """A preparation that fails."""
    os._exit(7)
