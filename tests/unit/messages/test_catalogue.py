"""The message catalogue: every line that is logged has an id, which stays, a text, and its translations."""

import ast
import inspect
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages import mofile, pofile

import shoal
from shoal import errors
from shoal.cli.app import COMMANDS
from shoal.messages import catalogue, language
from shoal.messages.notice import Line, Notice

SOURCE = Path(shoal.__file__).parent
PO = language.LOCALES / "zh_TW" / "LC_MESSAGES" / "shoal.po"
IDS = Path(__file__).parent / "ids.txt"
#: Methods that log at info or above, or warn.
LOGGING = {"info", "warning", "warn", "error", "critical", "fatal", "exception", "log"}
WHAT_TO_DO = """
A log line of level info or above, and a warning, is a notice of the catalogue:
1. Add it to the module of its area in src/shoal/messages, with the next free number:
   THING_FAILED = warning(3040, "Thing {name} failed: {why}.", "Do this.")
2. Log it: from shoal.messages import AREA as notices
   notices.THING_FAILED(name=name, why=error).log(log)
3. Run scripts/messages, and translate the new entries in src/shoal/messages/locale/*/LC_MESSAGES/shoal.po.
CONTRIBUTING.md has more."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent != SOURCE / "messages":
            yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def logs_without_id(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LOGGING:
        return False
    match call.func.value:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name.lstrip("_").lower() in ("log", "logger", "logging", "warnings")
        case ast.Call(ast.Attribute(attr="getLogger")):
            return True
    return False


def placeholders(text: str) -> set[tuple[str, str, str]]:
    return {
        (name, spec or "", conversion or "")
        for _, name, spec, conversion in string.Formatter().parse(text)
        if name is not None
    }


@pytest.fixture
def chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tmp_path / "zh_TW" / "LC_MESSAGES" / "shoal.mo"
    compiled.parent.mkdir(parents=True)
    with PO.open("rb") as source, compiled.open("wb") as target:
        mofile.write_mo(target, pofile.read_po(source))
    monkeypatch.setattr(language, "LOCALES", tmp_path)
    monkeypatch.setenv(language.VARIABLE, "zh_TW")
    language._translation.cache_clear()
    yield
    language._translation.cache_clear()


def test_every_log_line_and_every_warning_has_an_id() -> None:
    found = [
        f"{name}:{call.lineno}" for name, tree in sources() for call in calls(tree) if logs_without_id(call)
    ]
    assert not found, f"{found}: {WHAT_TO_DO}"


@pytest.mark.parametrize(
    "source",
    [
        "log.info('x')",
        "self._log.warning('x')",
        "logging.getLogger('shoal').error('x')",
        "warnings.warn('x')",
        "logger.log(30, 'x')",
    ],
)
def test_a_line_without_an_id_is_noticed(source: str) -> None:
    assert any(map(logs_without_id, calls(ast.parse(source))))


@pytest.mark.parametrize("source", ["log.debug('x')", "store.info()", "notices.DISK_LOW(path=1).log(log)"])
def test_other_calls_are_not(source: str) -> None:
    assert not any(map(logs_without_id, calls(ast.parse(source))))


def test_every_notice_is_used_with_the_arguments_of_its_text() -> None:
    # Exceptions carry theirs as a class attribute, and `Line` uses its own.
    notices = [(n, x) for n, x in catalogue.NOTICES.items() if not n.startswith(("errors.", "notice."))]
    by_name = {name.partition(".")[2]: notice for name, notice in notices}
    assert len(by_name) == len(notices), "two areas have a notice of the same name"
    wrong, used = [], set()
    for name, tree in sources():
        used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for call in calls(tree):
            if isinstance(call.func, ast.Attribute) and call.func.attr in by_name:
                given = {keyword.arg for keyword in call.keywords}
                if given != {each for each, _, _ in placeholders(by_name[call.func.attr].text)}:
                    wrong.append(f"{name}:{call.lineno} {call.func.attr}")
    assert not wrong
    assert by_name.keys() - used == set(), "notices that no module logs"


def test_ids_are_unique_and_never_used_again() -> None:
    numbers = [notice.number for notice in catalogue.NOTICES.values()]
    assert len(numbers) == len(set(numbers))
    known = dict(line.split() for line in IDS.read_text().splitlines())
    for name, notice in catalogue.NOTICES.items():
        meant = known.get(str(notice.number))
        assert meant == name, (
            f"{notice.id} is {name} and was {meant}: take a new number, run scripts/messages"
        )


def test_traditional_chinese_is_complete_and_has_the_same_placeholders() -> None:
    with PO.open("rb") as file:
        translations = {(entry.context, entry.id): entry.string for entry in pofile.read_po(file) if entry.id}
    wanted = set(catalogue.translatable())
    assert {key for key, text in translations.items() if text} >= wanted, "run scripts/messages, translate"
    assert translations.keys() <= wanted, "run scripts/messages"
    assert [key for key, text in translations.items() if placeholders(key[1]) != placeholders(text)] == []


def test_advice_names_only_commands_that_exist() -> None:
    named = {word for _, text in catalogue.translatable() for word in re.findall(r"`shoal (\w+)", text)}
    assert named
    assert named <= COMMANDS.keys()


def test_every_exception_carries_an_id_of_its_own() -> None:
    classes = [
        each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.ShoalError)
    ]
    ids = [vars(each).get("id") for each in classes]
    assert None not in ids
    assert len(set(ids)) == len(ids)
    assert set(ids) == {notice.id for name, notice in catalogue.NOTICES.items() if name.startswith("errors.")}


def sample(notice: Notice) -> Line:
    values = {}
    for name, spec, _ in placeholders(notice.text):
        values[name] = 7 if spec.endswith("x") else 2.5 if spec else f"a {name} of b. See (c): d"
    return notice(**values)


@pytest.mark.parametrize("notice", catalogue.NOTICES.values(), ids=catalogue.NOTICES)
@pytest.mark.usefixtures("chinese")
def test_the_english_of_a_translated_line_can_be_recovered(
    notice: Notice, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = sample(notice)
    chinese = str(line)
    monkeypatch.delenv(language.VARIABLE)
    assert str(line) != chinese
    assert f"{notice.id} {catalogue.in_english(f'shoal sub: {chinese}')}" == str(line)
    assert f"{notice.id} {catalogue.in_english(str(line))}" == str(line)


@pytest.mark.usefixtures("chinese")
def test_suppressed_lines_are_counted_in_any_language() -> None:
    line = Line(catalogue.NOTICES["bus.MEMBER_FAILED"], {"node": 7}, suppressed=3)
    assert str(line).startswith("SHOAL-2103 與成員 7 失去聯繫")
    assert "略去 3 則" in str(line)
    assert catalogue.in_english(str(line)).startswith("Lost contact with member 7 ")


def test_a_language_that_is_not_there_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(language.VARIABLE, "tlh")
    assert re.match("SHOAL-2103 Lost contact", str(catalogue.NOTICES["bus.MEMBER_FAILED"](node=7)))
