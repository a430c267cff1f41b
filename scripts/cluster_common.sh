# Sourced by the cluster_*.sh scripts: what they have in common.
set -euo pipefail

die() { echo "error: $*" >&2; exit 1; }

# show_help SCRIPT: prints the comment at its top.
show_help() {
  sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p}' "$1"
  exit 0
}

need_tools() {
  local tool
  for tool in ray python3; do
    command -v "$tool" >/dev/null || die "$tool is not in PATH: activate the environment that has verl"
  done
}

# Any local ray.init() leaves a token. A head that has one asks for it, but in Ray 2.60 nothing sends it unless told to.
use_ray_token() {
  local given="${RAY_AUTH_TOKEN:-}${RAY_AUTH_TOKEN_PATH:-}"
  if [ -z "${RAY_AUTH_MODE:-}" ] && { [ -n "$given" ] || [ -s ~/.ray/auth_token ]; }; then
    export RAY_AUTH_MODE=token
  fi
}

# joined_run ADDRESS NODES ARGUMENT...: sets `run` to the arguments and the overrides with which main_ppo joins a cluster;
# NODES may be empty: the arguments say it.
# Hydra takes overrides in one block only, so they go right behind the caller's last one. A cluster that is there has
# said what it has: Ray refuses to be told the number of its CPUs and GPUs again.
joined_run() {
  local ours=("++ray_kwargs.ray_init.address='$1'" "ray_kwargs.ray_init.num_cpus=null")
  ours+=("++ray_kwargs.ray_init.num_gpus=null")
  [ -z "$2" ] || ours+=("trainer.nnodes=$2")
  shift 2
  local argument position=0 last=0
  for argument in "$@"; do
    position=$((position + 1))
    case "$argument" in
      -*) ;;
      *=* | '~'*) last=$position ;;
    esac
  done
  [ "$last" -gt 0 ] || last=$#
  run=("${@:1:last}" "${ours[@]}" "${@:last+1}")
}
