"""`python -m subgroup_offset.toy`: builds the toy world if need be and prints its directory.

Standard output holds the directory alone, so that a command line can say `toy_dir=$(python -m subgroup_offset.toy)`;
the paths of the model and the data go to standard error.
"""

import argparse
import sys
from pathlib import Path

from .build import build_toy, default_cache_dir
from .progress import progress_line
from .sft import STEPS


def main() -> None:
    """Parses the command line and builds."""
    parser = argparse.ArgumentParser(
        prog="python -m subgroup_offset.toy", description="Builds the toy world and prints its directory."
    )
    parser.add_argument("--cache-dir", type=Path, default=default_cache_dir())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="batches of the warm start (default %(default)s)")
    options = parser.parse_args()
    with progress_line() as progress:
        paths = build_toy(options.cache_dir, options.seed, options.steps, progress)
    print(f"model: {paths.model}\ntrain: {paths.train}\nval:   {paths.val}", file=sys.stderr)
    print(paths.root)


if __name__ == "__main__":
    main()
