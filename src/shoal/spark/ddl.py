"""Reads schemas as Spark writes them: `region STRING, size INT, tags ARRAY<STRING>`.

Spark's own reader is in the JVM, which the processes that plan a query do not have.
"""

import re
from collections.abc import Callable

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from shoal.errors import ConfigError

SCALARS: dict[str, Callable[[], DataType]] = {
    "STRING": StringType,
    "BOOLEAN": BooleanType,
    "SMALLINT": ShortType,
    "SHORT": ShortType,
    "INT": IntegerType,
    "INTEGER": IntegerType,
    "BIGINT": LongType,
    "LONG": LongType,
    "FLOAT": FloatType,
    "REAL": FloatType,
    "DOUBLE": DoubleType,
    "TIMESTAMP": TimestampType,
    "DATE": DateType,
}

_TOKEN = re.compile(r"\s*(?:(`[^`]+`|[\w.\-]+)|([<>,:]))")


def parse_schema(option: str, text: str) -> StructType:
    """The schema that the value of an option describes."""
    parser = _Parser(option, text)
    fields = parser.fields(end=None)
    names = [field.name for field in fields]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ConfigError(f"option {option} names {sorted(repeated)[0]} twice")
    return StructType(fields)


class _Parser:
    def __init__(self, option: str, text: str) -> None:
        self._option = option
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error(text[at:].strip()[0])
            self._tokens.append(match[1] or match[2])
            at = match.end()
        self._next = 0

    def fields(self, end: str | None) -> list[StructField]:
        fields = []
        while True:
            name = self._take().strip("`")
            if self._peek() == ":":
                self._take()
            fields.append(StructField(name, self._type()))
            if self._peek() == end:
                return fields
            self._expect(",")

    def _type(self) -> DataType:
        word = self._take()
        if word.upper() in SCALARS:
            return SCALARS[word.upper()]()
        if word.upper() == "ARRAY":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return ArrayType(element)
        if word.upper() == "STRUCT":
            self._expect("<")
            inner = StructType(self.fields(end=">"))
            self._expect(">")
            return inner
        raise self._error(word)

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise self._error("its end")
        self._next += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._take()
        if found != token:
            raise self._error(found)

    def _error(self, found: str) -> ConfigError:
        return ConfigError(
            f"option {self._option} must list names with their types, such as 'region STRING, size INT', not "
            f"{self._text!r} (stopped at {found}); types are {', '.join(SCALARS)}, ARRAY<…> and STRUCT<…>"
        )
