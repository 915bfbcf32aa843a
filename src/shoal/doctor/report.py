"""What the checks found."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

#: `FAIL` keeps messages from arriving, `warn` may, `skip` could not be looked at.
Verdict = Literal["ok", "warn", "FAIL", "skip"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    #: Of the check, such as `D01`; it never means another check.
    id: str
    verdict: Verdict
    #: What was found, and where.
    text: str
    #: What to do; empty if there is nothing to do.
    advice: str = ""

    def __str__(self) -> str:
        line = f"{self.verdict:<4} {self.id} {self.text}"
        return f"{line} → {self.advice}" if self.advice else line


@dataclass(frozen=True, slots=True)
class Report:
    """What all checks found, in the order of their ids."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What is wrong, or may be."""
        return tuple(finding for finding in self.findings if finding.verdict in ("warn", "FAIL"))

    @property
    def failed(self) -> bool:
        """Whether something keeps messages from arriving."""
        return any(finding.verdict == "FAIL" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """All of it in a line."""
        skipped = sum(finding.verdict == "skip" for finding in self.findings)
        checked = len(self.findings) - skipped
        counted = f"{checked} checks, {skipped} skipped"
        if not self.problems:
            return f"No problem found ({counted})."
        failures = [finding.id for finding in self.problems if finding.verdict == "FAIL"]
        warnings = [finding.id for finding in self.problems if finding.verdict == "warn"]
        named = [
            f"{len(ids)} {what}{'' if len(ids) == 1 else 's'} ({', '.join(ids)})"
            for what, ids in (("failure", failures), ("warning", warnings))
            if ids
        ]
        return f"{' and '.join(named)} ({counted})."

    def lines(self) -> Iterator[str]:
        """A line for each check, then the verdict."""
        yield from map(str, self.findings)
        yield self.verdict

    def as_json(self) -> str:
        """The same for programs."""
        return json.dumps(
            {
                "failed": self.failed,
                "problems": [finding.id for finding in self.problems],
                "checks": [asdict(finding) for finding in self.findings],
            }
        )


def ordered(findings: Sequence[Finding]) -> Report:
    """The report of these findings; of two of one check the later counts, which was made with a peer."""
    last = {finding.id: finding for finding in findings}
    return Report(tuple(finding for _, finding in sorted(last.items())))
