"""A page for each public name, from its docstring: signature, what it guarantees, an example, its members."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import pairwise

LISTED = re.compile(r"^- `(rangebound\.[\w.]+)`$", re.MULTILINE)
GROUP = re.compile(r"(?:^- `rangebound\.[\w.]+`\n+)+", re.MULTILINE)
PART = re.compile(r"^(Guarantee|Assumes|Edge cases|Raises|Source): ", re.MULTILINE)
EXAMPLE = re.compile(r"^(?:Example:\n)?((?: *>>> .*\n?)(?:.+\n?)*(?:\n *>>> .*\n?(?:.+\n?)*)*)", re.MULTILINE)
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```python.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
WIDE = 88


class Entry(typing.NamedTuple):
    """A name of the list of public names: the heading that it stands under, what it names, and its page."""

    name: str
    group: str
    thing: object
    file: str

    @property
    def shown(self) -> str:
        """The name as code says it: `rb.` for the package itself."""
        return re.sub(r"^rangebound\.", "rb.", self.name)


def entries(page: str) -> list[Entry]:
    """The names that the page lists, in its order. Names that differ only in case get different files."""
    found: dict[str, Entry] = {}
    group = ""
    for line in page.splitlines():
        group = line.removeprefix("## ") if line.startswith("## ") else group
        listed = LISTED.fullmatch(line)
        if listed:
            stem = listed[1].removeprefix("rangebound.")
            while stem.lower() in found:
                stem += "-2"
            found[stem.lower()] = Entry(listed[1], group, named(listed[1]), f"api/{stem}.md")
    return [*found.values()]


def named(path: str) -> object:
    """What a dotted path names: the longest part of it that is a module, and its attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise LookupError(path)


def contents(page: str, listed: list[Entry]) -> str:
    """The list as tables: each name with a link and its first sentence."""
    known = {each.name: each for each in listed}

    def table(lines: re.Match[str]) -> str:
        rows = [known[name] for name in LISTED.findall(lines[0])]
        cells = [f"| [`{each.shown}`]({each.file}) | {cell(summary(each.thing))} |" for each in rows]
        return "\n".join(["| name | |", "| --- | --- |", *cells, "", ""])

    return GROUP.sub(table, page)


def pages(listed: list[Entry], guides: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the file and the text of each name's page, with links to the guides (texts by their files) that use it."""
    links = {each.name.rpartition(".")[2]: each.file.removeprefix("api/") for each in reversed(listed)}
    for each in listed:
        others = {name: file for name, file in links.items() if file != each.file.removeprefix("api/")}
        yield each.file, linked(page(each, others), others) + used_in(each.name, guides)


def page(entry: Entry, links: Mapping[str, str]) -> str:
    """The page of a name."""
    title, thing = entry.name.rpartition(".")[2], entry.thing
    top = f"# {title}\n\n`{entry.name}` · [{entry.group}](../api.md#{slug(entry.group)})\n"
    if isinstance(thing, types.ModuleType):
        functions = [each for each in vars(thing).values() if inspect.isfunction(each) and is_own(each, thing)]
        return "\n".join([top, prose(thing), *(method(each.__name__, each) for each in functions)])
    call = signature(entry.shown, thing)
    parts = [top, call, types_in(call, links), prose(thing)]
    if hasattr(thing, "model_fields"):
        parts.append("Every field is described in [the table of fields](../plan.md#every-field).\n")
    if inspect.isclass(thing):
        parts += [fields(thing), *members(thing, links)]
    return "\n".join(part for part in parts if part)


def used_in(name: str, guides: Mapping[str, str]) -> str:
    """The guides that show the name in code, those that show it most often first; a line of at most four links."""
    path, last = re.sub(r"^rangebound\.(?=\w+$)", "rb.", name).removeprefix("rangebound."), name.rpartition(".")[2]
    shown = rf"\b{last}\b" if last != last.lower() else rf"(?<![\w.]){last}\(|\b{re.escape(path)}\("
    counts = {file: len(re.findall(shown, "\n".join(CODE.findall(text)))) for file, text in guides.items()}
    most = sorted((file for file in counts if counts[file]), key=lambda file: -counts[file])[:4]
    links = [f"[{guides[file].partition(chr(10))[0].removeprefix('# ')}](../{file})" for file in most]
    return f"\n**On other pages:** {', '.join(links)}\n" if links else ""


def types_in(call: str, links: Mapping[str, str]) -> str:
    """The types of a call that have a page of their own, as a line of links."""
    found = dict.fromkeys(name for name in re.findall(r"\b[A-Z]\w+", call) if name in links)
    return f"Types: {', '.join(f'[`{name}`]({links[name]})' for name in found)}\n" if found else ""


def is_own(function: Callable[..., object], module: types.ModuleType) -> bool:
    """Whether a module makes the function itself, for others to use."""
    return function.__module__ == module.__name__ and not function.__name__.startswith("_")


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def summary(thing: object) -> str:
    """The first sentence of a docstring, or its first paragraph."""
    first = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.;:]) ", first)[0].rstrip(";:") if len(first) > 120 else first


def prose(thing: object) -> str:
    """A docstring as Markdown: its parts get headings, and examples are code."""
    text = inspect.getdoc(thing) or ""
    examples = "\n\n".join(each.strip("\n") for each in EXAMPLE.findall(text))
    text = EXAMPLE.sub("", text).rstrip().removesuffix("Example:").rstrip()
    text = PART.sub(lambda part: f"\n**{part[1]}:** ", text)
    shown = f"\n\n**Example:**\n\n```pycon\n{textwrap.dedent(examples)}\n```\n" if examples else "\n"
    return text + shown


