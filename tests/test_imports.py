"""The packages know of each other only what the design allows, and no module imports itself by a detour."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("mockengine", "server_under_test", "locustfiles", "reports")
ALLOWED = {
    "mockengine": (),
    "server_under_test": (),
    "reports": (),
    "locustfiles": ("server_under_test.proto", "mockengine.corpus", "reports"),
}


def modules(package: str) -> dict[str, Path]:
    """Module name -> file, for every module of a package."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path) -> set[str]:
    """Names of ours that a file imports when it is loaded; ``from a import b`` counts as both a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add(str(node.module))
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.split(".")[0] in PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_the_design_allows(package: str) -> None:
    for module, path in modules(package).items():
        for name in imports(path):
            inside = (package, *ALLOWED[package])
            assert any(name == one or name.startswith(f"{one}.") for one in inside), f"{module} imports {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circular_imports(package: str) -> None:
    known = modules(package)
    edges = {module: {name for name in imports(path) if name in known} - {module} for module, path in known.items()}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way, module))
        if module not in done:
            for name in edges[module]:
                visit(name, (*way, module))
            done.add(module)

    for module in known:
        visit(module, ())
