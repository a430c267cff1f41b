"""What a job is called: the overrides that are swept, short and fit for a directory's name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser

MAX_LENGTH = 80
_UNSAFE = re.compile(r"[^\w.+=,@-]+", re.ASCII)


def swept_overrides(job: Sequence[str], command_line: Sequence[str]) -> list[str]:
    """The overrides of a job that are not on the sweep's command line as they are.

    Args:
        job: all overrides of the job, as a sweeper hands them to a launcher.
        command_line: the sweep's overrides, ``lam=-0.3,0,0.3`` among them.
    """
    parser = OverridesParser.create()
    fixed = parser.parse_overrides(list(command_line))
    same = {f"{o.get_key_element()}={o.get_value_element_as_str()}" for o in fixed if not o.is_sweep_override()}
    same.update(command_line)
    return [override for override in job if override not in same]


def job_name(swept: Sequence[str], kv_sep: str = "=", item_sep: str = ",") -> str:
    """``lam=-0.3,seed=1`` for ``algorithm.subgroup.lam=-0.3`` and ``data.seed=1``.

    Keys are cut to what tells them apart. Where characters had to be replaced, or the whole is longer than
    ``MAX_LENGTH``, a hash of the overrides ends the name, so that two jobs never share one.
    """
    if not swept:
        return "job"
    pairs = [_split(override) for override in swept]
    keys = _short_keys([key for key, _ in pairs])
    full = item_sep.join(f"{key}{kv_sep}{value}" for key, (_, value) in zip(keys, pairs, strict=True))
    safe = _UNSAFE.sub("-", full).strip("-.") if _UNSAFE.search(full) else full
    if safe == full and len(full) <= MAX_LENGTH:
        return full
    digest = hashlib.sha256("\n".join(swept).encode()).hexdigest()[:8]
    return f"{safe[: MAX_LENGTH - 9]}-{digest}"


def _split(override: str) -> tuple[str, str]:
    key, _, value = override.lstrip("+~").partition("=")
    return key, value


def _short_keys(keys: Sequence[str]) -> list[str]:
    """Each dotted key by its last parts, as few as no other key ends with."""
    parts = [key.split(".") for key in keys]
    short = []
    for own in parts:
        count = 1
        while count < len(own) and sum(other[-count:] == own[-count:] for other in parts) > 1:
            count += 1
        short.append(".".join(own[-count:]))
    return short
