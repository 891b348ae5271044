"""Plain data as YAML, read back by a reader that others wrote."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.errors import ArgumentTypeError
from rangebound.release.output.deployment_record import yaml_text

HOSTILE = [
    "",
    "no",
    "1e-06",
    "2025-01-31",
    "a: b",
    "# c",
    "!!python/object/apply:os.system ['true']",
    "{a: b}",
    "---\n...",
    "one\ntwo",
    "one\ntwo\n",
    "one\n\ntwo\n",
    "one\n two\n",
    " one\ntwo\n",
    "one\ntwo\n\n",
    "\n\n\n",
    "tab\there\nline\n",
    "one\r\ntwo\r\n",
    "\x00\x07\x1b[31m",
    "\u2028line\u2029",
    "\x85next",
    "\ufeffmark",
    "\U0001f600 face",
    "'\"\\",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_read_back_as_it_is(text):
    data = {"a": text, "b": [text, {"c": text}], "d": {"e": text}}
    assert yaml.safe_load(yaml_text(data)) == data


def test_texts_without_quotes_would_not_be_read_back():
    """The control: written as they are, most of them are something else or nothing at all."""

    def plainly(text):
        try:
            return yaml.safe_load(f"a: {text}\n") == {"a": text}
        except yaml.YAMLError:
            return False

    assert sum(map(plainly, HOSTILE)) < len(HOSTILE) / 4


plain = st.text(st.characters(exclude_categories=["Cs"])) | st.floats(allow_nan=False, allow_infinity=False)
names = st.from_regex("f_[a-z_0-9]{0,8}", fullmatch=True)
parts = {"extend": lambda part: st.lists(part) | st.dictionaries(names, part), "max_leaves": 10}


@pytest.mark.slow
@settings(max_examples=40)
@given(st.dictionaries(names, st.recursive(plain | st.integers() | st.booleans(), **parts)))
def test_data_are_read_back_as_they_are(data):
    assert yaml.safe_load(yaml_text(data)) == data


@pytest.mark.parametrize("name", ["a b", "1a", "a:", "no", "1", "#", "", "\u202e", "\n", *HOSTILE])
def test_a_hostile_name_is_read_back_as_it_is(name):
    assert yaml.safe_load(yaml_text({name: {name: [1]}})) == {name: {name: [1]}}


def test_the_same_list_twice_is_written_twice():
    same = ["x"]
    assert "*" not in yaml_text({"a": same, "b": same})


def test_what_yaml_does_not_have_is_refused():
    with pytest.raises(ArgumentTypeError, match="value of type object: must be"):
        yaml_text({"a": object()})
