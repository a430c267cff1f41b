"""Runs on machines: following one (`launch`, `processes`), the launcher of sweeps, and the doctor of a Ray cluster.

A sweep is `sweep`, with `jobs` planned from Hydra's overrides and a `job_record` of each. The doctor's `node_script` is
sent to every node as text, by `ray_nodes`; `doctor` prints what `node_checks` and `cluster_checks` make of the facts
that come back, held against what the run `needs` and the `versions` that verl and this package state.
"""
