"""From what the user names to files: a local file or directory, or a data set repository of the Hugging Face hub."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from subgroup_offset.data.errors import DataError
from subgroup_offset.data.sources import Benchmark

SUFFIXES = (".parquet", ".jsonl", ".json", ".csv")
_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)(?:@([^@\s]+))?")


class Found(NamedTuple):
    """Files of one split."""

    name: str  #: for reports: the path, or the repository with its commit
    split: str
    files: dict[str, Path]  #: by the names that messages call them by


def locate(
    benchmark: Benchmark, source: str | None, split: str | None, config: str | None, token: str | None = None
) -> Found:
    """Find the files, after downloading them if they are on the hub.

    What is None is the benchmark's own; of a single file the split is only a label. ``source`` is an existing local
    file or directory (laid out as a repository), else ``owner/name[@revision]``.

    Raises:
        DataError: for a source, a split or a configuration that does not exist, or a hub that cannot be reached.
    """
    wanted = source or benchmark.repository
    path = Path(wanted).expanduser()
    local = source is not None and path.exists()
    if local and not path.is_dir():
        if config:
            raise DataError(f"--config {config} does not go with the single file {wanted}: leave it out.")
        return Found(str(path), split or benchmark.splits[0], {str(path): path})
    match = _REPOSITORY.fullmatch(wanted)
    if local:
        root, name, label = path.resolve(), wanted, path.name
    elif match and path.suffix.lower() not in SUFFIXES and not wanted.startswith(("./", "../")):
        label = match[1]
        root = _download(label, match[2], token)
        name = f"{label}@{root.name}"
    else:
        raise DataError(f"{wanted} is no file, no directory and no repository owner/name: correct --source.")
    chosen, files = _split_files(root, name, benchmark, split, config)
    return Found(name, chosen, {f"{label}/{os.path.relpath(file, root)}": Path(file) for file in files})


def _download(repository: str, revision: str | None, token: str | None) -> Path:
    """The directory of a repository's snapshot, named by its commit; only data files and the card are fetched.

    What is in the cache already is not fetched again, and is used as it is where the hub cannot be reached.
    """
    from huggingface_hub import constants, errors, snapshot_download

    hub = constants.ENDPOINT
    patterns = ["README.md", ".huggingface.yaml", *(f"*{suffix}" for suffix in SUFFIXES)]
    try:
        return Path(
            snapshot_download(repository, repo_type="dataset", revision=revision, token=token, allow_patterns=patterns)
        )
    except Exception as error:  # of the hub's client, its HTTP library or the disk: many types
        if isinstance(error, errors.GatedRepoError):
            problem = f"is gated: accept its terms on {hub}/datasets/{repository} and give a --token of that account"
        elif isinstance(error, errors.RepositoryNotFoundError):
            problem = f"is no data set on {hub}, or a private one: check --source and --token (or HF_TOKEN)"
        elif isinstance(error, errors.RevisionNotFoundError):
            problem = f"has no revision {revision!r}: check --source owner/name@revision"
        elif constants.is_offline_mode():
            problem = "is not in the cache, and HF_HUB_OFFLINE is set: unset that"
        else:
            reason = _first_line(error.__cause__ or error)
            problem = f"cannot be downloaded from {hub} ({reason}): check --source, --token and the connection"
        raise DataError(f"{repository} {problem}, or download it elsewhere and give the file as --source.") from error


def _split_files(
    root: Path, name: str, benchmark: Benchmark, split: str | None, config: str | None
) -> tuple[str, list[str]]:
    """The split to read and its files, by the rules of the ``datasets`` library (the card, else the files' names)."""
    import datasets

    if not any(path.suffix.lower() in SUFFIXES for path in root.rglob("*")):
        raise DataError(f"{name} holds no file that can be read ({', '.join(SUFFIXES)}): give another --source.")
    try:
        with tempfile.TemporaryDirectory() as cache:
            configs = datasets.get_dataset_config_names(str(root))
            chosen = _choose("config", name, configs, config, benchmark.config, "default")
            files = datasets.load_dataset_builder(str(root), chosen, cache_dir=cache).config.data_files or {}
    except DataError:
        raise
    except Exception as error:  # a card or a tree that the library cannot make sense of: many types
        raise DataError(f"{name} is not laid out as a data set ({_first_line(error)}): give one file.") from error
    by_split = {str(key): list(value) for key, value in files.items()}
    chosen = _choose("split", name, list(by_split), split, benchmark.splits[0])
    return chosen, by_split[chosen]


def _choose(option: str, name: str, there: list[str], wanted: str | None, *usual: str | None) -> str:
    """One of ``there``: what is wanted, else the first of the usual ones, else the only one."""
    if wanted is not None and wanted not in there:
        raise DataError(f"{name} has no {option} {wanted!r}: use one of {', '.join(there)}.")
    only = there[0] if len(there) == 1 else None
    found = wanted or next((value for value in usual if value in there), only)
    if found is None:
        raise DataError(f"{name} has several {option}s: choose one with --{option}, of {', '.join(there)}.")
    return found


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
