"""Facts of one node -> findings: its software and its hardware. Pure. (`storage_checks`: what a run reads and writes.)

Each check takes a node that answered and the context, and gives one cell of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from subgroup_offset import compat
from subgroup_offset.doctor.expected import Expected
from subgroup_offset.doctor.facts import Gpu, HostFacts, NodeFacts, Stage
from subgroup_offset.doctor.findings import Cell, Collector

GIB = 2**30
#: verl asks Ray for a placement group of this many CPUs for each GPU (``ResourcePoolManager.max_colocate_count``).
CPUS_PER_GPU = 3
#: Below this, verl's weight buffers and Ray's object store fail or spill to the disk.
SMALL_SHM, LITTLE_SHM = 1 * GIB, 8 * GIB
#: Seconds by which two clocks may differ before logs and file times mislead.
MAX_SKEW = 3.0
OURS = "subgroup-offset"
ENTRY_POINT = "subgroup_offset"


@dataclass(frozen=True)
class Context:
    """What a node is held against."""

    expected: Expected
    driver: HostFacts
    #: How many nodes the cluster has.
    nodes: int = 1

    def install(self, host: HostFacts, package: str) -> str:
        """The command that brings a node's package to the driver's version."""
        names = next((p.aliases for p in compat.PACKAGES if p.name == package), ())
        version = self.driver.packages.get(package)
        what = f"'{package}=={version.split('+')[0]}'" if version and not names else package
        return f"{host.executable} -m pip install {what}"


Check = Callable[[NodeFacts, HostFacts, Context], Cell]


def python(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """One Python version everywhere, and one that is supported."""
    found = Collector("python", node.name)
    if host.python != context.driver.python:
        found.error(
            f"Python {host.python} ({host.executable}) where the driver has {context.driver.python}",
            f"start Ray on this node from an environment with Python {context.driver.python}",
        )
    if not compat.is_supported(compat.PYTHON, host.python):
        found.error(f"Python {host.python} is outside {compat.PYTHON}", "make an environment with Python 3.11 or 3.12")
    return found.cell(host.python)


def packages(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """Versions: those of the driver, and supported ones."""
    found = Collector("packages", node.name)
    for package in compat.PACKAGES:
        version, drivers = host.packages.get(package.name), context.driver.packages.get(package.name)
        if package.name == "vllm" and not context.expected.vllm:
            continue
        if version is None:
            if package.name != OURS:  # the plugin's check says more
                found.error(f"{package.name} is not installed", context.install(host, package.name))
            continue
        if drivers is not None and version != drivers:
            fix = f"{context.install(host, package.name)}, or bring the driver to {version}"
            found.error(f"{package.name} {version} where the driver has {drivers}", fix)
        if not compat.is_supported(package.supported, version):
            fix = f"install {package.name}{package.supported} on all nodes"
            found.error(f"{package.name} {version} is outside {package.supported}", fix)
        elif package.tried and version not in package.tried:
            problem = f"{package.name} {version} was never tried with this package"
            found.warning(problem, f"install {package.name} {package.tried[-1]}, or run its tests first")
    for package, code in host.code.items():
        other = context.driver.code.get(package)
        name = package.replace("_", "-")
        # Where the versions differ, that has been said.
        if code and other and code != other and host.packages.get(name) == context.driver.packages.get(name):
            problem = f"the source files of {package} differ from the driver's, at the same version"
            found.error(problem, "bring both checkouts to one commit and install them again")
    verl = host.packages.get("verl")
    return found.cell(f"verl {verl}" if verl else "no verl")


def verl(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """verl can be imported."""
    return _imported(node, "verl", f"run `{host.executable} -c 'import verl'` there and mend what it names")


def vllm(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """vLLM can be imported, as verl's rollout server does it."""
    if not context.expected.vllm:
        return Cell("not used")
    module = "verl.workers.rollout.vllm_rollout.vllm_async_server"
    return _imported(node, "vllm", f"run `{host.executable} -c 'import {module}'` there and mend what it names")


def _imported(node: NodeFacts, stage: str, fix: str) -> Cell:
    found = Collector(stage, node.name)
    result = node.stages.get(stage)
    if result is None:
        found.error(_unreached(node, stage), fix)
        return found.cell("not reached")
    if result.error:
        found.error(f"{stage} cannot be imported: {result.error}", fix)
        return found.cell("fails")
    return found.cell(str(result.value))


def _unreached(node: NodeFacts, stage: str) -> str:
    return f"{stage} was not reached: the script of imports {node.failed.get('imports', 'said nothing')}"


