"""Scripts that run on a node. They use the standard library and import nothing of this package.

Each reads a JSON object from standard input and prints JSON objects on lines that begin with :data:`MARKER`; what
libraries print beside them is ignored.
"""

from pathlib import Path

#: Begins every line that belongs to an answer.
MARKER = "@@doctor@@"


def source(name: str) -> str:
    """The text of the script ``name`` (``host``, ``imports``, ``assets`` or ``storage``)."""
    return (Path(__file__).parent / f"{name}.py").read_text("utf-8")
