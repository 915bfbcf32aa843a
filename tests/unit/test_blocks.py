"""Every block of code in README and the documentation is checked here, or run by a test of its page.

`tests/e2e/test_documentation.py` and `tests/spark/test_pages.py` run programs. Here mypy checks Python, the
command line parses commands, and the code that reads configuration reads it.
"""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
import typer.testing

import shoal
from shoal import jms
from shoal.cli.app import app
from shoal.config.access import Access
from shoal.config.destinations import Destinations
from shoal.config.profile import load as load_profile
from shoal.daemon.config import parse
from shoal.messages.catalogue import in_english
from shoal.store.config import load_toml

ROOT = Path(__file__).parents[2]
#: What people read who are not at work on a part of the tree.
PAGES = sorted(
    [
        *(
            ROOT / name
            for name in ("README.md", "CONTRIBUTING.md", "bench/README.md", "clients/js/README.md")
        ),
        *(page for folder in ("docs", "examples") for page in (ROOT / folder).rglob("*.md")),
    ]
)
#: A block may be part of a list, and is indented then.
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
#: `text` is a drawing or something printed; `hex`, `java` and `yaml` belong to other systems.
LANGUAGES = {"python", "console", "toml", "json", "text", "hex", "java", "yaml", "js"}
PROMPT = re.compile(r"^(?:\w+)?[$#] (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of one page."""

    page: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.number}"


