"""Which tests show what the specification promises: the table of docs/reference/jms-coverage.md.

Each class or module of tests says in its docstring which sections it is about; a test's name is the promise.
`python tests/jms/coverage_table.py` writes the table into the page anew.
"""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/jms-coverage.md"
_SECTIONS = re.compile(r"\d+(?:\.\d+)+")


def promises() -> list[tuple[str, str, str]]:
    """Section, promise and file of every test."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(path.read_text())
        module = _sections(tree, [])
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                sections = _sections(node, module)
                found += [row for each in node.body for row in _row(each, sections, path.name)]
            else:
                found += _row(node, module, path.name)
    return sorted(found, key=lambda row: ([int(part) for part in row[0].split(".") if part.isdigit()], row))


def _sections(node: ast.Module | ast.ClassDef, inherited: list[str]) -> list[str]:
    return _SECTIONS.findall(ast.get_docstring(node) or "") or inherited


def _row(node: ast.stmt, sections: list[str], file: str) -> list[tuple[str, str, str]]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
        return []
    own = _SECTIONS.findall(ast.get_docstring(node) or "") or sections
    promise = node.name.removeprefix("test_").replace("_", " ")
    return [(", ".join(own) or "beyond it", promise, file)]


def asked() -> list[dict[str, Any]]:
    """What the specification asks: section, whether it must or may be so, what, tests."""
    rows: list[dict[str, Any]] = tomllib.loads((HERE / "promises.toml").read_text())["promise"]
    return rows


def promise_table() -> str:
    """What the specification says, and the tests that show it."""
    files = {promise: file for _, promise, file in promises()}
    lines = ["| section | | what the specification asks | tests |", "|---|---|---|---|"]
    for each in asked():
        shown = "; ".join(f"{test} (`{files[test]}`)" for test in each["tests"])
        lines.append(f"| {each['section']} | {each['force']} | {each['what']} | {shown} |")
    return "\n".join(lines)


def table() -> str:
    """The table of all tests, as the page has it."""
    lines = ["| section | what holds | tests |", "|---|---|---|"]
    lines += [f"| {section} | {promise} | `{file}` |" for section, promise, file in promises()]
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    """The page with the table as it should be."""
    for name, made in (("promises", promise_table()), ("table", table())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{made}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
