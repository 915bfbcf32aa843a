"""The rules of routing by number that a plain reading of the protocol misses, each with a switch.

Without a rule some seeds lose messages in silence, confirm a flush that is not true, or never end. What is
common to all runs is in the code: accept by number, ask for a gap from the next number on, Positions on
attach and when a chain falls silent.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Rules:
    """Which rules hold."""

    #: C1. A router believes an unwanted skip only from its parent on the chain's tree, under an equal digest.
    parent_and_digest: bool = True
    #: C2. When a branch changes, Applied 0 ends all earlier entries before the newest version is said anew.
    applied_anew: bool = True
    #: C3. `sync()` raises the floor to the version that it confirmed.
    sync_floor: bool = True
    #: C4. A skip that came over a link never answers that link; an asker that hears our upstream asks there.
    split_horizon: bool = True
    #: C5. Skips in a unicast answer carry the asker's version. A gap in a data lane clears its Applied, and a
    #: node that readmits a member asks for its whole interest.
    unicast_version: bool = True
    #: C6. A view's version is our clock when it was taken, and a skip is forwarded with that version itself.
    view_is_clock: bool = True
    #: C7. The first number of an unknown chain is taken if it is 1, or if a skip from 1 leads up to it.
    head_by_age: bool = True
    #: C8. A program reports its next number for a flush, not what its link acknowledged.
    program_next: bool = True
    #: C9. A flush waits for the children on the tree of its digest, alive or not.
    tree_children: bool = True
    #: C10. A Replay from a router that is not behind us is answered from the ring alone.
    ring_only: bool = True
    #: C11. The nearest hop has the last word of a publisher that left or failed; routers give up before
    #: readers do, and forward what they gave up as lost.
    last_word: bool = True
    #: C12. A flush is not confirmed while a router that left the tree without a goodbye may return.
    missing_router: bool = True
    #: C13. A Watch has a stamp, and routers forward only newer ones: the root of a program with two
    #: links changes, and Watches with different roots would replace each other for ever.
    watch_stamp: bool = True

    def without(self, *names: str) -> Rules:
        """The same, but for these."""
        return replace(self, **dict.fromkeys(names, False))


#: Names of all rules, by the number that the design gives them.
NAMES = {f"C{number}": field.name for number, field in enumerate(fields(Rules), 1)}
