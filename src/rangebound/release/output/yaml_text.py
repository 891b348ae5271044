"""Plain data as YAML: what people fill in by hand, and what every reader of YAML reads back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rangebound.errors import ArgumentTypeError
from rangebound.values.extras import need


def yaml_text(data: Mapping[str, object]) -> str:
    """Mappings, lists, texts, numbers and truth values as YAML, in their order.

    Guarantee: a text is read back as it is, whatever is in it: it stands in double quotes with escapes, or, where it
    has several lines of printable letters, as a block that people can edit. No text is taken for a number, a date, a
    truth value or a comment. Numbers are written with a point, which readers of YAML 1.1 need.

    >>> print(yaml_text({"name": "no", "delta": 1e-06, "of": ["a: b", "# c"], "said": "one\\ntwo\\n"}), end="")
    name: "no"
    delta: 1.0e-06
    of:
    - "a: b"
    - "# c"
    said: |
      one
      two
    """
    need("yaml", what="a record in YAML")
    import yaml

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, _text)
    dumper.add_representer(dict, _mapping)
    try:
        found = str(yaml.dump(dict(data), Dumper=dumper, sort_keys=False, allow_unicode=True, width=float("inf")))
    except yaml.representer.RepresenterError as reason:
        kind = type(reason.args[-1]).__name__
        raise ArgumentTypeError(f"value of type {kind}: must be a mapping, a list, a text or a number") from None
    return "".join(each if each.isprintable() or each == "\n" else f"\\u{ord(each):04x}" for each in found)


def _text(dumper: Any, text: str) -> Any:
    block = text.count("\n") > 1 and text.endswith("\n") and text.replace("\n", "").isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else '"')


def _mapping(dumper: Any, data: Mapping[str, object]) -> Any:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", list(data.items()))
    for name, _ in node.value:
        if str(name.value).isprintable():
            name.style = None  # in quotation marks only where it must be
    return node
