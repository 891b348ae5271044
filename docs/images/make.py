"""Draw the pictures of pages by running the code on them: `python docs/images/make.py [PAGE ...]`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).resolve().parent


def main() -> None:
    mpl.use("Agg")
    os.chdir(HERE)
    for name in sys.argv[1:] or ("plots.md", "choosing.md", "explain.md"):
        page = (HERE.parent / name).read_text(encoding="utf-8")
        names: dict[str, object] = {}
        for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
            exec(block, names)
    for picture in sorted(HERE.glob("*.png")):
        print(f"{picture.name}  {picture.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
