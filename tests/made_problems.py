"""Problems of our own in the form, number and kinds of answers of the real ones, which belong to no package."""

import json
from pathlib import Path

#: Final answers as HMMT asks for them (those of February 2025, which the tests of grading have spellings for).
HMMT = r"""
103
3375
\frac{1}{576}
-984
890
\frac{1311}{2017}
\frac{9 \sqrt{23}}{23}
1-\frac{2}{\pi}
1037
\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}
56
29
105
2304
200
6300
2^{25} \cdot 26!
\frac{2025}{101}
\frac{4}{9}
\frac{448}{3}
26
63
8\sqrt{10}
20
\sqrt{23}-2 \sqrt{3}
9\sqrt{15}
\frac{7}{18}
\sqrt{6}
14+4\sqrt{37}
\sqrt{\frac{95}{24}}
""".strip().splitlines()


def aime(year: int) -> list[tuple[str, str]]:
    numbers = [(year * 7 + 11 * i, i + 2) for i in range(30)]
    return [(f"Find the remainder when ${a}^{{{b}}}$\nis divided by $1000$.", str(pow(a, b, 1000))) for a, b in numbers]


def gsm8k(start: int, count: int) -> list[tuple[str, str]]:
    text = "Janet’s {} ducks lay {} eggs each.  She sells every egg for $2.  How much does she make?"
    return [(text.format(i, i % 90 + 1), str(2 * i * (i % 90 + 1))) for i in range(start, start + count)]


def write_problems(directory: Path) -> Path:
    """One file a benchmark: JSON lines of ``id``, ``problem`` (no instruction text) and ``answer`` (a text)."""
    made = {f"aime{year}": aime(year) for year in (24, 25, 26)}
    made["hmmt25"] = [(rf"Write ${answer}$ as simply as you can.", answer) for answer in HMMT]
    made |= {"gsm8k_train": gsm8k(3, 400), "gsm8k_test": gsm8k(500, 100)}
    for name, problems in made.items():
        ids = [f"{name}-{i:02}" for i in range(1, len(problems) + 1)]
        rows = [{"id": i, "problem": p, "answer": a} for i, (p, a) in zip(ids, problems, strict=True)]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (directory / f"{name}.jsonl").write_text(text, "utf-8")
    return directory
