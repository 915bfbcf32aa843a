"""Which tests show what the specification promises: the table of docs/reference/jms-coverage.md.

Each class or module of tests says in its docstring which sections it is about; a test's name is the promise.
`python tests/jms/coverage_table.py` writes the table into the page anew.
"""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/jms-coverage.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
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


def table() -> str:
    """The table, as the page has it."""
    lines = ["| section | what holds | tests |", "|---|---|---|"]
    lines += [f"| {section} | {promise} | `{file}` |" for section, promise, file in promises()]
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    """The page with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
