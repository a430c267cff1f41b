# Sourced by scripts/demo and scripts/test: makes .venv once, with the set of versions that runs on a CPU.
# A change of pyproject.toml makes it anew; otherwise this returns at once.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

die() { echo "error: $*" >&2; exit 1; }

find_python() {
  local name
  for name in "${PYTHON:-}" python3.11 python3 python; do
    [ -n "$name" ] || continue
    if "$name" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  return 1
}

# run_step TEXT COMMAND...: one line of progress; the output is shown only when the command fails.
run_step() {
  local text="$1" log started=$SECONDS
  shift
  log="$(mktemp)"
  echo "... $text"
  if ! "$@" >"$log" 2>&1; then
    tail -n 25 "$log" >&2
    rm -f "$log"
    die "$text failed: $*"
  fi
  rm -f "$log"
  echo "    done in $((SECONDS - started)) s"
}

setup_environment() {
  local python stamp=".venv/.subgroup_offset" wanted
  wanted="$(cksum pyproject.toml | cut -d' ' -f1)"
  if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -x .venv/bin/subgroup-offset ]; then
    return
  fi
  python="$(find_python)" || die "Python 3.11 was not found: install it, or set PYTHON to its path"
  [ -x .venv/bin/python ] || run_step "making .venv with $python" "$python" -m venv .venv
  # torch first and by pip: an installed build, of whatever kind, then satisfies everything else.
  run_step "installing torch" .venv/bin/python -m pip install uv torch==2.13.0
  run_step "installing verl, vLLM (CPU), Ray and this package (minutes, once)" \
    .venv/bin/uv pip install --python .venv/bin/python -e '.[cpu,test]'
  echo "$wanted" >"$stamp"
}

setup_environment
