"""What a name that does not exist was probably meant to be. Pure: no import but the standard library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: `lambda` is as far from `lam` as a suggestion may be; at 0.6, `enable` would be told to be `name`.
_CUTOFF = 0.66
_MOST = 3


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known names that ``word`` may stand for, best first.

    Those that contain all its parts (``candidates`` in ``num_candidates``), else the one that is spelt most like it.
    None at all rather than one that has nothing to do with it.
    """
    names = list(known)
    parts = set(word.split("_"))
    containing = [name for name in names if parts <= set(name.split("_"))]
    return containing[:_MOST] or difflib.get_close_matches(word, names, n=1, cutoff=_CUTOFF)
