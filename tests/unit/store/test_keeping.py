"""The projection of a store whose disk is full."""

from pathlib import Path

from shoal._core import Log, encode_record
from shoal.store import resolve
from shoal.store.keeping import Keeper
from shoal.store.projection import Projection

SEGMENT_BYTES = 64 << 10


def test_a_store_starts_though_its_projection_cannot_be_written(tmp_path: Path) -> None:
    log = Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=1 << 26, segment_bytes=SEGMENT_BYTES)
    for number in range(300):
        log.append(1, 1, [(None, number + 1, encode_record(f"topic/{number}", bytes(1000)))])
    log.sync()
    projection = Projection(tmp_path / "state.sqlite")
    # SQLite raises what it raises on a full disk.
    (pages,) = projection._database.execute("PRAGMA page_count").fetchone()
    projection._database.execute(f"PRAGMA max_page_count = {pages}")
    keeper = Keeper(log, resolve(tmp_path, (), segment_bytes=SEGMENT_BYTES), projection)
    assert len(keeper.projection.segments()) > 2
    assert not (tmp_path / "state.sqlite").exists()
    keeper.turn()
