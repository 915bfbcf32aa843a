"""Every exception that Shoal raises.

```
ShoalError
└── InvalidSelectorError (also ValueError)   a text is no selector or correlation filter
```
"""


class ShoalError(Exception):
    """The root of all exceptions that Shoal raises on its own account."""


class InvalidSelectorError(ShoalError, ValueError):
    """A text is not a valid message selector (or correlation filter).

    Attributes:
        position: where the mistake is, as an index into the text.
        found: what stands there.
        expected: what would have been accepted.
        caret: the text around the mistake, and under it a caret that points at it.
    """

    def __init__(self, position: int, found: str, expected: str, caret: str) -> None:
        super().__init__(position, found, expected, caret)
        self.position = position
        self.found = found
        self.expected = expected
        self.caret = caret

    def __str__(self) -> str:
        marked = "\n".join(f"    {line}" for line in self.caret.splitlines())
        return f"at position {self.position}: found {self.found}, expected {self.expected}\n{marked}"
