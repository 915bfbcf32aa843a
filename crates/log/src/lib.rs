//! The store's log kernel: everything durable is a frame in one append-only log per store.
//!
//! Sans-IO: files are behind [`Disk`], time and random numbers are arguments. Bytes in, bytes out, no policy: what to
//! keep and for how long is decided by whoever uses it.
//!
//! - [`Log`] appends, gives offsets and makes them durable, many appends with one sync;
//! - [`Cursor`] reads messages back, in order, by topic and selector;
//! - [`build_index`] makes the index of a sealed segment from the segment alone.
//!
//! The format is described byte by byte in `docs/reference/log-format.md`.

#![forbid(unsafe_code)]

pub mod columns;

mod backlog;
mod behind;
mod bytes;
mod cache;
mod chains;
mod commit;
mod copied;
mod cursor;
mod deliveries;
mod disk;
mod error;
mod filter;
mod flush;
mod forwarded;
mod frame;
mod frames;
mod gap;
mod hearing;
mod index;
mod indexer;
mod log;
mod marks;
mod member;
mod numbering;
mod origin;
mod plan;
mod queries;
mod readers;
mod recent;
mod recovery;
mod retention;
mod row;
mod rows;
mod segment;
mod source;
mod spares;
mod state;
mod tail;
mod turn;
mod verify;

pub use backlog::{Backlog, BacklogOptions, Counts, Facts, Finished, GROUP_BUCKETS};
pub use cache::Cache;
pub use chains::{CHAINS_MAX, Chain, Chains};
pub use copied::{Copying, PARTS_MAX, Parts, is_whole, put_copy, put_segment, remove_all};
pub use cursor::{Cursor, GapRow, Query, Snapshot};
pub use deliveries::{Deliveries, Delivery, Grants, RunMap};
pub use disk::Disk;
pub use error::LogError;
pub use filter::{FILTER_TOPICS_MAX, Filter};
pub use flush::{Durable, Flush};
pub use forwarded::{Destinations, Forwarded, Known, NumberRun, Portion};
pub use frame::{HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX, TERM_MAX};
pub use gap::Gap;
pub use hearing::{HEARD_CHAINS_MAX, Heard, Hearing};
pub use index::{Block, INDEX_VERSION, Index, TopicEntry};
pub use indexer::{INDEX_BLOCK_BYTES, build_index, has_index};
pub use log::{CommitOutcome, Log, Options, STAGINGS_MAX};
pub use marks::{MARKS_MAX, MARKS_SEGMENTS_MAX, Mark, MarkKey, Marks, find_marks, lane_of};
pub use member::cut_off;
pub use numbering::{FIRST_INDEX, Indexed};
pub use queries::{Clock, Extent, extent, gaps, offset_at, split, topics};
pub use readers::{Reader, Readers};
pub use recent::{RECENT_BYTES_MAX, Recent, RecentFrame};
pub use recovery::{Identity, Recovery};
pub use retention::compact;
pub use row::Row;
pub use rows::{Meta, PlacedRow, RowsReader, RowsWriter};
pub use segment::{Incarnation, LOG_VERSION, Segment, SegmentInfo, Start, segment_name};
pub use source::Source;
pub use spares::SPARES_KEPT;
pub use state::{Change, Committed, NAME_BYTES_MAX, StagedFrame, Staging, State};
pub use tail::{TAIL_TOPICS_MAX, Tail};
pub use turn::{Appended, Intake, IntakeError, Turn};
pub use verify::{Damage, SegmentReport, Verification, verify};
