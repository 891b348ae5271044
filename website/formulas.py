r"""Formulas of the pages, written between dollar signs as in TeX, become MathML, which browsers set by themselves.

What is known is what our pages use: letters, numbers, `\frac`, `\sqrt`, `\text`, `^`, `_`, braces and the names below.
Anything else is an error, so that no page shows a formula that was not understood.
"""

from __future__ import annotations

import re
from html import escape

GREEK = "alpha beta gamma delta epsilon lambda mu nu pi rho sigma tau phi chi omega Delta Phi Sigma ell"
LETTERS = {each: f"&{each};" for each in GREEK.split()} | {"infty": "&infin;"}
SAME = "le ge ne approx in notin times cup cap setminus subset pm ll mid lfloor rfloor sum int prod"
SIGNS = {each: f"&{each};" for each in SAME.split()}
SIGNS |= {"to": "&rarr;", "cdot": "&sdot;", "dots": "&hellip;", "|": "&Vert;", "{": "{", "}": "}"}
TYPED = {"'": "&prime;", "-": "&minus;"}
FENCES = {*"()[]|{}", "&Vert;", "&lfloor;", "&rfloor;"}
LARGE = {"&sum;", "&prod;"}
NAMES = {"max", "min", "sup", "inf", "log", "ln", "exp"}
BELOW = {"sum", "prod", "max", "min", "sup", "inf"}
TAGS = {"text": "mtext", "number": "mn"}
SPACES = {"quad": "1em", "qquad": "2em", ",": "0.17em", ";": "0.28em", " ": "0.28em"}
TOKEN = re.compile(r"\\text\{(?P<text>[^}]*)\}|\\(?P<name>[A-Za-z]+|.)|(?P<number>\d+(?:\.\d+)?)|(?P<sign>\S)")
CODE = re.compile(r"(```.*?\n```|^(?: {4}|\t)[^\n]*$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
DISPLAY = re.compile(r"^\$\$(.+?)\$\$$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$\w])\$(?![\s$])([^$\n]*[^$\s\\])\$(?![\w$])")


def typeset(page: str) -> str:
    """A page of Markdown with MathML in place of its formulas; code stays as it is.

    >>> typeset("Let $n_p$ cost `$n$`.")
    'Let <span class="formula"><math><msub><mi>n</mi><mi>p</mi></msub></math></span> cost `$n$`.'
    """
    parts = CODE.split(page)
    for i in range(0, len(parts), 2):
        text = DISPLAY.sub(lambda found: _math(found[1], block=True), parts[i])
        parts[i] = INLINE.sub(lambda found: _math(found[1], block=False), text)
    return "".join(parts)


def _math(source: str, *, block: bool) -> str:
    inside = _Formula(" ".join(source.split()), block=block).row()
    if block:
        return f'<div class="formula"><math display="block">{inside}</math></div>'
    return f'<span class="formula"><math>{inside}</math></span>'


class _Formula:
    """One formula, read from left to right."""

    def __init__(self, source: str, *, block: bool) -> None:
        self._source, self._block = source, block
        self._before = self._last = ""  # the two tokens that were taken last
        self._tokens = [(str(m.lastgroup), m[m.lastgroup or 0]) for m in TOKEN.finditer(source)]

    def row(self, end: tuple[str, str] | None = None) -> str:
        """All that comes before a token, which is taken too, or before the end."""
        found: list[str] = []
        while self._tokens and self._tokens[0] not in {("sign", "}"), ("name", "right")}:
            found.append(self._with_scripts())
        if (self._next() if end else self._tokens) != (end or []):
            raise ValueError(f"${self._source}$: a part is opened and not closed, or closed and not opened")
        return "".join(found)

    def _typed(self, sign: str) -> str:
        """A sign as it is typed; a minus at the beginning, or after an opening or a comma, belongs to what follows."""
        if sign != "-" or self._before not in {"", "(", "[", "{", ",", "left"}:
            return _sign(TYPED.get(sign) or escape(sign))
        return '<mo form="prefix">&minus;</mo>'

    def _next(self) -> tuple[str, str]:
        if not self._tokens:
            raise ValueError(f"${self._source}$: ends too early")
        self._before, self._last = self._last, self._tokens[0][1]
        return self._tokens.pop(0)

    def _with_scripts(self) -> str:
        below = self._block and self._tokens[0][1] in BELOW
        base, scripts = self._atom(), {"_": "", "^": ""}
        while self._tokens and self._tokens[0] in {("sign", "^"), ("sign", "_")}:
            sign = self._next()[1]
            if scripts[sign]:
                raise ValueError(f"${self._source}$: {sign} twice")
            scripts[sign] = self._atom()
        words = {"_": "under", "^": "over"} if below else {"_": "sub", "^": "sup"}
        kind = "".join(words[sign] for sign, found in scripts.items() if found)
        return f"<m{kind}>{base}{''.join(scripts.values())}</m{kind}>" if kind else base

    def _atom(self) -> str:
        kind, found = self._next()
        if kind in TAGS:
            return f"<{TAGS[kind]}>{escape(found).replace(' ', '&nbsp;')}</{TAGS[kind]}>"
        if kind == "sign":
            if found == "{":
                return f"<mrow>{self.row(('sign', '}'))}</mrow>"
            return f"<mi>{found}</mi>" if found.isalpha() else self._typed(found)
        if found == "left":
            opened, inside = self._next()[1], self.row(("name", "right"))
            fences = [f"<mo>{SIGNS.get(each, each)}</mo>" for each in (opened, self._next()[1])]
            return f"<mrow>{fences[0]}{inside}{fences[1]}</mrow>"
        if found == "frac":
            return f"<mfrac>{self._atom()}{self._atom()}</mfrac>"
        if found == "sqrt":
            return f"<msqrt>{self._atom()}</msqrt>"
        if found in SPACES:
            return f'<mspace width="{SPACES[found]}"/>'
        if found in NAMES:
            return f'<mo lspace="0.17em" rspace="0.17em" movablelimits="false">{found}</mo>'
        if found in LETTERS:
            return f"<mi>{LETTERS[found]}</mi>"
        if found not in SIGNS:
            raise ValueError(rf"${self._source}$: \{found} is not known")
        return _sign(SIGNS[found])


def _sign(sign: str) -> str:
    plain = ' stretchy="false"' if sign in FENCES else ' movablelimits="false"' if sign in LARGE else ""
    return f"<mo{plain}>{sign}</mo>"