BLOCKS = [
    Block(str(page.relative_to(ROOT)), number, language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
    for page in PAGES
    for number, (indent, language, text) in enumerate(FENCE.findall(page.read_text()), 1)
]


def blocks(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def test_every_block_has_a_language_that_is_checked() -> None:
    assert {block.language for block in BLOCKS} <= LANGUAGES


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a package of all programs of the pages."""
    # A block that does not import Shoal continues the one before it; a page on Spark is one program.
    before: dict[str, str] = {}
    directory = tmp_path_factory.mktemp("blocks")
    package = directory / "snippets"
    package.mkdir()
    (package / "__init__.py").touch()
    for block in blocks("python"):
        imports = re.search(r"^(from|import) shoal", block.text, re.MULTILINE)
        starts = block.page not in before or (imports and not block.page.endswith("/spark.md"))
        code = block.text if starts else before[block.page] + block.text
        before[block.page] = code
        (package / (re.sub(r"\W", "_", str(block)) + ".py")).write_text(code)
    return directory


@pytest.mark.timeout(300)
def test_python_type_checks(snippets: Path) -> None:
    # As `make check` runs it, so that both use one cache.
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "-p", "snippets"],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(snippets)},
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.timeout(300)
def test_python_type_checks_with_pyright(snippets: Path) -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("there is no pyright: npm install --global pyright")
    # As `make check` runs it, but for what the pages leave out: whether a message came in time.
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"] | {
        "include": ["snippets"],
        "extraPaths": [str(ROOT / "src")],
        "venvPath": str(ROOT),
        "reportOptionalMemberAccess": False,
        "reportRedeclaration": False,
    }
    (snippets / "pyrightconfig.json").write_text(json.dumps(options))
    ran = subprocess.run([pyright], cwd=snippets, capture_output=True, text=True, timeout=290)
    assert ran.returncode == 0, ran.stdout


def commands() -> list[tuple[str, str]]:
    """What the pages type into a shell, one command each."""
    found = []
    for block in blocks("console"):
        typed = block.text.replace("\\\n", " ")
        for line in PROMPT.findall(typed):
            for part in re.split(r" (?:\||&&|&) ?", re.sub(r"\s+#.*| \(.*\)$| > [^\s\"']+$", "", line)):
                words = part.strip().removeprefix("sudo ")
                if not words:
                    # What ran in the background ended the line.
                    continue
                found.append((str(block), re.sub(r"^(?:[A-Z_]+=\S+ )+", "", words)))
    return found


@pytest.mark.parametrize(("where", "command"), commands())
def test_commands_are_accepted(
    where: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *arguments = shlex.split(command)
    if program == "shoal":
        monkeypatch.chdir(tmp_path)
        for file in [word for word in arguments if word.endswith((".pdf", ".tar", ".iso"))]:
            Path(file).touch()
        _parse(arguments)
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in arguments if "=" not in word} <= set(targets)
    elif program == "python" and arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]) is not None
    elif program.startswith("scripts/"):
        assert (ROOT / program).exists()


def _parse(arguments: list[str]) -> None:
    """Parse the arguments of `shoal` down to the last sub-command, and run nothing."""
    command = typer.main.get_command(app)
    context = command.make_context("shoal", arguments)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        _, command, rest = command.resolve_command(context, rest)
        context = command.make_context(command.name, rest, parent=context)


def extras() -> list[tuple[str, str]]:
    """Packages with extras that pages install."""
    found = re.compile(r"pip install[^`\n]*?[\"']?(\S+?\[[\w,]+\])")
    return [(str(page.relative_to(ROOT)), each) for page in PAGES for each in found.findall(page.read_text())]


def printed() -> list[tuple[str, str, str]]:
    """Commands that need nothing but their arguments, and what the page says that they print."""
    return [
        (str(block), command, output)
        for block in blocks("console")
        for command, output in re.findall(
            r"^\$ shoal ((?:explain|selector) [^\n]*)\n((?:(?!\$ ).*\n)+)", block.text, re.MULTILINE
        )
    ]


@pytest.mark.parametrize(("where", "command", "output"), printed())
def test_what_a_command_prints_is_what_the_page_shows(where: str, command: str, output: str) -> None:
    ran = typer.testing.CliRunner().invoke(app, shlex.split(command))
    assert ran.stdout == output, where


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_can_be_read(block: Block) -> None:
    # An ellipsis stands for a figure, or for more of the same.
    text = re.sub(r",\s*…(?=\s*[,\]}])|(?<=[\[{])…(?=[\]}])", "", block.text)
    json.loads(text.replace("…", "0"))


@pytest.mark.parametrize("block", blocks("js"), ids=str)
def test_javascript_is_well_formed(block: Block, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no Node")
        pytest.skip("there is no Node")
    script = tmp_path / "block.mjs"
    script.write_text(block.text)
    ran = subprocess.run([node, "--check", script], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_configuration_is_accepted(block: Block, tmp_path: Path) -> None:
    """By the code that reads a file of its kind, which the names of its tables tell."""
    table = tomllib.loads(block.text)
    file = tmp_path / "shoal/profiles/desk.toml"
    file.parent.mkdir(parents=True)
    file.write_text(block.text)
    match min(
        table.keys() & {"link", "roles", "data", "options", "destination", "rule", "factories", "project"}
    ):
        case "data":
            load_toml(file)
        case "destination":
            Destinations.of(file)
        case "factories":
            for name in (name for objects in table.values() for name in objects):
                jms.lookup(name, file)
        case "link" | "roles":
            # A page that shows one table of a file leaves out the links.
            parse({"link": {"lan": {"url": "norm://"}}} | table, tmp_path)
        case "options":
            load_profile("desk", {"XDG_CONFIG_HOME": str(tmp_path)})
        case "project":
            assert set(table["project"]["entry-points"]) <= {"shoal.console"}
        case "rule":
            Access.read(file)


@pytest.mark.parametrize(("where", "extra"), extras())
def test_extras_that_pages_install_exist(where: str, extra: str) -> None:
    known = {
        name: tomllib.loads((ROOT / path).read_text())["project"]["optional-dependencies"]
        for name, path in (("shoal", "pyproject.toml"), ("./bench", "bench/pyproject.toml"))
    }
    package, _, names = extra.rstrip("]").partition("[")
    assert set(names.split(",")) <= set(known[package]), where


@pytest.mark.parametrize("block", blocks("text"), ids=str)
def test_a_program_is_not_hidden_in_plain_text(block: Block) -> None:
    """A line that assigns or calls something of Python's belongs into a block that mypy reads."""
    assert not re.search(r"^(\w+ = )?\w+(\.\w+)*\(.*\)$|^\$ ", block.text, re.MULTILINE)


@pytest.mark.parametrize("block", blocks("text"), ids=str)
def test_a_line_of_the_log_is_that_of_the_catalogue(block: Block) -> None:
    for line in re.split(r"^(?=SHOAL-)", block.text, flags=re.MULTILINE)[1:]:
        english = in_english(line)
        assert english is not None, line
        assert not line.isascii() or line.split()[1:] == english.split()


@pytest.mark.parametrize(
    "line",
    [line for block in blocks("text") if "topics.md" in block.page for line in block.text.splitlines()],
)
def test_the_errors_of_the_page_on_topics_are_those_of_the_code(line: str) -> None:
    with shoal.connect("inproc://blocks") as bus, pytest.raises(shoal.ShoalError) as raised:
        bus.publish(re.findall(r"[\"']([^\"']*)[\"']", line)[0], 1)
    assert line in str(raised.value)
