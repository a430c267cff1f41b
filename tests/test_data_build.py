"""From rows to problems to rows: duplicates, contradictions, ids, replicas."""

from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.data.build import Problem, collect, normalised
from subgroup_offset.data.columns import choose_columns
from subgroup_offset.data.errors import RowErrors
from subgroup_offset.data.files import Row
from subgroup_offset.data.prompts import unwrap, wrap
from subgroup_offset.data.sources import BENCHMARKS
from subgroup_offset.data.write import content_sha256, verl_rows

DAPO = BENCHMARKS["dapo"]


def collected(rows, benchmark=DAPO, split="train", instruction="dapo"):
    errors = RowErrors()
    columns = choose_columns("f", list(rows[0]) if rows else ["problem", "answer"])
    numbered = ((Row("f", number, row), columns) for number, row in enumerate(rows, start=1))
    result = collect(numbered, benchmark, split, instruction, errors)
    errors.raise_if_any()
    return result


# The same problem as copies of it differ: white space, and a composed character.
COPIES = [
    "Café problem {} of x^2",
    "  Cafe\u0301 problem  {} of\n x^2 ",
    "Café problem {} of\tx^2",
    [{"role": "user", "content": wrap("Café problem {} of x^2", "dapo")}],
    'Café problem {} of x^2 Let\'s think step by step and output the final answer after "####".',
]


def copy(which, number):
    text = COPIES[which]
    return text.format(number) if isinstance(text, str) else [text[0] | {"content": text[0]["content"].format(number)}]


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, len(COPIES) - 1), st.sampled_from(["1", 1.0, "01", "2"])))


@given(ROWS)
def test_duplicates_and_contradictions(rows):
    result = collected([{"problem": copy(which, number), "answer": answer} for number, which, answer in rows])
    given_answers = {}
    for number, _, answer in rows:
        given_answers.setdefault(number, set()).add(int(answer))
    kept = [number for number, found in given_answers.items() if len(found) == 1]  # in the order of first occurrence
    assert [normalised(unwrap(problem.prompt)[0]) for problem in result.problems] == [
        f"Café problem {number} of x^2" for number in kept
    ]
    assert [problem.answer for problem in result.problems] == [str(*given_answers[number]) for number in kept]
    assert result.rows == len(rows) and result.duplicates == len(rows) - len(given_answers)
    assert len(result.conflicts) == len(given_answers) - len(kept)
    for conflict in result.conflicts:
        number = int(conflict.problem.split()[2])
        assert set(map(int, conflict.answers)) == given_answers[number]
        for answer, where in conflict.answers.items():  # each where it was first given
            first = next(i for i, (n, _, a) in enumerate(rows) if (n, int(a)) == (number, int(answer)))
            assert where == f"f, row {first + 1}"


@given(ROWS, st.randoms(use_true_random=False))
def test_repeating_the_whole_source_removes_the_repeats_only(rows, random):
    source = [{"problem": copy(which, number), "answer": answer} for number, which, answer in rows]
    repeats = source * 2
    random.shuffle(repeats)
    once, more = collected(source), collected(source + repeats)
    assert once.problems == more.problems and once.conflicts == more.conflicts
    assert more.duplicates == once.duplicates + 2 * len(rows)


def test_what_tells_problems_apart_is_kept():
    texts = ["What is x²?", "What is x2?", "what is x2?", "What is x2", "What is x 2?"]
    result = collected([{"problem": text, "answer": i} for i, text in enumerate(texts)])
    assert [unwrap(problem.prompt)[0] for problem in result.problems] == texts and not result.conflicts


def test_a_wrapped_prompt_keeps_its_text_and_any_other_is_wrapped_once():
    published = wrap("What is 1+1?", "dapo").replace("\n\n", "\n") + "\n"
    gsm8k = wrap("What is 2+2?", "gsm8k")
    rows = [{"prompt": [{"role": "user", "content": published}], "answer": 2}, {"prompt": gsm8k, "answer": 4}]
    result = collected(rows)
    assert [p.prompt for p in result.problems] == [published, wrap("What is 2+2?", "dapo")]
    assert result.reworded == 1
    other = collected(rows, BENCHMARKS["gsm8k"], instruction="gsm8k")
    assert [p.prompt for p in other.problems] == [wrap("What is 1+1?", "gsm8k"), gsm8k] and other.reworded == 1


def ids(rows, name="aime24", split="test"):
    result = collected([{"problem": f"{i}?", "answer": i} | row for i, row in enumerate(rows)], BENCHMARKS[name], split)
    return [problem.id for problem in result.problems], result.ids_repeat


def test_ids():
    assert ids([{}, {}]) == (["aime24-0", "aime24-1"], False)
    assert ids([{}], "gsm8k", "test") == (["gsm8k-test-0"], False)
    assert ids([{"id": 7}, {"id": 8.0}, {"id": "9"}, {"id": " II-4 "}, {"id": None}]) == (
        ["aime24-7", "aime24-8", "aime24-9", "II-4", "aime24-4"],
        False,
    )
    assert ids([{"ID": "a"}, {"ID": "b"}]) == (["a", "b"], False)
    assert ids([{"extra_info": {"index": "uuid"}}, {"extra_info": None}]) == (["uuid", "aime24-1"], False)
    # Two halves of a competition, each counted from 1: the ids name nothing.
    assert ids([{"id": 1}, {"id": 2}, {"id": 1}]) == (["aime24-0", "aime24-1", "aime24-2"], True)


PROBLEMS = st.lists(st.tuples(st.text(), st.text()), max_size=6).map(
    lambda pairs: [Problem(f"p-{i}", prompt, answer, "") for i, (prompt, answer) in enumerate(pairs)]
)


@given(PROBLEMS, st.integers(1, 5))
def test_replicas_repeat_the_whole_set_in_order(problems, replicas):
    rows = verl_rows(problems, "aime24", "aime24", "test", replicas)
    assert [row["extra_info"]["index"] for row in rows] == list(range(len(problems) * replicas))
    once = verl_rows(problems, "aime24", "aime24", "test")
    for replica in range(replicas):
        part = rows[replica * len(problems) : (replica + 1) * len(problems)]
        assert {row["extra_info"]["replica"] for row in part} <= {replica}
        for row, first, problem in zip(part, once, problems, strict=True):
            assert row["extra_info"]["id"] == problem.id
            different = {"extra_info": first["extra_info"] | {"index": row["extra_info"]["index"], "replica": replica}}
            assert row == first | different


def test_the_checksum_is_of_content_and_order():
    # Written down once: it must not change between versions, for it is what two people compare.
    rows = verl_rows([Problem("p", "Was ist 1+1? ∑", "2", "")], "aime24", "aime24", "test")
    assert content_sha256(rows) == "40abc1736f896e81fb2775eab3e8d97fee08a78aa7ceecc840e9c793099bc7ad"
    assert content_sha256([dict(reversed(row.items())) for row in rows]) == content_sha256(rows)
    assert content_sha256(rows * 2) != content_sha256(rows)
    assert content_sha256([rows[0] | {"ability": "maths"}]) != content_sha256(rows)
