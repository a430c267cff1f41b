#!/usr/bin/env bash
# Starts Ray on the nodes of a training, checks them (`subgroup-offset doctor`), trains on all of them, ends Ray again.
#
#   On every node:  NNODES=2 NODE_RANK=0 MASTER_ADDR=head scripts/cluster_ray_start.sh ARGUMENT...   (NODE_RANK=1 ...)
#   With Slurm:     srun --nodes 2 --ntasks-per-node 1 --gpus-per-node 8 scripts/cluster_ray_start.sh ARGUMENT...
#
# The arguments are those of `python3 -m verl.trainer.main_ppo`, the same on every node; trainer.nnodes and the settings
# with which a run joins a cluster are added. `ray` and `python3` are taken from PATH: activate the environment first.
# Rank 0 is the head and has the exit code of the training; the other ranks end when the head does.
#
#   RAY_PORT        the head's port (6379)
#   RAY_START_ARGS  more arguments of `ray start` on this node, as --num-gpus 8
#   JOIN_SECONDS    how long nodes wait for each other (600)
#   DOCTOR_ARGS     more arguments of the doctor, as --path /shared/checkpoints
#   DOCTOR=warn     trains even where the doctor finds errors
#   RAY_AUTH_MODE, RAY_AUTH_TOKEN  as Ray reads them, the same on all nodes (token mode where Ray has a token)
source "$(dirname "${BASH_SOURCE[0]}")/cluster_common.sh"
case "${1:-}" in -h | --help) show_help "$0" ;; esac

nodes="${NNODES:-${SLURM_NNODES:-}}"
rank="${NODE_RANK:-${SLURM_NODEID:-}}"
head="${MASTER_ADDR:-}"
if [ -z "$head" ] && [ -n "${SLURM_JOB_NODELIST:-}" ]; then
  head="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
fi
[ -n "$nodes" ] || die "NNODES is not set: give the number of nodes (see --help)"
[ -n "$rank" ] || die "NODE_RANK is not set: 0 on the head, 1, 2, ... on the others (see --help)"
[ -n "$head" ] || die "MASTER_ADDR is not set: give the head's host name or address (see --help)"
port="${RAY_PORT:-6379}"
patience="${JOIN_SECONDS:-600}"
need_tools
use_ray_token
read -r -a ray_args <<<"${RAY_START_ARGS:-}"
read -r -a doctor_args <<<"${DOCTOR_ARGS:-}"

ray_pid=
command_pid=
# Ends what this script started and nothing else, which `ray stop` would.
stop() {
  local pid
  for pid in $command_pid $ray_pid; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
trap stop EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# Nothing is left to be drained when a training is over.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

start_ray() {
  ray start --block --disable-usage-stats "$@" "${ray_args[@]}" &
  ray_pid=$!
}

# In the background, because a signal would otherwise wait for the end of the training.
attend() {
  local code=0
  "$@" &
  command_pid=$!
  wait "$command_pid" || code=$?
  command_pid=
  return "$code"
}

head_answers() { (exec 3<>"/dev/tcp/$head/$port") 2>/dev/null; }

await_head() {
  local started=$SECONDS
  until head_answers; do
    [ -z "$ray_pid" ] || kill -0 "$ray_pid" 2>/dev/null || die "Ray did not start on this node: see its output above"
    [ $((SECONDS - started)) -lt "$patience" ] || die "no head at $head:$port after $patience s"
    sleep 1
  done
}

if [ "$rank" -ne 0 ]; then
  await_head
  start_ray --address "$head:$port"
  misses=0
  while [ "$misses" -lt 3 ]; do
    sleep 3
    if head_answers; then misses=0; else misses=$((misses + 1)); fi
    # A node that lost its head ends by itself; only one that ends beside a living head is a failure.
    kill -0 "$ray_pid" 2>/dev/null || [ "$misses" -gt 0 ] || die "Ray ended on this node: see its output above"
  done
  echo "The head at $head:$port has ended."
  exit 0
fi

start_ray --head --port "$port"
await_head
joined_run "$head:$port" "$nodes" "$@"
attend python3 -m subgroup_offset.cli doctor --wait "$patience" "${doctor_args[@]}" "${run[@]}" ||
  [ "${DOCTOR:-}" = warn ] || die "the doctor found errors: mend them, or set DOCTOR=warn"
attend python3 -m verl.trainer.main_ppo "${run[@]}"
