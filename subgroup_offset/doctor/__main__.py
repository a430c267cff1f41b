"""``python -m subgroup_offset.doctor``: the same as ``subgroup-offset doctor``."""

import typer

from subgroup_offset.doctor.command import doctor

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(doctor)

if __name__ == "__main__":
    app()
