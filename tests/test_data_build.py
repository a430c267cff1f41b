"""From rows to problems to rows: duplicates, contradictions, ids, replicas."""

from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.data.build import SourceProblem, collect, normalised, verl_rows
from subgroup_offset.data.prepare import content_sha256
from subgroup_offset.data.prompts import unwrap, wrap
from subgroup_offset.data.read import Columns, Row
from subgroup_offset.data.sources import BENCHMARKS

COLUMNS = Columns("problem", "answer", ("id",))


def collected(rows, name="dapo", split="train", instruction="dapo"):
    errors = []
    numbered = (Row(f"row {i}", id_, problem, answer, COLUMNS) for i, (problem, answer, id_) in enumerate(rows))
    result = collect(numbered, BENCHMARKS[name], split, instruction, errors)
    assert not errors and result.rows == len(rows)
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
    result = collected([(copy(which, number), answer, None) for number, which, answer in rows])
    firsts = {}  # number of the problem -> each answer with the row that gave it first
    for i, (number, _, answer) in enumerate(rows):
        firsts.setdefault(number, {}).setdefault(str(int(answer)), f"row {i}")
    kept = [number for number, given in firsts.items() if len(given) == 1]  # in the order of first occurrence
    assert [normalised(unwrap(problem.prompt)[0]) for problem in result.problems] == [
        f"Café problem {number} of x^2" for number in kept
    ]
    assert [(problem.answer, problem.where) for problem in result.problems] == [
        pair for number in kept for pair in firsts[number].items()
    ]
    assert result.duplicates == len(rows) - len(firsts)
    assert {int(problem.split()[2]): given for problem, given in result.conflicts.items()} == {
        number: given for number, given in firsts.items() if len(given) > 1
    }


@given(ROWS, st.randoms(use_true_random=False))
def test_repeating_the_whole_source_removes_the_repeats_only(rows, random):
    source = [(copy(which, number), answer, None) for number, which, answer in rows]
    repeats = source * 2
    random.shuffle(repeats)
    once, more = collected(source), collected(source + repeats)
    assert (once.problems, once.conflicts, once.notes) == (more.problems, more.conflicts, more.notes)
    assert more.duplicates == once.duplicates + 2 * len(rows)


def test_what_tells_problems_apart_is_kept():
    texts = ["What is x²?", "What is x2?", "what is x2?", "What is x2", "What is x 2?"]
    result = collected([(text, i, None) for i, text in enumerate(texts)])
    assert [unwrap(problem.prompt)[0] for problem in result.problems] == texts and not result.conflicts


def test_a_wrapped_prompt_keeps_its_text_and_any_other_is_wrapped_once():
    published = wrap("What is 1+1?", "dapo").replace("\n\n", "\n") + "\n"
    gsm8k = wrap("What is 2+2?", "gsm8k")
    rows = [([{"role": "user", "content": published}], 2, None), (gsm8k, 4, None)]
    result, other = collected(rows), collected(rows, "gsm8k", instruction="gsm8k")
    assert [p.prompt for p in result.problems] == [published, wrap("What is 2+2?", "dapo")]
    assert [p.prompt for p in other.problems] == [wrap("What is 1+1?", "gsm8k"), gsm8k]
    assert result.notes == other.notes == ["prompts     1 had other instructions, which were replaced"]


def test_answers_in_another_form_are_counted():
    notes = collected([("A?", "x", None), ("B?", "033", None), ("C?", 7.0, None)]).notes
    assert notes == ["answers     2 written in plain form, first row 1: '033' -> '33'"]


def test_ids():
    def ids(*given, name="aime24", split="test"):
        result = collected([(f"{i}?", i, id_) for i, id_ in enumerate(given)], name, split)
        return [problem.id for problem in result.problems], result.notes

    assert ids(None, None) == (["aime24-0", "aime24-1"], [])
    assert ids(None, name="gsm8k") == (["gsm8k-test-0"], [])
    assert ids("7", "II-4", None) == (["aime24-7", "II-4", "aime24-2"], [])
    # Two halves of a competition, each counted from 1: the ids name nothing.
    names, notes = ids("1", "2", "1")
    assert names == ["aime24-0", "aime24-1", "aime24-2"] and "numbered instead" in notes[0]


PROBLEMS = st.lists(st.tuples(st.text(), st.text()), max_size=6).map(
    lambda pairs: [SourceProblem(f"p-{i}", prompt, answer, "") for i, (prompt, answer) in enumerate(pairs)]
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
    rows = verl_rows([SourceProblem("p", "Was ist 1+1? ∑", "2", "")], "aime24", "aime24", "test")
    assert content_sha256(rows) == "40abc1736f896e81fb2775eab3e8d97fee08a78aa7ceecc840e9c793099bc7ad"
    assert content_sha256([dict(reversed(row.items())) for row in rows]) == content_sha256(rows)
    assert content_sha256(rows * 2) != content_sha256(rows)
    assert content_sha256([rows[0] | {"ability": "maths"}]) != content_sha256(rows)
