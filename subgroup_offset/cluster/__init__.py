"""Runs on machines: the launcher of sweeps (`sweep`, `jobs`, `job_record`) and the doctor of a Ray cluster.

The doctor's `node_script` is sent to every node as text; `doctor` sends it and prints what `node_checks` and
`cluster_checks` make of the facts it brings back, held against what the run `needs` and the `versions` that work.
"""
