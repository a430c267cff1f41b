"""Facts of one node -> findings: the directories it writes to, the model and the data it reads. Pure."""

from __future__ import annotations

from subgroup_offset.doctor.checks import GIB, Check, Context
from subgroup_offset.doctor.expected import REWARD, Data
from subgroup_offset.doctor.facts import DataFacts, HostFacts, ModelFacts, NodeFacts, Stage
from subgroup_offset.doctor.findings import Cell, Collector

#: Bytes of a checkpoint for each parameter: weights and both of Adam's moments in float32, verl's defaults.
CHECKPOINT_BYTES = 12
#: A run writes its first checkpoint after hours: warn below room for this many.
CHECKPOINTS_AHEAD = 3


def paths(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """Directories exist and can be written. Whether they are shared takes several nodes: `cluster_checks.sharing`."""
    found = Collector("paths", node.name)
    if not context.expected.directories:
        return found.cell("none given")
    for directory in context.expected.directories:
        facts = node.paths.get(directory.path)
        where = f"{directory.key} {directory.path}"
        if facts is None:
            found.error(
                f"{where}: the test of writing {node.failed.get('storage', 'said nothing')}",
                "look whether the file system hangs (`df` on that node), and mount it again",
            )
        elif facts.error:
            fix = f"make {directory.path} writable for the user that runs Ray there, or mount it"
            found.error(f"{where}: {facts.directory} {facts.error}", fix)
        if context.nodes > 1 and not directory.path.startswith(("/", "~")):
            report = found.error if directory.shared else found.warning
            problem = f"{where} is relative: here it means a directory in {host.cwd}, where Ray was started"
            report(problem, f"give an absolute path for {directory.key}")
    usable = sum(facts.token is not None for facts in node.paths.values())
    return found.cell(f"{usable} of {len(context.expected.directories)}")


def disk(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """Room for checkpoints, by the number of the model's parameters."""
    found = Collector("disk", node.name)
    places = {d.path: node.paths[d.path] for d in context.expected.directories if d.path in node.paths}
    free = [facts.free for facts in places.values() if facts.free is not None]
    main = context.expected.models[0].path if context.expected.models else None
    parameters = node.models[main].parameters if main in node.models else 0
    one = parameters * CHECKPOINT_BYTES
    for directory in context.expected.directories:
        facts = places.get(directory.path)
        if not directory.checkpoints or facts is None or facts.free is None:
            continue
        room = f"{facts.free / GIB:.1f} GiB are free for {directory.key}, a checkpoint takes about {one / GIB:.1f}"
        if facts.free < one:
            found.error(room, "free space there, or move the checkpoints to another disk")
        elif facts.free < CHECKPOINTS_AHEAD * one:
            found.warning(room, "free space there, or set trainer.max_actor_ckpt_to_keep=1")
    return found.cell(f"{min(free) / GIB:.0f} GiB free" if free else "-")


def model(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """Every model's files are there and complete, its config and tokenizer load."""
    found = Collector("model", node.name)
    if not context.expected.models:
        return found.cell("none given")
    tokenizers = node.stages.get("tokenizers", Stage(error=f"not tried: {node.failed.get('imports', 'no answer')}"))
    for wanted in context.expected.models:
        facts = node.models.get(wanted.path)
        if facts is None:
            problem = f"{wanted.path}: reading its files {node.failed.get('assets', 'said nothing')}"
            found.error(problem, "look whether the file system hangs on that node")
            continue
        _model_files(found, wanted.path, facts)
        error = tokenizers.error or (tokenizers.value or {}).get(wanted.path)
        if error and (facts.kind == "hub" or (facts.kind == "directory" and facts.found)):
            fix = f"put config.json and the tokenizer's files of {wanted.tokenizer} where this node can read them"
            found.error(f"{wanted.path}: config or tokenizer cannot be loaded ({error})", fix)
    sizes = [facts.bytes for facts in node.models.values() if facts.found]
    return found.cell(f"{sum(sizes) / GIB:.1f} GiB" if sizes else "missing")


def _model_files(found: Collector, path: str, facts: ModelFacts) -> None:
    if facts.kind == "remote":
        found.warning(f"{path} is not looked at: it is on remote storage", "copy it to a directory all nodes share")
    elif facts.kind == "hub" and (not facts.found or facts.missing):
        problem = f"{path} is {'not' if not facts.found else 'not wholly'} in the hub's cache of this node"
        fix = f"run `hf download {path}` on this node, or give a directory on shared storage"
        if facts.offline:
            found.error(f"{problem}, and HF_HUB_OFFLINE is set", fix)
        else:
            found.warning(f"{problem}: the run would download it", fix)
    elif not facts.found:
        fix = "copy it there (or to shared storage), and give the full path, without ~"
        found.error(f"{path} does not exist", fix)
    elif facts.missing:
        names = ", ".join(facts.missing[:3]) + (" ..." if len(facts.missing) > 3 else "")
        found.error(f"{path} lacks {len(facts.missing)} weight file(s) of its index: {names}", "copy the model again")
    for problem in facts.problems:
        found.error(f"{path}: {problem}", "copy the model again")
    if path.endswith("/"):
        found.error(f"{path} ends with a slash, which verl refuses", "leave it off")


def data(node: NodeFacts, host: HostFacts, context: Context) -> Cell:
    """Every data file can be read and has the columns that verl reads; files of code that the run names are there."""
    found = Collector("data", node.name)
    for path in context.expected.files:
        if not node.files.get(path, False):
            found.error(f"{path} cannot be read", "copy it there, or to storage that all nodes share")
    if not context.expected.data:
        return found.cell("none given")
    for wanted in context.expected.data:
        facts = node.data.get(wanted.path)
        if facts is None:
            problem = f"{wanted.path}: reading it {node.failed.get('assets', 'said nothing')}"
            found.error(problem, "look whether the file system hangs on that node")
        elif facts.error:
            fix = "copy it there, or to shared storage: Ray may put the trainer on any node"
            if not wanted.path.startswith(("/", "~")):
                fix = f"give an absolute path (a relative one starts at {host.cwd}), on storage that all nodes share"
            found.error(f"{wanted.path} cannot be read ({facts.error})", fix)
        elif facts.columns is None:
            fix = "copy it to a directory all nodes share"
            found.warning(f"{wanted.path} is not looked at: it is on remote storage", fix)
        else:
            _columns(found, wanted, facts, facts.columns)
    rows = [facts.rows for facts in node.data.values() if facts.rows is not None]
    return found.cell(f"{sum(rows)} rows" if rows else "-")


def _columns(found: Collector, wanted: Data, facts: DataFacts, columns: dict[str, str]) -> None:
    if facts.rows == 0:
        found.error(f"{wanted.path} has no rows", "write it again")
    missing = [column for column in wanted.columns if column not in columns]
    if missing:
        fix = "write these columns, or set data.prompt_key and data.reward_fn_key to the names there are"
        there = ", ".join(columns) or "none"
        found.error(f"{wanted.path} lacks the column(s) {', '.join(missing)} (it has {there})", fix)
    if not wanted.columns:
        return
    prompt = columns.get(wanted.prompt)
    if prompt is not None and not ("role" in prompt and "content" in prompt):
        fix = 'write it as a list of messages, [{"role": "user", "content": ...}]'
        found.error(f"{wanted.path}: column {wanted.prompt} is no list of messages ({prompt[:80]})", fix)
    reward = columns.get(REWARD)
    if reward is not None and "ground_truth" not in reward:
        fix = 'write it as {"style": "rule", "ground_truth": ...}'
        found.error(f"{wanted.path}: column {REWARD} has no field ground_truth ({reward[:80]})", fix)


STORAGE: dict[str, Check] = {"paths": paths, "disk": disk, "model": model, "data": data}