def signature(name: str, thing: object) -> str:
    """The call, with types and defaults; over several lines where it is long."""
    if not callable(thing):
        return ""
    if inspect.isclass(thing) and issubclass(thing, (enum.Enum, Exception)):
        return ""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return ""
    said, seen, positional = [], False, False
    for each in found.parameters.values():
        if each.kind is each.POSITIONAL_ONLY:
            positional = True
        elif positional:
            said.append("/")
            positional = False
        if each.kind is each.VAR_POSITIONAL:
            seen = True
        if each.kind is each.KEYWORD_ONLY and not seen:
            said.append("*")
            seen = True
        if each.name not in ("self", "cls"):
            said.append(parameter(each))
    result = "" if inspect.isclass(thing) else f" -> {annotation(found.return_annotation)}"
    line = f"{name}({', '.join(said)}){result}"
    if len(line) > WIDE:
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in said) + f"){result}"
    return f"```python\n{line}\n```\n"


def parameter(each: inspect.Parameter) -> str:
    """A parameter as a signature has it."""
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    typed = "" if each.annotation is each.empty else f": {annotation(each.annotation)}"
    if each.default is each.empty:
        return f"{stars}{each.name}{typed}"
    return f"{stars}{each.name}{typed}{' = ' if typed else '='}{default(each.default)}"


def annotation(kind: object) -> str:
    """A type in few words: without the modules that it comes from."""
    text = kind if isinstance(kind, str) else plain(kind)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text).replace("NoneType", "None")


def plain(kind: object) -> str:
    """A type as code would say it, without what pydantic checks beside it."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return plain(inner[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(plain(each) for each in inner)
    if origin in (tuple, list, dict):
        return f"{origin.__name__}[{', '.join(plain(each) for each in inner)}]"
    return "..." if kind is Ellipsis else inspect.formatannotation(kind)


def default(value: object) -> str:
    """A default as code would say it."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__name__
    text = repr(value)
    return "..." if text.startswith("<") else text


def fields(kind: type) -> str:
    """The fields of a dataclass that say what they are, as a table."""
    if not dataclasses.is_dataclass(kind):
        return ""
    notes = {name: text for each in reversed(kind.__mro__) for name, text in field_notes(each).items()}
    shown = [each for each in dataclasses.fields(kind) if each.name in notes]
    if not shown:
        return ""
    rows = [f"| `{each.name}` | `{cell(annotation(each.type))}` | {cell(notes[each.name])} |" for each in shown]
    return "\n".join(["\n## Fields\n", "| field | type | |", "| --- | --- | --- |", *rows, ""])


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def field_notes(kind: type) -> dict[str, str]:
    """The texts below the fields of a class of ours."""
    if not kind.__module__.startswith("rangebound"):
        return {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    body, found = getattr(tree, "body", []), {}
    for node, after in pairwise(body):
        says = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and says:
            found[node.target.id] = str(after.value.value)
    return found


def members(kind: type, links: Mapping[str, str]) -> Iterator[str]:
    """Yield the members of a class of ours: its own, and those of classes above that have no page."""
    above = [each for each in kind.__mro__[1:] if each.__module__.startswith("rangebound")]
    above = [] if issubclass(kind, Exception) or hasattr(kind, "model_fields") else above
    with_page = [each.__name__ for each in above if each.__name__ in links]
    hidden = {name for each in above if each.__name__ in links for name in vars(each)} - set(vars(kind))
    own, seen = [], set(hidden)
    for each in (kind, *above):
        for name, member in vars(each).items():
            if not name.startswith("_") and name not in seen and is_member(member):
                own.append((name, member))
                seen.add(name)
    if own:
        yield "\n## Members\n"
    if with_page:
        yield f"Beside these, it has the members of {', '.join(f'`{name}`' for name in with_page)}.\n"
    for name, member in own:
        yield method(name, member)


def is_member(member: object) -> bool:
    """Whether a class attribute is a method or a property with a docstring."""
    inner = wrapped(member)
    return inspect.isfunction(inner) and bool(inner.__doc__)


def wrapped(member: object) -> object:
    """The function in a property, a cached property, a class method or a static method."""
    for part in ("__func__", "fget", "func"):
        member = getattr(member, part, None) or member
    return member


def method(name: str, member: object) -> str:
    """The part of a page about one method or property."""
    function = wrapped(member)
    if function is not member and not isinstance(member, (classmethod, staticmethod)):
        returned = annotation(inspect.signature(function).return_annotation)  # type: ignore[arg-type]
        shown = f"```python\n{name}: {returned}\n```\n"
    else:
        shown = signature(name, function)
    return f"### `{name}` {{ #{name} }}\n\n{shown}\n{prose(function)}"


def linked(text: str, links: Mapping[str, str]) -> str:
    """Link the names in code that have a page of their own, outside of blocks of code and headings."""
    parts = FENCE.split(text)
    for index in range(0, len(parts), 2):
        lines = parts[index].split("\n")
        parts[index] = "\n".join(line if line.startswith("#") else link_names(line, links) for line in lines)
    return "".join(parts)


def link_names(line: str, links: Mapping[str, str]) -> str:
    """The line with links on the names in code. A bare name in small letters may be that of an argument."""

    def link(code: re.Match[str]) -> str:
        name = re.sub(r"^(?:rb|rangebound)\.", "", code[1])
        file = links.get(name) if name != name.lower() or name != code[1] else None
        return f"[`{code[1]}`]({file})" if file else code[0]

    line = re.sub(r"(?<!\[)`docs/([\w-]+)\.md`", r"[\1](../\1.md)", line)
    return re.sub(r"(?<!\[)`([\w.]+)`(?!\])", link, line)
