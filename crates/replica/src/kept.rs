//! What a member keeps beside its log: how it voted, the members, and an unfinished cut of the log.
//!
//! The file `group.state` has two slots of 4,096 bytes. Each write takes the other slot and is synced, so the one before
//! stays whole. A slot is
//!
//! ```text
//! u32 CRC-32C of the rest   u32 bytes of the rest   u64 sequence   u64 member   u64 store
//! u64 term   u64 vote   u64 commit   members   u64 members as of
//! u8 1 = a cut of the log is under way   u32 segment   u64 position
//! u8 1 = a copy takes the place of the log   u32 its first segment   u32 its last; missing in older slots
//! ```
//!
//! All numbers are little-endian; members are as in a message.

use std::sync::Arc;

use shoal_log::{Disk, LogError};

use crate::entries::State;
use crate::message::{Cursor, put_members};

const NAME: &str = "group.state";
const SLOT_BYTES: usize = 4096;

/// What stands in a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The member whose disk it is.
    pub member: u64,
    /// The store that the group is.
    pub store: u64,
    /// What Raft must not forget.
    pub state: State,
    /// From where on the log is being cut off.
    pub cut: Option<(u32, u64)>,
    /// Segments of a copy, from the first to the last, that is taking the place of the log.
    pub copy: Option<(u32, u32)>,
}

impl Kept {
    fn write(&self, sequence: u64) -> Vec<u8> {
        let State { term, vote, commit, members, members_at } = &self.state;
        let mut out = vec![0; 8];
        for number in [sequence, self.member, self.store, *term, *vote, *commit] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_members(&mut out, members);
        out.extend_from_slice(&members_at.to_le_bytes());
        let (segment, position) = self.cut.unwrap_or_default();
        out.push(self.cut.is_some().into());
        out.extend_from_slice(&segment.to_le_bytes());
        out.extend_from_slice(&position.to_le_bytes());
        let (first, last) = self.copy.unwrap_or_default();
        out.push(self.copy.is_some().into());
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&last.to_le_bytes());
        let length = out.len() as u32 - 8;
        out[4..8].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32c::crc32c(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
        out.resize(SLOT_BYTES, 0);
        out
    }

    fn read(slot: &[u8]) -> Option<(u64, Kept)> {
        let number = |at: usize| Some(u32::from_le_bytes(slot.get(at..at + 4)?.try_into().ok()?));
        let (checksum, length) = (number(0)?, number(4)? as usize);
        let covered = slot.get(4..8 + length)?;
        if length == 0 || crc32c::crc32c(covered) != checksum {
            return None;
        }
        let mut rest = Cursor(&covered[4..]);
        let mut next = || rest.number().ok();
        let (sequence, member, store) = (next()?, next()?, next()?);
        let (term, vote, commit) = (next()?, next()?, next()?);
        let members = rest.all_members().ok()?;
        let members_at = rest.number().ok()?;
        let is_cutting = rest.byte().ok()? != 0;
        let short = |rest: &mut Cursor| Some(u32::from_le_bytes(rest.take(4).ok()?.try_into().ok()?));
        let segment = short(&mut rest)?;
        let cut = Some((segment, rest.number().ok()?)).filter(|_| is_cutting);
        let copy = match rest.byte() {
            Ok(1) => Some((short(&mut rest)?, short(&mut rest)?)),
            _ => None,
        };
        let state = State { term, vote, commit, members, members_at };
        Some((sequence, Kept { member, store, state, cut, copy }))
    }
}

/// The file.
pub struct KeptFile<D: Disk> {
    disk: Arc<D>,
    file: Arc<D::File>,
    sequence: u64,
}

impl<D: Disk> KeptFile<D> {
    /// Whether a directory has one.
    pub fn is_there(disk: &D) -> Result<bool, LogError> {
        let files = disk.list().map_err(|error| LogError::io("listing the directory", error))?;
        Ok(files.iter().any(|(name, _)| name == NAME))
    }

    /// Makes it.
    pub fn create(disk: &Arc<D>, kept: &Kept) -> Result<KeptFile<D>, LogError> {
        let failed = |error| LogError::io(format!("making {NAME}"), error);
        let unfinished = format!("{NAME}.new");
        let file = disk.create(&unfinished, 2 * SLOT_BYTES as u64).map_err(failed)?;
        let mut made = KeptFile { disk: disk.clone(), file, sequence: 0 };
        made.write(kept)?;
        disk.rename(&unfinished, NAME).map_err(failed)?;
        disk.sync_directory().map_err(failed)?;
        Ok(made)
    }

    /// Reads the newer of the two slots.
    pub fn open(disk: &Arc<D>) -> Result<(KeptFile<D>, Kept), LogError> {
        let failed = |error| LogError::io(format!("reading {NAME}"), error);
        let file = disk.open(NAME).map_err(failed)?;
        let mut bytes = vec![0; 2 * SLOT_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            match disk.read(&file, filled as u64, &mut bytes[filled..]).map_err(failed)? {
                0 => break,
                count => filled += count,
            }
        }
        let found = bytes.chunks(SLOT_BYTES).filter_map(Kept::read).max_by_key(|(sequence, _)| *sequence);
        let (sequence, kept) = found.ok_or_else(|| {
            LogError::Refused(format!(
                "{NAME} is damaged, so nobody knows how this member voted: erase its directory, and let it join as a \
                 new member"
            ))
        })?;
        let mut made = KeptFile { disk: disk.clone(), file, sequence };
        // The newest may be in the page cache alone, and the disk's is the one before.
        made.write(&kept)?;
        Ok((made, kept))
    }

    /// Writes it, and returns when it is durable.
    pub fn write(&mut self, kept: &Kept) -> Result<(), LogError> {
        let failed = |error| LogError::io(format!("writing {NAME}"), error);
        self.sequence += 1;
        let at = (self.sequence % 2) * SLOT_BYTES as u64;
        self.disk.write(&self.file, at, &kept.write(self.sequence)).map_err(failed)?;
        self.disk.sync(&self.file).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::Members;

    #[test]
    fn a_slot_comes_back_as_it_was_and_no_flipped_bit_goes_unnoticed() {
        let members = Members::voting([1, 2, 3]);
        let state = State { term: 4, vote: 2, commit: 9, members, members_at: 7 };
        for (cut, copy) in [(None, None), (Some((3, 128)), None), (None, Some((1, 9)))] {
            let kept = Kept { member: 2, store: 77, state: state.clone(), cut, copy };
            let slot = kept.write(5);
            assert_eq!(slot.len(), SLOT_BYTES);
            assert_eq!(Kept::read(&slot), Some((5, kept)));
            let length = 8 + u32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]) as usize;
            for bit in 0..length * 8 {
                let mut flipped = slot.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Kept::read(&flipped), None, "bit {bit}");
            }
        }
        assert_eq!(Kept::read(&[0; SLOT_BYTES]), None);
    }
}
