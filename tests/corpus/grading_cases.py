"""Responses of our own writing with a known verdict, of each kind that ``scripts/measure_grading.py`` is fed.

A line is ``kind, verdict: response | reference``.
"""

CASES = r"""box, right: so we get $\boxed{12}$ (from $n=1$ to $50$) | 12
box, right: Answer: 11\n\nNo, I forgot one. So $\boxed{12}$. | 12
box, wrong: Answer: 12\n\nNo, I forgot one. So $\boxed{13}$. | 12
box, right: The roots are $\boxed{2}$ and $\boxed{-7}$. | -7, 2
box, wrong: It is $\boxed{2}$ or $\boxed{-7}$. | -7
box, wrong: Answer: $\boxed{2}$ or $7$ | 2
box, wrong: Answer: not $\boxed{2}$ | 2
line, right: **Answer**:\n\begin{align*}\na &= 3\cdot 4 \\\n &= 12\n\end{align*}\nDone. | 12
line, right: Answer:\n\begin{gather}\na = 3, \\ b = 5\n\end{gather} | 3, 5
line, right: Answer: $k = 12$. This is what was asked. | 12
line, wrong: Answer: 12. Wait, 13 is possible as well. | 12
spelling, right: Answer: $7,\!250$ | 7250
spelling, right: Answer: $7\,250\,000$ | 7{,}250{,}000
spelling, right: Answer: 7.25e3 | 7250
spelling, right: Answer: 3^(4) | 81
spelling, right: Answer: (x+1)^(n+2) | (x+1)^{n+2}
spelling, right: Answer: 7√3⁄2 | \frac{7\sqrt3}{2}
spelling, right: Answer: log₃ 81 | 4
spelling, right: Answer: $\textcolor{red}{\mathbf{12}}$ | 12
spelling, right: Answer: $\bf 12$ ✅ | 12
spelling, wrong: Answer: 3 million | 3
spelling, right: Answer: 1101_2 | 1101_{2}
spelling, wrong: Answer: 1101_2 | 1101_{4}
spelling, right: Answer: 面积是 $12$平方米 | 12
units, right: Answer: 12 m/s | 12
units, right: Answer: $12\,\mathrm{kg}\cdot\mathrm{m}^2$ | 12
units, right: Answer: $12\ \text{square feet}$ | 12
units, right: Answer: 12 dollars per ticket | 12
units, right: Answer: 12 h | 12
units, wrong: Answer: 12 h 30 min | 12
units, wrong: Answer: 12 | 12m
words, right: Answer: Hence exactly 12 | 12
words, right: Answer: 12, since $3\cdot4=12$ | 12
words, wrong: Answer: at most 12 | 12
words, wrong: Answer: twice 12 | 12
words, wrong: Answer: ~12 | 12
words, wrong: Answer: 12 out of 20 | 12
words, wrong: Answer: south | north
letters, wrong: Answer: $b$ | B
letters, wrong: Answer: $PQR$ | PRQ
letters, wrong: Answer: $G_{7}$ | G_{8}
letters, wrong: Answer: $g'(x)$ | g(x)
letters, wrong: Answer: $g(3)<g(1)<g(2)$ | g(1)<g(2)<g(3)
letters, right: Answer: $\sqrt{-4}$ | 2i
small, wrong: Answer: $(2-\sqrt3)^{100}$ | (2-\sqrt3)^{99}
small, right: Answer: $(2-\sqrt3)^{100}$ | (2+\sqrt3)^{-100}
small, wrong: Answer: $\frac{1}{300!}$ | \frac{1}{301!}
small, wrong: Answer: $3^{900}\sqrt2$ | (3^{900}-1)\sqrt2
small, wrong: Answer: $2^n$ | 2^n+10^{-40}
sets, right: Answer: $x<-1$ or $x>4$ | (-\infty,-1)\cup(4,\infty)
sets, right: Answer: $\mathbb{R}\setminus[-1,4]$ | (-\infty,-1)\cup(4,\infty)
sets, wrong: Answer: $x>4$ | (-\infty,-1)\cup(4,\infty)
sets, right: Answer: $y=2x-5$ | 4x-2y=10
sets, wrong: Answer: $y=2x-5$ | 4x-2y=11
"""