def plugin(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """The plugin is installed, its entry point visible, its estimator registered, its hooks in place."""
    found = Collector("plugin", node.name)
    version = host.packages.get(OURS)
    visible = ENTRY_POINT in host.plugins
    policy = (host.plugin_policy or "auto").strip().lower()
    result = node.stages.get("plugin")
    install = f"{host.executable} -m pip install {OURS}=={context.driver.packages.get(OURS) or 'VERSION'}"
    if version is None and not host.importable:
        found.error("subgroup_offset is not installed", install)
    elif not visible:
        problem = "subgroup_offset can be imported but has no entry point in verl.plugins, so verl does not load it"
        found.error(problem, f"{install} (a directory on PYTHONPATH is not enough)")
    elif policy != "auto" and ENTRY_POINT not in {name.strip() for name in policy.split(",")}:
        problem = f"VERL_USE_EXTERNAL_PLUGINS={host.plugin_policy} keeps verl from loading subgroup_offset"
        found.error(problem, f"unset it before `ray start`, or add {ENTRY_POINT} to it")
    elif result is None:
        found.error(_unreached(node, "plugin"), f"run `{host.executable} -c 'import verl'` there")
    elif result.error:
        found.error(f"verl's trainer cannot be imported: {result.error}", context.install(host, "verl"))
    else:
        _registered(found, node, host, result)
    return found.cell(version or "missing")


def _registered(found: Collector, node: NodeFacts, host: HostFacts, result: Stage) -> None:
    cause = node.plugin_log or result.value["import_error"]
    fix = f"run `{host.executable} -c 'import subgroup_offset.plugin'` there and mend what it names"
    if not result.value["registered"]:
        found.error(f"grpo_subgroup is not registered in verl ({cause or 'no error was logged'})", fix)
    for hook in sorted(name for name, there in result.value["hooks"].items() if not there):
        found.error(f"our hook is not in place: {hook} ({cause or 'no error was logged'})", fix)


def gpus(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """GPUs: what the machine has, what torch sees, what Ray counts, what the run wants; and Ray's CPUs."""
    found = Collector("gpus", node.name)
    wanted = context.expected.gpus_per_node
    counted = int(node.ray_gpus)
    enough_gpus = wanted is None or counted >= wanted
    if wanted and enough_gpus and node.ray_cpus < CPUS_PER_GPU * wanted:
        need = CPUS_PER_GPU * wanted
        found.error(
            f"Ray counts {node.ray_cpus:g} CPUs; verl's placement group asks for {need} ({CPUS_PER_GPU} a GPU) and "
            "would wait for ever",
            f"start Ray on this node with --num-cpus {need + 8}: they are logical",
        )
    if counted and not enough_gpus:
        found.warning(
            f"Ray counts {counted} GPUs, less than trainer.n_gpus_per_node={wanted}: the trainer cannot use this node",
            f"start Ray there with --num-gpus {wanted}, or set trainer.n_gpus_per_node={counted}",
        )
    if context.expected.device != "cuda":
        return found.cell(f"{counted} logical ({context.expected.device})")
    torch = node.stages.get("torch", Stage()).value or {}
    devices = host.gpus or tuple(Gpu(**gpu) for gpu in torch.get("gpus", ()))
    _devices(found, node, host, context, len(devices))
    if devices and torch:
        _torch_devices(found, torch, len(devices))
    return found.cell(_device_text(devices, counted))


def _devices(found: Collector, node: NodeFacts, host: HostFacts, context: Context, there: int) -> None:
    counted = int(node.ray_gpus)
    if counted > there:
        reason = f" ({host.gpu_error})" if host.gpu_error else ""
        problem = f"Ray counts {counted} GPUs, the machine has {there}{reason}"
        found.error(problem, f"start Ray there with --num-gpus {there}")
    elif there > counted:
        problem = f"Ray counts {counted} of the {there} GPUs"
        found.warning(problem, "unset CUDA_VISIBLE_DEVICES and --num-gpus where Ray is started on this node")
    elif not there:
        reason = host.gpu_error or "nvidia-smi lists none"
        if node.head and context.nodes > 1:
            found.warning(f"no GPU on the head node ({reason})", "nothing, if the head is not meant to train")
        else:
            found.error(f"no GPU ({reason})", "install the driver, or use +platform=cpu for a run without accelerators")


def _torch_devices(found: Collector, torch: dict, there: int) -> None:
    if torch["build"] is None:
        found.error("torch is a build without CUDA", "install the CUDA build of torch on this node")
    elif torch["count"] == 0:
        found.error("torch sees no GPU", "update the driver to what torch's CUDA needs, and unset CUDA_VISIBLE_DEVICES")
    elif torch["count"] < there:
        found.warning(f"torch sees {torch['count']} of the {there} GPUs", "unset CUDA_VISIBLE_DEVICES on this node")


def _device_text(devices: tuple[Gpu, ...], counted: int) -> str:
    if not devices:
        return f"none (Ray: {counted})"
    first = devices[0]
    memory = f" {first.memory / GIB:.0f} GiB" if first.memory else ""
    return f"{len(devices)} x {first.name}{memory}"


def memory(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """Host memory and /dev/shm."""
    found = Collector("memory", node.name)
    shm = host.shared_memory
    if shm is None:
        found.error("/dev/shm cannot be looked at", "mount a tmpfs there")
    elif shm < SMALL_SHM:
        fix = "start the container with --shm-size=64g, or remount /dev/shm larger"
        found.error(f"/dev/shm has {shm / GIB:.2f} GiB: Ray and verl's weight transfer need it", fix)
    elif shm < LITTLE_SHM and context.expected.device == "cuda":
        fix = "start the container with a larger --shm-size"
        found.warning(f"/dev/shm has {shm / GIB:.1f} GiB: Ray's object store spills to the disk", fix)
    weights = max((model.bytes for model in node.models.values()), default=0)
    if host.memory_available is not None and host.memory_available < weights:
        found.error(
            f"{host.memory_available / GIB:.1f} GiB of memory are free, the model's weights have {weights / GIB:.1f}",
            "free memory on this node, or use a machine with more",
        )
    total = "?" if host.memory is None else f"{host.memory / GIB:.0f}"
    return found.cell(f"{total} GiB, shm {'?' if shm is None else f'{shm / GIB:.0f}'}")


def clock(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """The node's clock agrees with the driver's."""
    found = Collector("clock", node.name)
    if abs(node.skew) > MAX_SKEW:
        problem = f"its clock is {abs(node.skew):.1f} s {'ahead of' if node.skew > 0 else 'behind'} the driver's"
        found.warning(problem, "start time synchronisation on this node (chrony, systemd-timesyncd)")
    return found.cell(f"{node.skew:+.1f} s")


SOFTWARE: dict[str, Check] = {
    "python": python,
    "packages": packages,
    "verl": verl,
    "plugin": plugin,
    "vllm": vllm,
    "gpus": gpus,
    "memory": memory,
    "clock": clock,
}
