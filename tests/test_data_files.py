"""`subgroup-offset data` on local files: formats, columns, errors, and what is on the disk afterwards."""

import json
import subprocess
import sys

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from subgroup_offset.data.command import data
from subgroup_offset.data.errors import DataError
from subgroup_offset.data.prepare import prepare
from subgroup_offset.data.prompts import wrap

PLAIN = [{"id": f"p{i}", "problem": f"What is {i}+{i}, in words?\nOr digits", "answer": str(2 * i)} for i in range(3)]
WRITERS = {
    ".jsonl": lambda path, rows: path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8"),
    ".json": lambda path, rows: path.write_text(json.dumps(rows, indent=1), "utf-8-sig"),
    ".parquet": lambda path, rows: pd.DataFrame(rows).to_parquet(path),
    # As spreadsheets save it.
    ".csv": lambda path, rows: pd.DataFrame(rows).to_csv(path, index=False, encoding="utf-8-sig"),
}


@pytest.fixture
def write(tmp_path):
    """Write rows into a source file: ``write(rows, suffix)`` -> its path as text."""

    def write_file(rows, suffix=".jsonl"):
        path = tmp_path / f"source{suffix}"
        WRITERS[suffix](path, rows)
        return str(path)

    return write_file


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def cli(out):
    """Run the command: ``cli(*arguments)`` -> exit code, standard output, standard error."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("data")(data)

    def run(*arguments):
        result = CliRunner().invoke(app, [*map(str, arguments), "--output", str(out)])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def read(report):
    return pd.read_parquet(report.path).to_dict("records")


def answers(report):
    return [row["reward_model"]["ground_truth"] for row in read(report)]


def ids(report):
    return [row["extra_info"]["id"] for row in read(report)]


def failure(source, out, name="aime24", **options):
    with pytest.raises(DataError) as caught:
        prepare(name, source=source, output=out, **options)
    assert not out.exists()
    return str(caught.value)


def test_all_formats_give_the_same_content(write, tmp_path):
    reports = {s: prepare("aime24", source=write(PLAIN, s), output=tmp_path / s[1:]) for s in WRITERS}
    assert len({report.sha256 for report in reports.values()}) == 1
    assert answers(reports[".csv"]) == ["0", "2", "4"] and reports[".csv"].path.name == "aime24.parquet"
    again = prepare("aime24", source=str(reports[".csv"].path), output=tmp_path / "again")
    assert again.sha256 == reports[".csv"].sha256  # what was written can be read, and keeps its ids
    replicas = prepare("aime24", source=write(PLAIN), output=tmp_path / "replicas", replicas=4)
    back = prepare("aime24", source=str(replicas.path), output=tmp_path / "deep" / "val.parquet")
    assert back.sha256 == again.sha256 and "duplicates  9 rows removed" in back.lines
    assert back.path == tmp_path / "deep" / "val.parquet" and len(read(back)) == 3


@pytest.mark.parametrize("suffix", WRITERS)
def test_cells_are_read_as_they_are_written(write, out, suffix):
    # What readers that guess types make a number, a time or nothing of; a column of both lists and texts.
    texts = ["1.50", "033", "2024-01-02", "NA", "null", "1e5", "123456789012345678901234", "a\u2028b \x85\U0001f600"]
    rows = [{"problem": text, "answer": text} for text in texts]
    report = prepare("hmmt25", source=write(rows, suffix), output=out)
    assert [row["prompt"][0]["content"] for row in read(report)] == [wrap(text, "dapo") for text in texts]
    assert answers(report) == [text.lstrip("0") for text in texts]


def test_cells_of_several_types_in_a_column(write, out):
    values = [123456789012345678901234, 9007199254740993, 0.5, "1.50", 33.0]
    rows = [{"id": i, "problem": f"{i}?", "answer": value} for i, value in enumerate(values)]
    rows += [
        {"id": 8.0, "problem": [{"role": "user", "content": "List?"}], "answer": "x"},
        {"problem": "B", "answer": 7},
    ]
    for suffix in (".jsonl", ".json"):
        report = prepare("hmmt25", source=write(rows, suffix), output=out)
        assert answers(report) == ["123456789012345678901234", "9007199254740993", "0.5", "1.50", "33", "x", "7"]
        assert ids(report)[4:] == ["hmmt25-4", "hmmt25-8", "hmmt25-6"]
    # A missing value elsewhere makes pandas turn a column of integers into floats.
    floats = [{"problem": "A?", "answer": 33.0}, {"problem": "B?", "answer": 7.0}]
    for suffix in (".parquet", ".csv"):
        assert answers(prepare("aime24", source=write(floats, suffix), output=out)) == ["33", "7"]


def test_usual_columns(write, out):
    headings = "problem answer, Problem Answer, QUESTION final_answer, question expected_answer, prompt solution"
    for heading in f"{headings}, problem ground_truth, prompt label".split(", "):
        problem, answer = heading.split()
        report = prepare("aime24", source=write([{"url": "u", answer: "42", problem: "A?"}]), output=out)
        assert answers(report) == ["42"] and report.lines[0].endswith(f"columns {problem}, {answer}")
    message = failure(write([{"Aufgabe": "A?", "answer": 1}]), out.parent / "none")
    assert "has no column that usually holds the problem (problem, question, prompt)" in message
    assert message.endswith("name --problem-column; its columns are Aufgabe, answer.")


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_named_columns_and_structs(write, out, suffix):
    rows = [{"problem": "no", "answer": "x", "text": {"en": "A?"}, "meta": {"gold": 42}, "Aufgabe": "B?"}]
    source = write(rows, suffix)
    nested = prepare("aime24", source=source, output=out, problem_column="text.en", answer_column="meta.gold")
    assert answers(nested) == ["42"] and read(nested)[0]["prompt"][0]["content"] == wrap("A?", "dapo")
    flat = prepare("aime24", source=source, output=out, problem_column="Aufgabe", answer_column="meta.gold")
    assert read(flat)[0]["prompt"][0]["content"] == wrap("B?", "dapo")
    assert failure(source, out.parent / "none", answer_column="gold").endswith(
        "has no column 'gold' (--answer-column): its columns are problem, answer, text, meta, Aufgabe."
    )
    missing = failure(source, out.parent / "none", answer_column="meta.gld")
    assert "row 1: meta.gld=None is missing: add the answer, or remove the row." in missing


def test_structs_that_the_first_row_lacks(write, out):
    published = {"prompt": "B?", "reward_model": {"ground_truth": "3"}, "extra_info": {"index": 4}}
    rows = [{"prompt": "A?", "reward_model": {"ground_truth": "2"}, "extra_info": None}, published]
    assert ids(prepare("dapo", source=write(rows), output=out)) == ["dapo-0", "dapo-4"]
    message = failure(write([{"prompt": "A?", "reward_model": None}, published]), out.parent / "none", "dapo")
    assert "row 1: reward_model.ground_truth=None is missing" in message


def test_gsm8k_and_dapo_as_published(write, out):
    gsm8k = [{"question": "A?", "answer": "So 5*216=1080.\n#### 1,080"}, {"question": "B?", "answer": "#### -3"}]
    report = prepare("gsm8k", source=write(gsm8k), output=out)
    assert answers(report) == ["1080", "-3"] and report.path.name == "gsm8k-train.parquet"
    text = wrap("A?", "dapo").replace("\n\n", "\n")  # a text of its own
    dapo = {
        "data_source": "other",
        "prompt": [{"content": text, "role": "user"}],
        "reward_model": {"ground_truth": "34", "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4"},
    }
    report = prepare("dapo", source=write([dapo] * 100, ".parquet"), output=out)
    assert report.lines[1:4] == (
        "rows read   100",
        "duplicates  99 rows removed",
        "conflicts   0 problems left out (rows disagree about the answer)",
    )
    (row,) = read(report)
    assert row["data_source"] == "math_dapo" and row["prompt"][0] == {"role": "user", "content": text}
    assert row["reward_model"] == {"style": "rule", "ground_truth": "34"} and row["extra_info"]["id"] == "9a9b6eb4"


def test_limit_counts_problems_and_a_short_set_is_warned_about(write, out):
    report = prepare("aime24", source=write([*PLAIN[:1], *PLAIN]), output=out, limit=2, replicas=2)
    assert answers(report) == ["0", "2", "0", "2"]
    assert not any(line.startswith("WARNING") for line in report.lines)
    lines = prepare("aime24", source=write(PLAIN), output=out).lines
    assert "WARNING     3 problems, where the published set has 30" in lines


def test_contradictions_are_left_out_and_shown_or_with_strict_an_error(write, out, cli):
    source = write([*PLAIN, PLAIN[1] | {"answer": "2.0"}, PLAIN[2] | {"answer": 5}])
    code, output, _ = cli("aime24", "--source", source)
    assert code == 0 and "conflicts   1 problem left out (rows disagree about the answer)" in output
    given = f"  What is 2+2, in words? Or digits: '4' ({source}, row 3, id p2), '5' ({source}, row 5, id p2)"
    assert given in output.splitlines()
    before = (out / "aime24.parquet").read_bytes()
    assert [row["id"] for row in pd.read_parquet(out / "aime24.parquet")["extra_info"]] == ["p0", "p1"]
    code, output, error = cli("aime24", "--source", source, "--strict")
    assert (code, output) == (1, "") and "1 problem whose rows disagree about the answer (--strict):" in error
    assert given in error.splitlines() and (out / "aime24.parquet").read_bytes() == before


def test_the_command_reports_and_shows_progress(write, cli, out):
    code, output, error = cli("aime24", "--source", write(PLAIN, ".parquet"), "--replicas", 32)
    lines = output.splitlines()
    assert code == 0 and "Reading aime24" in error
    assert "written     3 problems x 32 = 96 rows, data_source aime24" in lines
    report = prepare("aime24", source=write(PLAIN), replicas=32, output=out)
    assert lines[-1] == f"sha256 {report.sha256}  96 rows  {out / 'aime24.parquet'}"
    assert [path.name for path in out.iterdir()] == ["aime24.parquet"]


def test_row_errors_name_row_id_column_value_and_fix_and_nothing_is_written(write, out, cli):
    bad = [
        {"id": "a", "problem": "A?", "answer": "twelve"},
        {"id": "b", "problem": " ", "answer": "12"},
        {"id": "c", "problem": "C?", "answer": None},
        {"id": "d", "problem": "D?"},
        {"id": "e", "problem": "E?", "answer": "12"},
        {"id": "f", "problem": "x\ud83dy", "answer": "12"},
    ]
    source = write(bad)
    out.mkdir()
    (out / "aime24.parquet").write_bytes(b"as it was")
    code, output, error = cli("aime24", "--source", source)
    assert (code, output) == (1, "") and error[error.index("5 rows") :].splitlines() == [
        "5 rows cannot be used; nothing was written.",
        f"  {source}, row 1, id a: answer='twelve' is no integer from 0 to 999, as AIME's are: correct the row.",
        f"  {source}, row 2, id b: problem=' ' is empty: add the problem, or remove the row.",
        f"  {source}, row 3, id c: answer=None is missing: add the answer, or remove the row.",
        f"  {source}, row 4, id d: answer=None is missing: add the answer, or remove the row.",
        f"  {source}, row 6, id f: problem='x\\ud83dy' has half of a surrogate pair: write it whole, or remove it.",
    ]
    assert [(path.name, path.read_bytes()) for path in out.iterdir()] == [("aime24.parquet", b"as it was")]


def test_twenty_errors_are_shown_and_all_counted(write, out):
    lines = failure(write([{"problem": f"{i}?", "answer": "x"} for i in range(33)]), out).splitlines()
    assert lines[0].startswith("33 rows") and len(lines) == 22 and lines[-1] == "  ... and 13 more."


def test_an_answer_that_verl_cannot_read_is_an_error(write, out):
    message = failure(write([{"problem": "A?", "answer": "x+" * 200}]), out, "hmmt25")
    assert "row 1: ground truth='x+x+" in message and "not accepted by verl's reward" in message


DAMAGED = {
    "broken.jsonl": (b'{"problem": "A?", "answer": 1}\n{"problem": "B?"\n[1]\n', ["row 2: b'{", "row 3: b'[1]"]),
    "first.jsonl": (b"problem\n\n", ["1 row cannot be used", "row 1: b'problem\\n' is no JSON"]),
    "empty.jsonl": (b"\n\n", ["holds no rows"]),
    "broken.json": (b"[{]", ["cannot be read as json"]),
    "header.csv": (b"problem,answer\n", ["holds no rows"]),
    "wide.csv": (b"problem,answer\nA?,1\nB, C?,2\n", ["row 2: {", "is longer than the header: quote commas"]),
    "short.csv": (b"problem,answer\nA?,1\nB?\n", ["row 2: answer=None is missing"]),
    "twice.csv": (b"problem,answer,answer\nA?,1,2\n", ["has two columns 'answer'"]),
    "latin.csv": (b"problem,answer\nCaf\xe9?,1\n", ["cannot be read as csv: 'utf-8' codec"]),
    "open.csv": (b'problem,answer\nA?,"1\n', ["cannot be read as csv"]),
    "broken.parquet": (b"PAR1 no", ["cannot be read as parquet"]),
    "notes.txt": (b"problem", ["is of no kind that can be read: give one of .parquet, .jsonl, .json, .csv."]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(tmp_path, out, name):
    content, expected = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    message = failure(str(tmp_path / name), out)
    for part in (str(tmp_path / name), *expected):
        assert part in message


def test_a_directory_is_laid_out_as_a_repository(tmp_path, out):
    root = tmp_path / "copy"
    root.mkdir()
    for split, answer in (("train", 1), ("test", 2)):
        pd.DataFrame([{"problem": f"{split}?", "answer": answer}]).to_parquet(root / f"{split}-00000-of-00001.parquet")
    assert answers(prepare("gsm8k", source=str(root), output=out)) == ["1"]
    test = prepare("gsm8k", source=str(root), split="test", output=out)
    assert answers(test) == ["2"] and read(test)[0]["extra_info"]["split"] == "test"
    message = failure(str(root), tmp_path / "none", split="dev")
    assert message == f"{root} has no split 'dev': use one of train, test."


USAGE = [
    (
        "aime27",
        "'aime27' is no known benchmark: use one of dapo, aime24, aime25, aime26, hmmt25, gsm8k (nearest: aime26).",
    ),
    ("gsm8k --instruction boxed", "--instruction 'boxed' is unknown: use one of dapo, gsm8k."),
    ("aime24 --instruction gsm8k", "--instruction gsm8k is for gsm8k alone: leave it out for aime24."),
    ("dapo --source nothing.jsonl", "nothing.jsonl is no file, no directory and no repository owner/name"),
    ("dapo --source ./not/there", "./not/there is no file"),
    (f"dapo --source {__file__} --config x", f"--config x does not go with the single file {__file__}"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_wrong_use_is_one_line(cli, out, arguments, message):
    code, output, error = cli(*arguments.split())
    assert (code, output) == (1, "") and error.startswith(message) and len(error.splitlines()) == 1
    assert not out.exists()


def test_an_output_that_cannot_be_written(write, tmp_path, cli):
    (tmp_path / "out").write_text("a file")
    code, _, error = cli("aime24", "--source", write(PLAIN))
    assert code == 1 and "cannot be written" in error and "Choose another --output." in error


def test_the_command_line_starts_without_anything_heavy():
    heavy = "{'torch', 'verl', 'ray', 'pandas', 'pyarrow', 'datasets', 'huggingface_hub', 'jinja2'}"
    code = f"import sys, subgroup_offset.cli; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
