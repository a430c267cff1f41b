"""The paper's own numbers (arXiv 2611.00782v1), as printed: percent, Tables 1 to 4 and the text.

They stand beside the results of a report and never enter them. Which is best and which way a value moved is computed
by the report's own rules; that these give the paper's marks is tested.
"""

from __future__ import annotations

SOURCE = "One Offset, Two Directions: Baseline Adjustment via Subgroup Offsets in GRPO, arXiv 2611.00782v1"
BENCHMARKS = ("AIME 2024", "AIME 2025", "AIME 2026", "HMMT 2025")
#: Each benchmark has both, in this order.
METRICS = ("pass@1", "pass@16")

#: Table 1: pass@1 and pass@16 of each benchmark in turn.
MAIN: dict[str, dict[str, tuple[float, ...]]] = {
    "Qwen3-8B-Base": {
        "GRPO": (31.6, 66.8, 24.0, 50.3, 25.5, 58.3, 12.8, 32.5),
        "Strategy-GRPO": (30.2, 65.6, 23.0, 47.9, 23.5, 53.8, 12.6, 32.5),
        "Alignment": (31.1, 66.4, 24.0, 49.8, 24.4, 56.0, 12.1, 32.7),
        "Contrast": (31.8, 69.1, 23.8, 50.6, 24.6, 58.8, 13.0, 36.3),
    },
    "Olmo3-7B-Base": {
        "GRPO": (42.3, 72.9, 32.4, 57.6, 33.5, 62.3, 16.4, 37.1),
        "Strategy-GRPO": (38.8, 69.8, 30.4, 54.6, 30.3, 62.2, 16.3, 34.7),
        "Alignment": (38.8, 71.4, 31.2, 56.4, 29.6, 62.9, 15.4, 36.1),
        "Contrast": (40.1, 72.9, 31.5, 56.3, 30.5, 65.2, 14.6, 37.3),
    },
}

#: "Main Results": gains over Strategy-GRPO on average over the benchmarks, points of pass@1 and pass@16.
GAINS: dict[str, dict[str, tuple[float, float]]] = {
    "Qwen3-8B-Base": {"Contrast": (1.0, 3.8), "Alignment": (0.6, 1.3)},
    "Olmo3-7B-Base": {"Contrast": (0.2, 2.6), "Alignment": (-0.2, 1.4)},
}

#: Table 2 (Qwen3-8B-Base): by lambda, columns as in Table 1.
LAMBDAS: dict[float, tuple[float, ...]] = {
    0.0: MAIN["Qwen3-8B-Base"]["Strategy-GRPO"],
    0.3: MAIN["Qwen3-8B-Base"]["Alignment"],
    0.5: (30.3, 64.3, 23.6, 46.8, 23.6, 51.5, 11.6, 29.0),
    0.7: (30.9, 65.8, 23.9, 48.4, 24.8, 54.1, 12.0, 29.2),
    -0.3: MAIN["Qwen3-8B-Base"]["Contrast"],
    -0.5: (31.1, 65.0, 22.8, 48.2, 24.4, 55.0, 11.7, 31.9),
    -0.7: (30.1, 65.2, 22.4, 47.3, 23.6, 49.4, 9.8, 26.0),
}

#: "Ablation Study": averages over the benchmarks for lambda > 0, pass@1 and pass@16.
LAMBDA_AVERAGES: dict[float, tuple[float, float]] = {0.3: (22.9, 51.2), 0.5: (22.3, 47.9), 0.7: (22.9, 49.4)}

#: Table 3 (Qwen3-8B-Base, pass@16): offsets permuted within the group.
SHUFFLE: dict[str, tuple[float, ...]] = {
    "Strategy-GRPO": (65.6, 47.9, 53.8, 32.5),
    "Alignment": (66.4, 49.8, 56.0, 32.7),
    "Alignment + shuffle": (64.5, 47.2, 51.7, 29.2),
    "Contrast": (69.1, 50.6, 58.8, 36.3),
    "Contrast + shuffle": (64.5, 45.9, 52.7, 30.0),
}

#: Table 4 (Qwen3-8B-Base, pass@16): how strategies are sampled.
SAMPLING: dict[str, dict[str, tuple[float, ...]]] = {
    "Alignment": {
        "default": (66.4, 49.8, 56.0, 32.7),
        "+ T=0.7": (67.9, 48.6, 53.3, 31.3),
        "+ random": (66.3, 48.1, 54.0, 29.4),
    },
    "Contrast": {
        "default": (69.1, 50.6, 58.8, 36.3),
        "+ T=0.7": (67.6, 49.1, 56.0, 32.0),
        "+ random": (67.8, 48.7, 56.5, 33.3),
    },
}

#: Figure 2 is drawn, not tabulated: the ranges of its axes, and what the text says of it.
DYNAMICS: tuple[str, ...] = (
    "Policy entropy (EMA), axes: 0.5 to 2.5 (Qwen3-8B-Base, 130 steps), 0.4 to 1.2 (Olmo3-7B-Base, 260 steps). Qwen: "
    "falls, then climbs to the end and grows volatile, earliest at lam = 0. Olmo: an early peak, then low and stable. "
    "lam = 0 has the highest entropy on both.",
    "Informative prompts (span of at least 0.375, on a fixed set of prompts), axes: 0.15 to 0.40 (Qwen), 0.1 to 0.4 "
    "(Olmo): rises early, peaks, relaxes and then holds.",
    "Subgroup term / standard term, axes: 0.11 to 0.16 (Qwen), 0.12 to 0.18 (Olmo): largest early, then low and "
    "stable.",
)

#: "Cost of strategy sampling".
COST: tuple[str, ...] = (
    "8 calls of at most 256 tokens a prompt: at most 2,048 tokens for strategies, against up to 32 x 20,480 for the "
    "rollouts, under one percent of generated tokens. The share of wall-clock is larger; no number is given.",
)

#: Table 6 and "Case Study": successes of Z = 8 rollouts in each subgroup of one problem (reference answer 17).
CASE: dict[str, tuple[int, int]] = {
    "symmetry + Pythagorean theorem": (6, 8),
    "coordinate geometry + Pythagorean": (4, 8),
    '"upper/lower semicircle intersection"': (1, 8),
    '"prove 18 m vs 10 m paths are equal"': (0, 8),
}
