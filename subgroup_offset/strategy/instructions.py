"""Tell a problem apart from the answer-format instructions that datasets wrap around it."""

from __future__ import annotations

# Verbatim from the datasets that verl's recipes and its preprocessing scripts use.
PREFIXES = (
    # DAPO-Math-17K and the AIME sets in its format
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.",
    "Please reason step by step, and put your final answer within \\boxed{}.",
)
SUFFIXES = (
    'Remember to put your answer on its own line after "Answer:".',  # DAPO-Math-17K
    'Let\'s think step by step and output the final answer after "####".',  # GSM8K
    "Let's think step by step and output the final answer within \\boxed{}.",  # MATH
    "Please reason step by step, and put your final answer within \\boxed{}.",  # Qwen's recommendation
    "Please put your final answer within \\boxed{}.",
)


def split_instructions(text: str) -> tuple[str, str, str]:
    """Split a prompt into what stands before the problem, the problem, and what stands after it.

    Only instructions known word for word, at the very beginning or end, are recognised; any other text is a problem
    as a whole, and so is one that holds nothing but instructions. The three parts joined give ``text`` again.

    Returns:
        ``(prefix, problem, suffix)``; the spaces and line breaks between them belong to prefix and suffix.
    """
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    start += next((len(p) for p in PREFIXES if text.startswith(p, start)), 0)
    end -= next((len(s) for s in SUFFIXES if text.endswith(s, start, end)), 0)
    problem = text[start:end].strip()
    if not problem or len(problem) == len(text.strip()):
        return "", text, ""
    start = text.index(problem, start)
    end = start + len(problem)
    return text[:start], problem, text[end:]


def only_instructions(text: str) -> bool:
    """Whether a text, such as a system turn, is one known instruction and nothing else."""
    return text.strip() in PREFIXES or text.strip() in SUFFIXES
