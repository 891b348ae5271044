"""Draw the pictures of docs/plots.md by running the code of that page: `python docs/images/make.py`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).resolve().parent


def main() -> None:
    mpl.use("Agg")
    page = (HERE.parent / "plots.md").read_text(encoding="utf-8")
    os.chdir(HERE)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(block, names)
    for picture in sorted(HERE.glob("*.png")):
        print(f"{picture.name}  {picture.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
