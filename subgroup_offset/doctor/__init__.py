"""`subgroup-offset doctor`: can a run start on this cluster, and if not, what has to be done on which node.

``node/`` holds scripts that are sent to every node as text and run there by the node's own interpreter, so they work
where this package, verl or any other library is missing. ``cluster.py`` sends them through Ray, ``facts.py`` reads
what comes back, ``checks.py``, ``storage_checks.py`` and ``cluster_checks.py`` turn facts into findings without
touching anything, ``table.py`` prints them.
"""
