#!/usr/bin/env bash
# Submits a training to a Ray cluster that is running: `subgroup-offset doctor` first, then main_ppo, on its head.
#
#   RAY_API_SERVER_ADDRESS=http://head:8265 scripts/cluster_submit.sh ARGUMENT...
#
# The arguments are those of `python3 -m verl.trainer.main_ppo`, trainer.nnodes and trainer.n_gpus_per_node among them;
# the settings with which a run joins a cluster are added. Paths are those of the cluster. Prints the job's log; the
# exit code is the job's.
#
#   RAY_API_SERVER_ADDRESS  the head's dashboard (http://127.0.0.1:8265)
#   RUNTIME_ENV_JSON        Ray's runtime environment of the job, as '{"env_vars": {"WANDB_MODE": "offline"}}'
#   SUBMIT_ARGS             more arguments of `ray job submit`, as --no-wait
#   DOCTOR_ARGS             more arguments of the doctor, as --path /shared/checkpoints
#   DOCTOR=warn             trains even where the doctor finds errors
source "$(dirname "${BASH_SOURCE[0]}")/cluster_common.sh"
case "${1:-}" in -h | --help) show_help "$0" ;; esac
need_tools
use_ray_token
read -r -a submit_args <<<"${SUBMIT_ARGS:-}"
joined_run auto "" "$@"
printf -v quoted ' %q' "${run[@]}"
otherwise="&&"
[ "${DOCTOR:-}" != warn ] || otherwise=";"
command="python3 -m subgroup_offset.cli doctor ${DOCTOR_ARGS:-}$quoted $otherwise python3 -m verl.trainer.main_ppo$quoted"

# The command travels as a variable: older versions of `ray job submit` lose quotes and brackets of their arguments.
environment="$(python3 -c '
import json, sys
environment = json.loads(sys.argv[1])
environment.setdefault("env_vars", {})["SUBGROUP_OFFSET_COMMAND"] = sys.argv[2]
print(json.dumps(environment))
' "${RUNTIME_ENV_JSON:-{\}}" "$command")" || die "RUNTIME_ENV_JSON=$RUNTIME_ENV_JSON is no JSON object"

echo "$command"
exec ray job submit --address "${RAY_API_SERVER_ADDRESS:-http://127.0.0.1:8265}" --runtime-env-json "$environment" \
  "${submit_args[@]}" -- sh -c 'printenv SUBGROUP_OFFSET_COMMAND | bash'
