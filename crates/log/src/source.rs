//! Where messages are read from: from memory if they came just now, otherwise from the disk.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cursor::{Cursor, Snapshot};
use crate::disk::Disk;
use crate::error::LogError;
use crate::filter::Filter;
use crate::recent::RecentFrame;
use crate::row::Row;
use crate::rows::{Meta, RowsPlace};

/// Messages that are durable, from an offset on.
pub struct Source<D: Disk> {
    disk: Arc<D>,
    end: u64,
    rows: Rows,
}

enum Rows {
    /// All of them.
    Recent(Vec<RecentFrame>),
    Stored(Box<Snapshot>),
}

impl<D: Disk> Source<D> {
    /// Messages that came just now, up to before an offset.
    pub fn recent(disk: Arc<D>, frames: Vec<RecentFrame>, end: u64) -> Source<D> {
        Source { disk, end, rows: Rows::Recent(frames) }
    }

    /// Messages on the disk.
    pub fn stored(disk: Arc<D>, snapshot: Snapshot) -> Source<D> {
        Source { disk, end: snapshot.end(), rows: Rows::Stored(Box::new(snapshot)) }
    }

    /// The offset after the last.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Hands over the messages that a filter wants, from an offset on and below another, until told to stop. Returns the
    /// offset up to which messages were looked at.
    pub fn each(
        &self,
        from: u64,
        to: u64,
        filter: &mut Filter,
        mut take: impl FnMut(&Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64, LogError> {
        let to = to.min(self.end);
        if from >= to {
            return Ok(from);
        }
        match &self.rows {
            Rows::Recent(frames) => Ok(each_recent(frames, from, to, filter, take)),
            Rows::Stored(snapshot) => {
                let mut cursor = Cursor::new(self.disk.clone(), snapshot, &filter.query(from, to))?;
                while let Some(row) = cursor.next()? {
                    if take(&row).is_break() {
                        return Ok(row.offset + 1);
                    }
                }
                Ok(to)
            }
        }
    }
}

fn each_recent(
    frames: &[RecentFrame],
    from: u64,
    to: u64,
    filter: &mut Filter,
    mut take: impl FnMut(&Row<'_>) -> ControlFlow<()>,
) -> u64 {
    for frame in frames {
        let Some(mut place) = RowsPlace::new(&frame.rows, 0, frame.first) else { continue };
        while let Ok(Some(found)) = place.next(&frame.rows) {
            if found.offset < from {
                continue;
            }
            if found.offset >= to {
                return to;
            }
            let Meta { publisher, chain, number, timestamp_us } = found.meta;
            let record = &frame.rows[found.start..found.start + found.length];
            let (offset, stored_us) = (found.offset, frame.stored_us);
            let row = Row { offset, stored_us, publisher, chain, number, timestamp_us, record };
            if filter.wants(&row) && take(&row).is_break() {
                return offset + 1;
            }
        }
    }
    to
}
