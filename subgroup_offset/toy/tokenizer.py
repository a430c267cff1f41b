"""A byte-level tokenizer in which every word of the world and every integer 0..200 is one token."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from .previews import CHATTER
from .problems import MAX_NUMBER, WORDINGS
from .strategies import CONDITIONS_HEADER, IDEA_HEADER, PAIR_MARKER, STRATEGIES
from .templates import EXECUTION_TEMPLATE, PAIRED_TEMPLATE, STRATEGY_TEMPLATE

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VOCABULARY_MULTIPLE = 64  # Matrix kernels like round sizes; unused special tokens fill up.

# Pieces: a section header or the marker of pairs, a bullet's start, a run of digits, a word with the space and the
# colon around it, a run of anything else, a single white space.
PIECES = r" ?\[[A-Z]+ [A-Z]+\]|\n- |\d+| ?\p{L}+:?| ?[^\s\p{L}\d]+|\s"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def world_texts() -> list[str]:
    """Texts in which each piece of the world's language occurs, in a fixed order."""
    chat = ["system\n", "user\n", "assistant\n"]
    sections = [
        f"{header}\n- {variant}"
        for strategy in STRATEGIES
        for header, bullets in ((CONDITIONS_HEADER, strategy.conditions), (IDEA_HEADER, strategy.idea))
        for bullet in bullets
        for variant in bullet
    ]
    solutions = [f"Method: {strategy.name}\n7 x 8 = 56\nAnswer: 56" for strategy in STRATEGIES]
    templates = [
        t.replace("{{ problem }}", "").replace("{{ preview }}", "").replace("{{ marker }}", PAIR_MARKER)
        for t in (STRATEGY_TEMPLATE, PAIRED_TEMPLATE, EXECUTION_TEMPLATE)
    ]
    questions = [wording.format(a=7, b=8) for wording in WORDINGS]
    return [*chat, *questions, *templates, CHATTER, PAIR_MARKER, *sections, *solutions]


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _vocabulary() -> list[str]:
    """Bytes, numbers, then the pieces of the world's texts, without repeats."""
    split = _pre_tokenizer().pre_tokenize_str
    pieces = [piece for text in world_texts() for piece, _ in split(text)]
    numbers = [str(n) for n in range(MAX_NUMBER + 1)]
    return list(dict.fromkeys([*sorted(pre_tokenizers.ByteLevel.alphabet()), *numbers, *pieces]))


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer with its chat template; decode(encode(x)) == x for any text.

    It is a BPE model without merges: a piece that is a vocabulary entry is one token (ignore_merges), any other
    falls back to its bytes. The world's language is closed, so learning merges would only add unused entries.
    """
    words = _vocabulary()
    specials = [PAD, START, END]
    unused = -(len(words) + len(specials)) % VOCABULARY_MULTIPLE
    specials += [f"<|unused_{i}|>" for i in range(unused)]
    model = models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[], ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = _pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in specials])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
