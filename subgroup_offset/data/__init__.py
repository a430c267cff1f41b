"""The parquet files that verl reads, for the paper's training set and benchmarks: ``subgroup-offset data``.

``locate`` finds files, ``read`` takes rows from them, ``prompts`` and ``answers`` check cells, ``build`` makes unique
problems and verl's rows; ``prepare`` joins these. Nothing is imported here, so that the command line starts quickly.
"""
