"""Random selectors through the Python API: the index agrees with each of them, and no text breaks it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Byte, Float, Int, InvalidSelectorError, Selector, Short, _core

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["", "x", "xy", "it's"])
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, -1.5, 2.0]))
VALUES = st.one_of(
    TEXTS,
    NUMBERS,
    st.booleans(),
    st.none(),
    st.integers(-3, 3).map(Byte),
    st.integers(-3, 3).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.floats(-4, 4, width=32).map(Float),
)
MESSAGES = st.dictionaries(NAMES, VALUES)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


PREDICATES = st.one_of(
    st.builds("{} {} {}".format, NAMES, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), NUMBERS),
    st.builds("{} = {}".format, NAMES, TEXTS.map(_quoted)),
    st.builds("{} IN ({})".format, NAMES, st.lists(TEXTS.map(_quoted), min_size=1).map(", ".join)),
    st.builds("{} LIKE {}".format, NAMES, st.sampled_from(["'x%'", "'%'", "'_y'", "'%s'"])),
    st.builds("{} BETWEEN {} AND {}".format, NAMES, NUMBERS, NUMBERS),
    st.builds("{} IS NULL".format, NAMES),
    st.builds("{} + {} > {}".format, NAMES, NAMES, NUMBERS),
    NAMES,
)
CONDITIONS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(CONDITIONS, max_size=12), st.lists(MESSAGES, min_size=1, max_size=4))
def test_the_index_finds_what_each_selector_finds(
    texts: list[str], messages: list[dict[str, object]]
) -> None:
    selectors = [_core.Selector(text) for text in texts]
    index = _core.SelectorIndex(seed=5, evaluated_filters_max=0)
    for number, selector in enumerate(selectors):
        index.add(selector, number)
    for message in messages:
        expected = [number for number, selector in enumerate(selectors) if selector.matches(message)]
        assert index.matches(message) == expected


@settings(max_examples=300, deadline=None)
@given(CONDITIONS, MESSAGES)
def test_canonical_and_wire_form_keep_the_meaning(text: str, message: dict[str, object]) -> None:
    selector = Selector(text)
    for same in (Selector(str(selector)), Selector.decode(selector.encode())):
        assert same == selector
        assert same._core.matches(message) == selector._core.matches(message)


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_selector_or_an_invalid_one(text: str) -> None:
    error = _refusal(text)
    if error is not None:
        assert 0 <= error.position <= len(text)
        assert len(error.caret.splitlines()) == 2


def _refusal(text: str) -> InvalidSelectorError | None:
    try:
        Selector(text)
    except InvalidSelectorError as error:
        return error
    return None
