"""What the tests of the worker pool let workers do; a spawned process must be able to import it."""

import os
import sys
import time


def act(what: str, value: str) -> tuple[str, str]:
    """Do as the answer says."""
    if what == "hang":
        time.sleep(600)
    if what == "hang in C":
        return "equal", str(9 ** (9 ** (9**9)))
    if what == "exit":
        os._exit(3)
    if what == "raise":
        raise RuntimeError("on purpose")
    if what == "recurse":
        return act(what, value)
    if what == "fill the memory":
        return "equal", str(len(bytearray(1 << 40)))
    if what == "modules":
        return "equal", str([name for name in value.split() if name in sys.modules])
    if what == "pid":
        return "equal", str(os.getpid())
    if what == "wait a little":
        time.sleep(0.2)
    return "equal", value


def die(what: str, value: str) -> tuple[str, str]:
    """A comparison that cannot be got ready."""
    os._exit(7)
