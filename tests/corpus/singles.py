"""Raw generations that were asked for one preview: ``name: (raw text, its preview or None)``."""

SEATS = """\
[KEY CONDITIONS]
- all guests are distinct and sit around a round table
- two of them refuse to sit side by side
[KEY IDEA]
- count every seating first
- subtract those in which the two form one block"""

TRIANGLE = """\
[KEY CONDITIONS]
- the inscribed circle touches all three sides
- two tangent lengths are known
[KEY IDEA]
- use that tangents from one point are equally long
- recover the third side from the area in two ways"""

# A format as prompts show it, copied: no bullet has a word in it.
DOTS = "[KEY CONDITIONS]\n- ...\n- ...\n[KEY IDEA]\n- ...\n- ..."

# What must come out where only the first part of SEATS' idea is sound.
SEATS_CUT = SEATS.rpartition("\n")[0]


def _long(unit: str) -> str:
    return unit * (100_000 // len(unit))


WELL_FORMED = {
    "exactly as asked": (SEATS, SEATS),
    "final newlines": (f"{SEATS}\n\n\n", SEATS),
    "leading blank lines": (f"\n\n  \n{TRIANGLE}", TRIANGLE),
    "chatter before": (f"Sure! Here is a solution preview for the problem.\n\n{SEATS}", SEATS),
    "thinking before": (f"<think>\nOkay, two people must not be neighbours.\n</think>\n\n{SEATS}", SEATS),
    "thinking before, the header on the tag's line": (f"<think>\nHm.\n</think>{SEATS}", SEATS),
    "thinking before, then a space": (f"<think>Hm.</think> {SEATS}", SEATS),
    "thinking that the chat template began": (f"Hm, they must not be neighbours.\n</think>\n\n{SEATS}", SEATS),
    "a draft in the thought": (f"<think>\nSay\n{TRIANGLE}\nNo, better:\n</think>\n{SEATS}", SEATS),
    "a draft in a thought that the chat template began": (f"Say\n{TRIANGLE}\nNo.\n</think>\n{SEATS}", SEATS),
    "a thought that mentions its end": (f"<think>First </think>, then\n{TRIANGLE}\nDone.</think>\n{SEATS}", SEATS),
    "a thought that mentions its begin": (f"<think>A <think> tag is open.</think>\n{SEATS}", SEATS),
    "an empty thought": (f"<think>\n\n</think>\n\n{SEATS}", SEATS),
    "a thought in other tags": (f"<Thinking>\n{TRIANGLE}\n</Thinking>\n{SEATS}", SEATS),
    "a thought, named so": (f"<thought>{TRIANGLE}</thought>{SEATS}", SEATS),
    "reasoning in tags": (f"<reasoning>\n{TRIANGLE}\n</reasoning>\n{SEATS}", SEATS),
    "a thought in barred tags": (f"<|think|>\n{TRIANGLE}\n<|/think|>\n{SEATS}", SEATS),
    "Magistral's thought": (f"[THINK]{TRIANGLE}\n[/THINK]{SEATS}", SEATS),
    "OpenThinker's thought": (f"<|begin_of_thought|>\n{TRIANGLE}\n<|end_of_thought|>\n{SEATS}", SEATS),
    "Kimi's thought": (f"◁think▷{TRIANGLE}\n◁/think▷{SEATS}", SEATS),
    "Seed's thought": (f"<seed:think>\n{TRIANGLE}\n</seed:think>{SEATS}", SEATS),
    "two thoughts": (f"<think>a</think>\nSo:\n<think>\n{TRIANGLE}\n</think>\n{SEATS}", SEATS),
    "a format of dots before": (f"{DOTS}\n\nNow for the problem:\n\n{SEATS}", SEATS),
    "a format of dots right before": (f"{DOTS}\n{SEATS}", SEATS),
    "half a format before": (f"[KEY CONDITIONS]\n- ...\n\n{SEATS}", SEATS),
    "conditions begun twice": (f"[KEY CONDITIONS]\n{SEATS}", SEATS),
    "an answer instead of a preview before": (f"[KEY CONDITIONS]\n- odd\n- Answer: 3\nSorry.\n{SEATS}", SEATS),
    "prose under the headers before": (f"[KEY CONDITIONS]\nIt is odd.\n[KEY IDEA]\nUse parity.\n{SEATS}", SEATS),
    "a new assistant turn before": (f"{DOTS}<|im_end|>\n<|im_start|>assistant\n{SEATS}", SEATS),
    "the prompt repeated before": (f"<|im_start|>user\nPreview this.\nAssistant:\n{SEATS}", SEATS),
    "a code fence around it": (f"```\n{TRIANGLE}\n```", TRIANGLE),
    "a stray idea before": (f"[KEY IDEA]\n- guess\n{SEATS}", SEATS),
    "the header quoted before": (f"I will begin with [KEY CONDITIONS] as told.\n{SEATS}", SEATS),
    "a byte order mark": (f"\ufeff{SEATS}", SEATS),
    "Windows newlines": (SEATS.replace("\n", "\r\n"), SEATS),
    "old Mac newlines": (SEATS.replace("\n", "\r"), SEATS),
    "blank lines everywhere": (TRIANGLE.replace("\n", "\n\n"), TRIANGLE),
    "lines of spaces between": (TRIANGLE.replace("\n", "\n   \n"), TRIANGLE),
    "trailing spaces": (TRIANGLE.replace("\n", " \t\n"), TRIANGLE),
    "lower case headers": (SEATS.replace("KEY CONDITIONS", "key conditions").replace("KEY IDEA", "key idea"), SEATS),
    "singular and plural": (SEATS.replace("CONDITIONS", "CONDITION").replace("IDEA", "IDEAS"), SEATS),
    "spaces inside the brackets": (SEATS.replace("[KEY ", "[ Key   ").replace("]", " ]"), SEATS),
    "bold headers": (SEATS.replace("[KEY", "**[KEY").replace("]", "]**"), SEATS),
    "bold headers with a colon": (SEATS.replace("[KEY", "**[Key").replace("]", "]:**"), SEATS),
    "markdown heading headers": (SEATS.replace("[KEY", "### [KEY"), SEATS),
    "quoted headers": (SEATS.replace("[KEY", "> `[KEY").replace("]", "]`"), SEATS),
    "escaped brackets": (SEATS.replace("[KEY", "\\[KEY").replace("]", "\\]"), SEATS),
    "full-width brackets": (SEATS.replace("[", "【").replace("]", "】："), SEATS),
    "star bullets": (TRIANGLE.replace("\n- ", "\n* "), TRIANGLE),
    "dot bullets": (TRIANGLE.replace("\n- ", "\n• "), TRIANGLE),
    "dot bullets without a space": (TRIANGLE.replace("\n- ", "\n•"), TRIANGLE),
    "dash bullets of other lengths": (TRIANGLE.replace("\n- ", "\n – "), TRIANGLE),
    "numbered bullets": (
        "[KEY CONDITIONS]\n1. the digits are distinct\n2. the number is even\n[KEY IDEA]\n"
        "1) fix the last digit\n(2) count",
        "[KEY CONDITIONS]\n- the digits are distinct\n- the number is even\n[KEY IDEA]\n- fix the last digit\n- count",
    ),
    "nested bullets": (
        "[KEY CONDITIONS]\n- a recursion is given\n    - it is linear\n\t* it starts at one\n[KEY IDEA]\n"
        "- unroll it\n  - sum",
        "[KEY CONDITIONS]\n- a recursion is given\n- it is linear\n- it starts at one\n[KEY IDEA]\n- unroll it\n- sum",
    ),
    "an empty bullet among others": (SEATS.replace("\n[KEY IDEA]", "\n-\n- \n[KEY IDEA]"), SEATS),
    "bold words inside bullets": (
        "[KEY CONDITIONS]\n- **Given:** a convex polygon\n[KEY IDEA]\n- **triangulate** it from one vertex",
        "[KEY CONDITIONS]\n- **Given:** a convex polygon\n[KEY IDEA]\n- **triangulate** it from one vertex",
    ),
    "Chinese": (
        "好的，思路如下：\n【KEY CONDITIONS】\n1、数列是等差数列\n2、公差为正\n【KEY IDEA】\n"
        "• 用通项公式表示各项\n（2）比较系数\n\n解：设首项为 a",
        "[KEY CONDITIONS]\n- 数列是等差数列\n- 公差为正\n[KEY IDEA]\n- 用通项公式表示各项\n- 比较系数",
    ),
    "LaTeX in bullets": (
        "[KEY CONDITIONS]\n- \\(f\\) satisfies $f(x+y)=f(x)f(y)$ for all $x,y\\in\\mathbb{R}$\n"
        "- [0,1] maps into itself\n"
        "[KEY IDEA]\n- take $\\log$ to reach Cauchy's equation\n\n\\[ \\log f(x) = cx \\]",
        "[KEY CONDITIONS]\n- \\(f\\) satisfies $f(x+y)=f(x)f(y)$ for all $x,y\\in\\mathbb{R}$\n"
        "- [0,1] maps into itself\n"
        "[KEY IDEA]\n- take $\\log$ to reach Cauchy's equation",
    ),
    "absolute values beside inequality signs": (
        "[KEY CONDITIONS]\n- $a<|x|$ and $|x|>b$, so 0<|x|<c\n[KEY IDEA]\n- split into cases by the sign",
        "[KEY CONDITIONS]\n- $a<|x|$ and $|x|>b$, so 0<|x|<c\n[KEY IDEA]\n- split into cases by the sign",
    ),
    "words that look like roles": (
        "[KEY CONDITIONS]\n- the equations form a (linear) system\n- one assistant helps each user\n[KEY IDEA]\n"
        "- solve the system: eliminate first\n- describe the answer by a system",
        "[KEY CONDITIONS]\n- the equations form a (linear) system\n- one assistant helps each user\n[KEY IDEA]\n"
        "- solve the system: eliminate first\n- describe the answer by a system",
    ),
    "roles that are only mentioned": (
        "[KEY CONDITIONS]\n- each user: two tickets, one human: none\n- (any) user: at most five\n[KEY IDEA]\n"
        "- for every assistant: count what is left\n- pair each system: the two users with each user",
        "[KEY CONDITIONS]\n- each user: two tickets, one human: none\n- (any) user: at most five\n[KEY IDEA]\n"
        "- for every assistant: count what is left\n- pair each system: the two users with each user",
    ),
    "where the answer belongs": (
        "[KEY CONDITIONS]\n- the result goes into \\boxed{}\n- put it after ####\n- end with a line 'Answer:'\n"
        '- write "#### " and the number\n- $\\boxed{ }$ is left for the answer\n[KEY IDEA]\n- solve for it\n'
        "- fill \\boxed{...} and \\boxed{\\ldots} and \\boxed{your answer} and \\fbox{\\text{answer}}",
        "[KEY CONDITIONS]\n- the result goes into \\boxed{}\n- put it after ####\n- end with a line 'Answer:'\n"
        '- write "#### " and the number\n- $\\boxed{ }$ is left for the answer\n[KEY IDEA]\n- solve for it\n'
        "- fill \\boxed{...} and \\boxed{\\ldots} and \\boxed{your answer} and \\fbox{\\text{answer}}",
    ),
    "how large the answer is": (
        "[KEY CONDITIONS]\n- the answer is 3 digits long\n- the answer is 2-digit\n[KEY IDEA]\n"
        "- the answer is 4 times the area of one piece",
        "[KEY CONDITIONS]\n- the answer is 3 digits long\n- the answer is 2-digit\n[KEY IDEA]\n"
        "- the answer is 4 times the area of one piece",
    ),
    "an answer that is only described": (
        "[KEY CONDITIONS]\n- the answer is asked as a reduced fraction\n[KEY IDEA]\n- count both cases",
        "[KEY CONDITIONS]\n- the answer is asked as a reduced fraction\n[KEY IDEA]\n- count both cases",
    ),
}

RECOVERED = {
    "a second block": (f"{SEATS}\n\n{TRIANGLE}", SEATS),
    "the same block again and again": ("\n".join([TRIANGLE] * 50), TRIANGLE),
    "a second idea": (f"{SEATS}\n[KEY IDEA]\n- or use generating functions", SEATS),
    "a second block begun and cut off": (f"{SEATS}\n[KEY CONDIT", SEATS),
    "drift into solving": (f"{SEATS}\n\nLet us count. There are $(n-1)!$ seatings, so\n- 24 - 12 = 12", SEATS),
    "drift after a heading": (f"{SEATS}\n### Solution\n- place the first guest\n\\boxed{{12}}", SEATS),
    "an answer line after": (f"{TRIANGLE}\nAnswer: 13", TRIANGLE),
    "an answer as a bullet": (f"{TRIANGLE}\n- Answer: 13", TRIANGLE),
    "a bold final answer as a bullet": (f"{TRIANGLE}\n- **Final Answer:** thirteen\n- done", TRIANGLE),
    "a box inside a bullet": (f"{TRIANGLE}\n- hence the side is $\\boxed{{13}}$", TRIANGLE),
    "a result in a sentence": (f"{TRIANGLE}\n- So the answer is $13$.", TRIANGLE),
    "a GSM8K result": (f"{TRIANGLE}\n- adding up #### 13", TRIANGLE),
    "a GSM8K result alone": (f"{TRIANGLE}\n- #### -1,300", TRIANGLE),
    "a GSM8K result in dollars": (f"{TRIANGLE}\n- ####$13", TRIANGLE),
    "a GSM8K result that is no integer": (f"{TRIANGLE}\n- hence #### \\frac{{1}}{{3}}", TRIANGLE),
    "a box with a letter": (f"{TRIANGLE}\n- so \\boxed{{C}}", TRIANGLE),
    "a box without braces": (f"{TRIANGLE}\n- so \\boxed 5", TRIANGLE),
    "a box within a box that is empty": (f"{TRIANGLE}\n- put it in \\boxed{{}}: \\boxed{{13}}", TRIANGLE),
    "a box that the token limit cut off": (f"{TRIANGLE}\n- so \\boxed{{", TRIANGLE),
    "an answer of three digits": (f"{TRIANGLE}\n- the answer is 130", TRIANGLE),
    "an answer with its unit": (f"{TRIANGLE}\n- the answer = 13 cm", TRIANGLE),
    "a Chinese result": (f"{TRIANGLE}\n- 所以答案是13", TRIANGLE),
    "the problem's instruction repeated": (
        f'{SEATS}\nRemember to put your answer on its own line after "Answer:".',
        SEATS,
    ),
    "a thought after": (f"{SEATS}\n<think>\nWas that right?\n{TRIANGLE}\n</think>\nYes.", SEATS),
    "a thought that begins after": (f"{SEATS}\n<think>\nWas that right?", SEATS),
    "an empty thought after": (f"{SEATS}\n<think>\n\n</think>\n\n", SEATS),
    "a thought inside a bullet": (f"{SEATS}<think>x</think> and more\n- more", SEATS),
    "a thought between bullets": (f"{SEATS_CUT}\n<think>x</think>\n- more", SEATS_CUT),
    "a second block after dots and a first": (f"{DOTS}\n\n{SEATS}\n\n{TRIANGLE}", SEATS),
    "a horizontal rule and more": (f"{SEATS}\n---\n- more", SEATS),
    "an end token": (f"{SEATS}<|im_end|>", SEATS),
    "an end token and a new turn": (f"{SEATS}<|im_end|>\n<|im_start|>user\nNext problem", SEATS),
    "a half end token": (f"{SEATS}<|im_en", SEATS),
    "an end of text in the middle": (f"{SEATS}<|endoftext|>Human: hello\n- x", SEATS),
    "Llama's tokens": (f"{SEATS}<|eot_id|><|start_header_id|>assistant", SEATS),
    "Llama 2's tokens": (f"{SEATS} [/INST] Sure", SEATS),
    "Gemma's tokens": (f"{SEATS}<end_of_turn>\n<start_of_turn>user", SEATS),
    "DeepSeek's tokens": (f"{SEATS}<｜end▁of▁sentence｜>", SEATS),
    "a sentence token": (f"{SEATS}</s>", SEATS),
    "a thinking tag": (f"{SEATS}</think>\nNow", SEATS),
    "a role glued on": (f"{SEATS}assistant", SEATS),
    "a role glued on with a capital": (f"{SEATS}Human: another problem", SEATS),
    "a role after a full stop": (f"{SEATS}. user", f"{SEATS}."),
    "a role with a colon": (f"{SEATS}. Assistant: Let us begin", f"{SEATS}."),
    "roles one after another": (f"{SEATS}. user. assistant<|im_end|>", f"{SEATS}."),
    "a user after a full stop with a colon": (f"{SEATS}. user: and now?", f"{SEATS}."),
    "a user after a full stop and spaces": (f"{SEATS}.   user : and now?", f"{SEATS}."),
    "a user in bold after a full stop": (f"{SEATS}. **user**: and now?", f"{SEATS}."),
    "a user glued to a formula": (f"{SEATS} $x$user: and now?", f"{SEATS} $x$"),
    "a capital role in the middle": (f"{SEATS} Human: and now?", SEATS),
    "Vicuna's role": (f"{SEATS} ASSISTANT: Let us begin", SEATS),
    "an assistant glued on with a colon": (f"{SEATS}assistant: Let us begin", SEATS),
    "a user as a bullet": (f"{SEATS}\n- user: what about this?", SEATS),
    "a human as a bold bullet": (f"{SEATS}\n- **human:** what about this?", SEATS),
    "a role on its own line": (f"{SEATS}\nassistant\n{TRIANGLE}", SEATS),
    "a role as a bullet": (f"{SEATS}\n- assistant", SEATS),
    "a role after Chinese": (
        "[KEY CONDITIONS]\n- 点在圆上\n[KEY IDEA]\n- 利用对称性assistant",
        "[KEY CONDITIONS]\n- 点在圆上\n[KEY IDEA]\n- 利用对称性",
    ),
    "a header inside the last bullet": (f"{SEATS} **[KEY CONDITIONS]**\n- x", SEATS),
    "an idea header inside the last bullet": (f"{SEATS}[KEY IDEA] and so on", SEATS),
    "a bullet that is a header": (f"{SEATS_CUT}\n- [KEY CONDITIONS]\n- x\n[KEY IDEA]\n- y", SEATS_CUT),
    "a pair's marker": (f"{SEATS}\n[ANOTHER APPROACH]\n{TRIANGLE}", SEATS),
    "a pair's marker inside a bullet": (f"{SEATS} [ANOTHER APPROACH]\n{TRIANGLE}", SEATS),
    "cut off in a bullet by the token limit": (SEATS[:-10], SEATS[:-10].rstrip()),
    "100 kB of one line after": (f"{SEATS}\n{_long('so x = 1 and ')}", SEATS),
    "100 kB of spaces after": (f"{SEATS}{_long(' ')}x", f"{SEATS}{_long(' ')}x"),
    "100 kB of headers after": (f"{SEATS}\n{_long('[KEY CONDITIONS] ')}", SEATS),
}

UNUSABLE = {
    "nothing": ("", None),
    "only blank lines": (" \n\n\t\n", None),
    "a direct solution": ("We have $2+2=4$.\n\nAnswer: 4", None),
    "a refusal": ("I'm sorry, but I cannot help with that.", None),
    "only one section": (SEATS.partition("\n[KEY IDEA]")[0], None),
    "an empty idea": ("[KEY CONDITIONS]\n- the sum is odd\n[KEY IDEA]\n", None),
    "empty conditions": ("[KEY CONDITIONS]\n[KEY IDEA]\n- use parity", None),
    "bullets without a word": ("[KEY CONDITIONS]\n- ...\n- \n[KEY IDEA]\n- use parity", None),
    "sections the wrong way round": ("[KEY IDEA]\n- use parity\n[KEY CONDITIONS]\n- the sum is odd", None),
    "drift between the sections": ("[KEY CONDITIONS]\n- a is odd\nThen a = 2k+1.\n[KEY IDEA]\n- use parity", None),
    "a bullet broken over two lines": ("[KEY CONDITIONS]\n- a number\n  which is odd\n[KEY IDEA]\n- parity", None),
    "the idea inside a condition": ("[KEY CONDITIONS]\n- the sum is odd [KEY IDEA]\n- use parity", None),
    "bulleted headers": ("* [KEY CONDITIONS]\n* the sum is odd\n* [KEY IDEA]\n* use parity", None),
    "a new turn among the conditions": ("[KEY CONDITIONS]\n- odd<|im_end|>\n- even\n[KEY IDEA]\n- parity", None),
    "an answer among the conditions": ("[KEY CONDITIONS]\n- odd\n- Answer: 3\n[KEY IDEA]\n- parity", None),
    "an idea that is only an answer": ("[KEY CONDITIONS]\n- odd\n[KEY IDEA]\n- \\boxed{3}", None),
    "headers without brackets": ("KEY CONDITIONS\n- the sum is odd\nKEY IDEA\n- use parity", None),
    "prose under the headers": ("[KEY CONDITIONS]\nThe sum is odd.\n[KEY IDEA]\nUse parity.", None),
    "equations under a header": ("[KEY CONDITIONS]\n-5x + 3 = 0\n[KEY IDEA]\n- solve", None),
    "the whole of it on one line": (SEATS.replace("\n", " "), None),
    "a thought that never ends": (f"<think>\nThe format is\n{SEATS}", None),
    "a thought with a draft, and no answer": (f"<think>\n{SEATS}\n</think>\nI cannot tell.", None),
    "a second thought that never ends": (f"<think>x</think>\nSo\n<think>\n{SEATS}", None),
    "only a thought": ("<think>\nHm.\n</think>", None),
    "dots and nothing else": ("\n\n".join([DOTS] * 20), None),
    "another problem's turn after dots": (f"{DOTS}<|im_end|>\n<|im_start|>user\nNext\nassistant\n{SEATS}", None),
    "a user's turn in words after dots": (f"{DOTS}\n\nUser: Next problem\nAssistant:\n{SEATS}", None),
    "a role alone after dots": (f"{DOTS}\nhuman\nNext problem\n{SEATS}", None),
    "an instruction token after dots": (f"{DOTS}\n[INST] Next problem [/INST]\n{SEATS}", None),
    "100 kB of one line": (_long("x"), None),
    "100 kB of opened headers": (_long("[KEY"), None),
    "100 kB of an opened header's spaces": ("[KEY" + _long(" "), None),
    "100 kB of bullet marks": ("[KEY CONDITIONS]\n" + _long("- "), None),
    "100 kB of condition lines": (_long("[KEY CONDITIONS]\n"), None),
    "100 kB of opened thoughts": (_long("<think>") + SEATS, None),
    "100 kB of idea lines": (_long("[KEY IDEA]\n"), None),
}

SINGLES = WELL_FORMED | RECOVERED | UNUSABLE
