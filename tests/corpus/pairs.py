"""Raw generations that were asked for two previews: ``name: (raw text, the two previews or None)``."""

from corpus.singles import DOTS, SEATS, TRIANGLE

MARKER = "[ANOTHER APPROACH]"
BOTH = (SEATS, TRIANGLE)

PAIRS = {
    "exactly as asked": (f"{SEATS}\n{MARKER}\n{TRIANGLE}", BOTH),
    "blank lines around the marker": (f"{SEATS}\n\n{MARKER}\n\n{TRIANGLE}\n", BOTH),
    "a bold marker in lower case": (f"{SEATS}\n**[ another approach ]**:\n{TRIANGLE}", BOTH),
    "a full-width marker and Windows newlines": (
        f"{SEATS}\n【ANOTHER APPROACH】\n{TRIANGLE}".replace("\n", "\r\n"),
        BOTH,
    ),
    "the marker at the end of a bullet": (f"{SEATS} {MARKER}\n{TRIANGLE}", BOTH),
    "the marker as a bullet": (f"{SEATS}\n- {MARKER}\n{TRIANGLE}", BOTH),
    "the marker and the header on one line": (f"{SEATS}\n{MARKER} {TRIANGLE}", BOTH),
    "the marker quoted before": (f"Two previews, parted by {MARKER}:\n{MARKER}\n{SEATS}\n{MARKER}\n{TRIANGLE}", BOTH),
    "the marker written twice": (f"{SEATS}\n{MARKER}\n{MARKER}\n{TRIANGLE}", BOTH),
    "drift after both halves": (f"{SEATS}\nso 12\n{MARKER}\n{TRIANGLE}\nAnswer: 13", BOTH),
    "chatter before both halves": (f"First:\n{SEATS}\n{MARKER}\nA different way:\n{TRIANGLE}<|im_end|>", BOTH),
    "thinking before": (f"<think>Two ways.</think>{SEATS}\n{MARKER}\n{TRIANGLE}", BOTH),
    "a pair drafted in the thought": (
        f"<think>\n{TRIANGLE}\n{MARKER}\n{SEATS}\n</think>\n{SEATS}\n{MARKER}\n{TRIANGLE}",
        BOTH,
    ),
    "a thought about each": (f"<think>a</think>\n{SEATS}\n{MARKER}\n<think>{SEATS}</think>{TRIANGLE}", BOTH),
    "the format repeated with dots": (f"{DOTS}\n{MARKER}\n{DOTS}\n\n{SEATS}\n{MARKER}\n{TRIANGLE}", BOTH),
    "dots before the second half": (f"{SEATS}\n{MARKER}\n{DOTS}\n{TRIANGLE}", BOTH),
    "a third preview": (f"{SEATS}\n{MARKER}\n{TRIANGLE}\n{MARKER}\n{SEATS}", BOTH),
    "equal halves": (f"{SEATS}\n{MARKER}\n{SEATS}", (SEATS, SEATS)),
    "no marker": (f"{SEATS}\n{TRIANGLE}", None),
    "another separator": (f"{SEATS}\n---\n{TRIANGLE}", None),
    "one half": (SEATS, None),
    "nothing after the marker": (f"{SEATS}\n{MARKER}", None),
    "nothing before the marker": (f"{MARKER}\n{TRIANGLE}", None),
    "a second half cut off": (f"{SEATS}\n{MARKER}\n[KEY CONDITIONS]\n- tangents\n[KEY ID", None),
    "an unusable first half": (f"[KEY CONDITIONS]\n- x\n{MARKER}\n{TRIANGLE}", None),
    "the marker among the conditions": (f"[KEY CONDITIONS]\n- x {MARKER} y\n[KEY IDEA]\n- z", None),
    "half the pair in the thought": (f"<think>\n{SEATS}\n{MARKER}\n</think>\n{TRIANGLE}", None),
    "a pair in a thought that never ends": (f"<think>\n{SEATS}\n{MARKER}\n{TRIANGLE}", None),
    "another problem's turn before the second half": (f"{SEATS}\n<|im_start|>user\n{MARKER}\n{TRIANGLE}", None),
    "nothing": ("", None),
    "100 kB of markers": (MARKER * 5_600, None),
    "100 kB of opened markers": (f"{SEATS}\n" + "[ANOTHER " * 11_000, None),
}
