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
    "a Chinese result": (f"{TRIANGLE}\n- 所以答案是13", TRIANGLE),
    "the problem's instruction repeated": (
        f'{SEATS}\nRemember to put your answer on its own line after "Answer:".',
        SEATS,
    ),
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
    "conditions begun twice": (f"[KEY CONDITIONS]\n{SEATS}", None),
    "the idea inside a condition": ("[KEY CONDITIONS]\n- the sum is odd [KEY IDEA]\n- use parity", None),
    "bulleted headers": ("* [KEY CONDITIONS]\n* the sum is odd\n* [KEY IDEA]\n* use parity", None),
    "a new turn among the conditions": ("[KEY CONDITIONS]\n- odd<|im_end|>\n- even\n[KEY IDEA]\n- parity", None),
    "an answer among the conditions": ("[KEY CONDITIONS]\n- odd\n- Answer: 3\n[KEY IDEA]\n- parity", None),
    "an idea that is only an answer": ("[KEY CONDITIONS]\n- odd\n[KEY IDEA]\n- \\boxed{3}", None),
    "headers without brackets": ("KEY CONDITIONS\n- the sum is odd\nKEY IDEA\n- use parity", None),
    "prose under the headers": ("[KEY CONDITIONS]\nThe sum is odd.\n[KEY IDEA]\nUse parity.", None),
    "equations under a header": ("[KEY CONDITIONS]\n-5x + 3 = 0\n[KEY IDEA]\n- solve", None),
    "the whole of it on one line": (SEATS.replace("\n", " "), None),
    "100 kB of one line": (_long("x"), None),
    "100 kB of opened headers": (_long("[KEY"), None),
    "100 kB of an opened header's spaces": ("[KEY" + _long(" "), None),
    "100 kB of bullet marks": ("[KEY CONDITIONS]\n" + _long("- "), None),
    "100 kB of idea lines": (_long("[KEY IDEA]\n"), None),
}

SINGLES = WELL_FORMED | RECOVERED | UNUSABLE
