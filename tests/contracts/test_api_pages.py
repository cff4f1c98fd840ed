"""Each page of the API says what a name is, what its parameters mean, and shows it at work."""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

from walkernel import Kernel

DOCS = Path(__file__).parents[2] / "docs"
LISTED = re.findall(r"^   ([\w.]+)$", (DOCS / "api" / "index.md").read_text(), re.M)
RULES = {
    *("GL06", "GL07"),  # no unknown sections, and all in their order
    *("SS03", "SS06"),  # a summary of one line that ends with a period
    *("PR02", "PR04", "PR05", "PR07", "PR09"),  # parameters: those of the signature, with types and sentences
    *("RT03", "RT05", "YD01"),  # results: with sentences
    *("SA02", "SA03", "SA04"),  # See Also: with sentences
}
BY_SCIKIT_LEARN = re.compile("set_.*_request$")


def resolve(name):
    module, _, last = f"walkernel.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def template_settings():
    """Return what the template of class pages sets: lists, and dictionaries of lists."""
    template = (DOCS / "_templates" / "autosummary" / "class.rst").read_text()
    settings = {}
    for statement in re.findall(r"{%- set (.*?) -%}", template, re.S):
        exec(statement, settings)
    return settings


SETTINGS = template_settings()
LEFT_OUT, RETURNED = SETTINGS["internal"], SETTINGS["returned"]


def public_members(kind):
    """Yield the members of a class that walkernel defines and its page shows."""
    for name in dir(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith("walkernel"):
            continue
        member = inspect.getattr_static(kind, name)
        if not (BY_SCIKIT_LEARN.match(name) or name in LEFT_OUT.get(kind.__name__, ())):
            yield name, member


OBJECTS = {name: resolve(name) for name in LISTED}
CLASSES = {name: found for name, found in OBJECTS.items() if inspect.isclass(found)}
FUNCTIONS = {name: found for name, found in OBJECTS.items() if not inspect.isclass(found)}
METHODS, PROPERTIES = {}, {}
for class_name, kind in CLASSES.items():
    for member_name, member in public_members(kind):
        full_name = f"{class_name}.{member_name}"
        if isinstance(member, property) or hasattr(member, "func"):
            PROPERTIES[full_name] = member
        elif callable(member) or isinstance(member, classmethod | staticmethod):
            METHODS[full_name] = getattr(kind, member_name)


def sections(found):
    return NumpyDocString(inspect.getdoc(found) or "")


def parameters(found):
    """Return the parameters of a signature, and those among them that are positional, in order."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    asked = [p for p in inspect.signature(found).parameters.values() if p.name not in ("self", "cls")]
    positional = [p.name for p in asked if p.kind is p.POSITIONAL_OR_KEYWORD]
    return {stars.get(p.kind, "") + p.name for p in asked}, positional


def check_parameters(found, written):
    asked, positional = parameters(found)
    assert set(written) == asked
    assert [name for name in written if name in positional] == positional


def names_of(entries):
    return [name.strip() for entry in entries for name in entry.name.split(",")]


@pytest.mark.parametrize("name", [name for name in [*OBJECTS, *METHODS] if not name.startswith("plots.")])
def test_sections_are_complete(name):
    errors = [error for error in validate(f"walkernel.{name}")["errors"] if error[0] in RULES]
    assert not errors


@pytest.mark.parametrize("name", FUNCTIONS | METHODS)
def test_functions_document_parameters_and_results(name):
    found = (FUNCTIONS | METHODS)[name]
    doc = sections(found)
    check_parameters(found, names_of([*doc["Parameters"], *doc["Other Parameters"]]))
    if inspect.signature(found).return_annotation not in ("None", None, inspect.Signature.empty):
        assert doc["Returns"] or doc["Yields"]


@pytest.mark.parametrize("name", [name for name, kind in CLASSES.items() if not issubclass(kind, Exception)])
def test_classes_document_parameters_or_attributes(name):
    kind = CLASSES[name]
    doc = sections(kind)
    if kind.__name__ in RETURNED:
        fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        attributes = names_of(doc["Attributes"])
        assert attributes
        assert set(attributes) >= {field for field in fields if not field.startswith("_")}
    else:
        check_parameters(kind, names_of(doc["Parameters"]))


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_have_a_sentence(name):
    first, _, _ = (inspect.getdoc(PROPERTIES[name]) or "").partition("\n")
    assert re.match(r"[A-Z(].{10,}\.$", first)


@pytest.mark.parametrize("name", OBJECTS)
def test_pages_have_an_example(name):
    assert ">>>" in "\n".join(sections(OBJECTS[name])["Examples"])


@pytest.mark.parametrize("name", [n for n, k in CLASSES.items() if issubclass(k, Kernel) and k is not Kernel])
def test_kernels_have_an_equation(name):
    assert ".. math::" in inspect.getdoc(CLASSES[name])
