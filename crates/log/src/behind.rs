//! What lies behind a bad frame: whether something there proves that the bad one was durable, and how far anything was
//! written. Recovery and [`verify`](crate::verify) ask the same question, so that both name the same range.

use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{HEADER_BYTES, Header, Place};
use crate::frames::Frames;

/// What was found behind a bad frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    /// The next valid frame.
    pub next: Option<Header>,
    /// The position after the last byte that is not zero; complete only if there is no next frame.
    pub written: u64,
}

/// Looks through a file from a bad frame up to `limit`. If the bad frame may be a torn one, valid frames behind it count
/// only if one of them says that the bad one was durable.
pub(crate) fn look_behind<D: Disk>(
    frames: &mut Frames<D>,
    position: u64,
    limit: u64,
    may_be_torn: bool,
) -> Result<Behind, LogError> {
    let (store, segment) = (frames.store(), frames.segment());
    let mut found = Behind { next: None, written: position };
    let mut first = None;
    let mut at = position;
    while at < limit {
        let left = usize::try_from(limit - at).unwrap_or(usize::MAX);
        let window = frames.bytes(at, HEADER_BYTES.min(left))?;
        let window = &window[..window.len().min(left)];
        if window.is_empty() {
            break;
        }
        // A window overlaps the next by a header, which may begin in its last bytes.
        let step = window.len().saturating_sub(HEADER_BYTES - 8).max(8) as u64 & !7;
        if let Some(last) = window.iter().rposition(|&byte| byte != 0) {
            found.written = found.written.max(at + last as u64 + 1);
            for candidate in candidates(window, store, segment, at) {
                if let Ok(header) = frames.read(candidate)? {
                    let next = *first.get_or_insert(header);
                    if !may_be_torn || header.synced > position {
                        return Ok(Behind { next: Some(next), ..found });
                    }
                }
            }
        }
        at += step;
    }
    Ok(found)
}

/// Where in a window, which lies at a place of the file, headers of frames of that place could be.
fn candidates(window: &[u8], store: u64, segment: u32, at: u64) -> Vec<u64> {
    let fits = |start: &usize| {
        let place = Place { store, segment, position: at + *start as u64 };
        Header::read(&window[*start..], place).is_ok()
    };
    (0..window.len().saturating_sub(HEADER_BYTES - 1))
        .step_by(8)
        .filter(fits)
        .map(|start| at + start as u64)
        .collect()
}
