"""Grading of answers, pass@k, and comparisons between methods (paper, "Evaluation Details" and Table 1)."""
