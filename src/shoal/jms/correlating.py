"""Correlation filters as selectors, for consumers that a store serves: a store evaluates selectors."""

import re
from collections.abc import Iterator

from shoal.errors import InvalidSelectorError
from shoal.selector import CorrelationFilter

#: Ids that a filter may come to where a store evaluates it.
IDS_MAX = 1024

_ID = r"(?:'(?:[^']|'')*'|[^,;\[\]'\s]+)\s*"
_ITEM = re.compile(rf"\s*(?:\[\s*(?P<low>{_ID});\s*(?P<high>{_ID})\]|(?P<id>{_ID}))\s*(?:,|$)")
_NUMBERED = re.compile(r"(.*?)0*(\d+)", re.DOTALL)


def selector_of(selector: str | None, correlation: str | CorrelationFilter | None) -> str | None:
    """A selector that also asks for correlation ids.

    Raises:
        InvalidSelectorError: the filter is none, or takes in more than a selector can say.
    """
    if correlation is None:
        return selector
    wanted = correlation if isinstance(correlation, CorrelationFilter) else CorrelationFilter(correlation)
    ids = list(dict.fromkeys(_ids(wanted)))
    quoted = ", ".join("'" + each.replace("'", "''") + "'" for each in ids)
    asked = f"JMSCorrelationID IN ({quoted})"
    return f"({selector}) AND {asked}" if selector else asked


def _ids(wanted: CorrelationFilter) -> Iterator[str]:
    """Every id of a filter; a range of numbers is that of the ids without leading zeros."""
    count = 0
    for item in _ITEM.finditer(str(wanted)):
        prefix, first, last = "", 0, 0
        if item["id"] is None:
            low, high = (_NUMBERED.fullmatch(_plain(item[end])) for end in ("low", "high"))
            if low is None or high is None:
                raise _refused(
                    wanted, item, "ids, or ranges of numbers such as [#7;#13]: it compares no texts"
                )
            prefix, first, last = low[1], int(low[2]), int(high[2])
        count += last - first + 1
        if count > IDS_MAX:
            raise _refused(wanted, item, f"at most {IDS_MAX} ids, ranges counted out")
        if item["id"] is None:
            yield from (f"{prefix}{number}" for number in range(first, last + 1))
        else:
            yield _plain(item["id"])


def _refused(wanted: CorrelationFilter, item: re.Match[str], expected: str) -> InvalidSelectorError:
    text = item.group().strip(", ")
    where = "where a store serves the consumer, for a queue or a named subscription"
    return InvalidSelectorError(
        item.start(), repr(text), f"{expected} ({where})", f"{wanted}\n{' ' * item.start()}^"
    )


def _plain(text: str) -> str:
    text = text.strip()
    return text[1:-1].replace("''", "'") if text.startswith("'") else text
