//! What can go wrong with a log. Each says what happened, to what, and what to do.

use std::io;

use thiserror::Error;

/// Why a frame is damaged whose checksum is right.
pub(crate) const MEANINGLESS: &str = "a frame whose checksum is right has no meaning";

/// A log could not do what it was asked.
#[derive(Debug, Error)]
pub enum LogError {
    /// The disk refused, and nothing of it was done.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What the disk said.
        error: io::Error,
    },
    /// Bytes that were durable are not what was written.
    #[error(
        "{file} is damaged from byte {from} to byte {to} ({why}); it holds offsets {first} to {end}. \
         Nothing was changed: keep the file, restore it from a copy, or move the directory away. \
         `shoal store verify` says what else is damaged"
    )]
    Corrupt {
        /// The file's name.
        file: String,
        /// The first byte that cannot be read.
        from: u64,
        /// The byte after the last.
        to: u64,
        /// The first offset of what is damaged.
        first: u64,
        /// The offset after the last.
        end: u64,
        /// What is wrong with it.
        why: String,
    },
    /// There is no room for more messages.
    #[error(
        "the disk is full: no room for another segment of {bytes} bytes. Free some space or shorten the \
         retention; the store goes on by itself"
    )]
    Full {
        /// What was asked of the disk.
        bytes: u64,
    },
    /// An earlier write or sync failed.
    #[error("the log failed and takes nothing more until it is opened again: {why}")]
    Failed {
        /// What failed.
        why: String,
    },
    /// What is asked for was removed by retention.
    #[error("offset {offset} is gone: history begins at {floor}")]
    Trimmed {
        /// What was asked for.
        offset: u64,
        /// Where history begins.
        floor: u64,
    },
    /// The files are of another version.
    #[error("{file} has format version {found}, and this program reads versions 1 to {wanted}")]
    Version {
        /// The file's name.
        file: String,
        /// Its version.
        found: u16,
        /// Ours.
        wanted: u16,
    },
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Refused(String),
}

impl LogError {
    /// Damage that was met on the way to an offset, and that costs at the most what follows up to an offset and a position.
    pub(crate) fn up_to(self, offset: u64, (end_offset, end_position): (u64, u64)) -> LogError {
        match self {
            LogError::Corrupt { file, from, why, .. } => LogError::Corrupt {
                file,
                from,
                to: end_position.max(from),
                first: offset,
                end: end_offset.max(offset),
                why,
            },
            other => other,
        }
    }

    /// An error of the disk, with what was tried.
    pub fn io(what: impl Into<String>, error: io::Error) -> LogError {
        LogError::Io { what: what.into(), error }
    }
}
