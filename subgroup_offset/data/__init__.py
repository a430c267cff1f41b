"""The parquet files that verl reads, for the paper's training set and benchmarks: ``subgroup-offset data``.

Data flows one way: ``locate`` finds files, ``files`` reads rows, ``columns``, ``prompts`` and ``answers`` read cells,
``build`` makes problems of them, ``scoring`` tries verl's reward on them, ``write`` makes a file;
``prepare.prepare`` joins these. Nothing is imported here, so that the command line starts quickly.
"""
