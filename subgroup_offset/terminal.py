"""What the commands share at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def errors_as_messages(*errors: type[Exception]) -> Iterator[None]:
    """Of these errors, whose messages say what to do, show the message alone, and end the command with exit code 1."""
    try:
        yield
    except errors as error:
        typer.secho(str(error), fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None
