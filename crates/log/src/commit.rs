//! The frame that makes stagings visible.
//!
//! ```text
//! text  scope; if it is empty, nothing is remembered of the commit
//! u64   number
//! u64   how many rows
//! u32   how many stagings, in the order in which their rows get offsets; each:
//!   text  id
//!   u32   how many frames, each: u32 segment, u64 position, u32 rows, u32 bytes
//! ```

use crate::bytes::{Reader, write_text};
use crate::frame::Header;
use crate::state::{Change, Committed, StagedFrame, State, read_frames, write_frames};

/// The payload of a commit's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub scope: String,
    pub number: u64,
    pub stagings: Vec<(String, Vec<StagedFrame>)>,
}

impl Commit {
    pub fn rows(&self) -> u64 {
        self.frames().map(|frame| u64::from(frame.rows)).sum()
    }

    pub fn frames(&self) -> impl Iterator<Item = &StagedFrame> {
        self.stagings.iter().flat_map(|(_, frames)| frames)
    }

    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_text(&mut out, &self.scope);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.rows().to_le_bytes());
        out.extend_from_slice(&(self.stagings.len() as u32).to_le_bytes());
        for (id, frames) in &self.stagings {
            write_text(&mut out, id);
            write_frames(frames, &mut out);
        }
        out
    }

    pub fn read(payload: &[u8]) -> Option<Commit> {
        let mut reader = Reader(payload);
        let (scope, number) = (reader.text()?.to_owned(), reader.u64()?);
        let rows = reader.u64()?;
        let count = reader.u32()?;
        let mut staging = || Some((reader.text()?.to_owned(), read_frames(&mut reader)?));
        let stagings = (0..count).map(|_| staging()).collect::<Option<_>>()?;
        let commit = Commit { scope, number, stagings };
        (reader.0.is_empty() && commit.rows() == rows).then_some(commit)
    }

    /// What it does to the state, where its frame says.
    pub fn apply(&self, header: &Header, state: &mut State) {
        let (first, end) = (header.offset, header.offset + self.rows());
        for (id, frames) in &self.stagings {
            state.apply(Change::Discard(id.clone()));
            for frame in frames.iter().filter(|frame| frame.segment != header.place.segment) {
                state.apply(Change::Needed(frame.segment, header.place.segment));
            }
        }
        if !self.scope.is_empty() {
            let committed = Committed { number: self.number, first, end };
            state.apply(Change::Commit(self.scope.clone(), committed));
        }
        if first < end {
            state.apply(Change::Publish(first, end));
        }
    }
}
