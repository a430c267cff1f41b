"""From what the user names to files: a local file or directory, or a data set repository of the Hugging Face hub."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from subgroup_offset.data.errors import DataError
from subgroup_offset.data.files import SUFFIXES, SourceFile
from subgroup_offset.data.sources import Benchmark

_REPOSITORY = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^@\s]+))?")


@dataclass(frozen=True)
class Source:
    """Files of one split."""

    #: For reports: the path, or the repository with its commit.
    name: str
    split: str
    files: tuple[SourceFile, ...]


def locate(
    benchmark: Benchmark, source: str | None, split: str | None, config: str | None, token: str | None = None
) -> Source:
    """Find the files, after downloading them if they are on the hub.

    Args:
        benchmark: says what is read where ``source``, ``split`` and ``config`` are None.
        source: an existing local file or directory (laid out as a repository), else ``owner/name[@revision]``.
        split: of a single file only a label; elsewhere the default is the benchmark's own, or the only one there is.
        config: the configuration of a repository or directory that has several.
        token: for the hub; None: the one that ``huggingface_hub`` finds.

    Raises:
        DataError: for a source, a split or a configuration that does not exist, or a hub that cannot be reached.
    """
    wanted = source or benchmark.repository
    path = Path(wanted).expanduser()
    local = source is not None and path.exists()
    if local and not path.is_dir():
        if config:
            raise DataError(f"--config {config} does not go with the single file {wanted}: leave it out.")
        file = SourceFile(path, str(path))
        file.suffix  # noqa: B018 - raises for a file that cannot be read
        return Source(str(path), split or benchmark.splits[0], (file,))
    if local:
        root, name, label = path.resolve(), wanted, path.name
    else:
        match = _REPOSITORY.fullmatch(wanted)
        if not match or path.suffix.lower() in SUFFIXES or wanted.startswith(("./", "../")):
            raise DataError(f"{wanted} is no file, no directory and no repository owner/name: correct --source.")
        root = download(match["name"], match["revision"], token)
        name, label = f"{match['name']}@{root.name}", match["name"]
    chosen, paths = _split_files(root, name, benchmark, split, config)
    return Source(name, chosen, tuple(SourceFile(p, f"{label}/{os.path.relpath(p, root)}") for p in paths))


def download(repository: str, revision: str | None, token: str | None = None) -> Path:
    """The directory of a repository's snapshot, named by its commit; only data files and the card are fetched.

    What is in the cache already is not fetched again, and is used as it is where the hub cannot be reached.

    Raises:
        DataError: if there is none.
    """
    from huggingface_hub import snapshot_download

    patterns = ["README.md", ".huggingface.yaml", *(f"*{suffix}" for suffix in SUFFIXES)]
    with _hub_errors(repository, revision):
        return Path(
            snapshot_download(repository, repo_type="dataset", revision=revision, token=token, allow_patterns=patterns)
        )


@contextlib.contextmanager
def _hub_errors(repository: str, revision: str | None) -> Iterator[None]:
    """What the hub's client raises, as one line each."""
    import httpx
    from huggingface_hub import constants, errors

    instead = "or download it elsewhere and give the file as --source."
    try:
        yield
    except errors.GatedRepoError as error:
        fix = f"accept its terms on {constants.ENDPOINT}/datasets/{repository} and give a --token of that account"
        raise DataError(f"{repository} is gated: {fix}, {instead}") from error
    except errors.RepositoryNotFoundError as error:
        raise DataError(
            f"{repository} is no data set on {constants.ENDPOINT}, or a private one: check --source and --token "
            f"(or HF_TOKEN), {instead}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise DataError(f"{repository} has no revision {revision!r}: check --source owner/name@revision.") from error
    except errors.HFValidationError as error:
        raise DataError(f"{repository} is no name of a repository: {error}") from error
    except (httpx.HTTPError, errors.LocalEntryNotFoundError, ConnectionError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403):
            raise DataError(f"{constants.ENDPOINT} refused the token (status {status}): correct --token.") from error
        if constants.is_offline_mode():
            reason = "HF_HUB_OFFLINE is set and it is not in the cache: unset that"
        else:
            reason = f"{constants.ENDPOINT} does not answer ({_first_line(error.__cause__ or error)}): try again"
        raise DataError(f"{repository} cannot be downloaded, {reason}, {instead}") from error
    except OSError as error:
        raise DataError(f"{repository} cannot be downloaded: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _split_files(
    root: Path, name: str, benchmark: Benchmark, split: str | None, config: str | None
) -> tuple[str, list[Path]]:
    """The split to read and its files, by the rules of the ``datasets`` library (the card, else the files' names)."""
    import datasets

    kinds = ", ".join(SUFFIXES)
    if not any(path.suffix.lower() in SUFFIXES for path in root.rglob("*")):
        raise DataError(f"{name} holds no file of a kind that can be read ({kinds}): give another --source.")
    try:
        with tempfile.TemporaryDirectory() as cache:
            configs = datasets.get_dataset_config_names(str(root))
            chosen = _choose("config", name, configs, config, benchmark.config, "default")
            files = datasets.load_dataset_builder(str(root), chosen, cache_dir=cache).config.data_files or {}
    except DataError:
        raise
    except Exception as error:  # a card or a tree that the library cannot make sense of: many types
        problem = f"{name} is not laid out as a data set ({_first_line(error)})"
        raise DataError(f"{problem}: give one file ({kinds}).") from error
    by_split = {str(key): [Path(file) for file in value] for key, value in files.items()}
    chosen = _choose("split", name, list(by_split), split, benchmark.splits[0])
    return chosen, by_split[chosen]


def _choose(option: str, name: str, there: list[str], wanted: str | None, *usual: str | None) -> str:
    """One of ``there``: what is wanted, else the first of the usual ones, else the only one."""
    if wanted is not None:
        if wanted not in there:
            raise DataError(f"{name} has no {option} {wanted!r}: use one of {', '.join(there)}.")
        return wanted
    found = next((value for value in usual if value in there), there[0] if len(there) == 1 else None)
    if found is None:
        raise DataError(f"{name} has several {option}s: choose one with --{option}, of {', '.join(there)}.")
    return found
