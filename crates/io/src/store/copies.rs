//! A copy of another member's log, as it is fetched and put in the place of the own one.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use shoal_log::{Copying, Disk, LogError, Parts, is_whole, put_segment};

use super::shared::Shared;

/// A copy that this member needs, and others have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Which member offers its log; none if this member lacks a sealed segment, which every other one has.
    pub from: Option<u64>,
    /// The last entry in it, and its term.
    pub last: (u64, u64),
    /// Its files.
    pub parts: Parts,
}

impl<D: Disk> Shared<D> {
    fn copying(&self) -> MutexGuard<'_, Option<Copying<D>>> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn damaged(&self) -> MutexGuard<'_, Option<u32>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy that this member needs: of a log, because it lacks entries that no member has any more; or of a segment that is
    /// damaged here.
    pub fn offered(&self) -> Option<Offered> {
        if let Some((from, snapshot)) = self.look_at_replica(|replica, _| replica.offered()).flatten() {
            let parts = Parts::read(&snapshot.data)?;
            return Some(Offered { from: Some(from), last: (snapshot.index, snapshot.term), parts });
        }
        let number = (*self.damaged())?;
        let (parts, (index, term)) = self.look(|log| log.sealed_part(number))?;
        Some(Offered { from: None, last: (index, term.into()), parts })
    }

    /// Reads the oldest sealed segment behind one: its number, and whether it is whole. One that is not is wanted from another
    /// member. None if there is no such segment.
    pub fn scrub(&self, behind: u32) -> Option<(u32, bool)> {
        let store = self.look_at_replica(|replica, _| replica.log().store())?;
        let number = self.look(|log| log.sealed_behind(behind))?;
        let (parts, _) = self.look(|log| log.sealed_part(number))?;
        // Retention may have removed it meanwhile.
        let is_whole =
            is_whole(self.disk(), store, &parts) || self.look(|log| log.sealed_part(number)).is_none();
        if !is_whole {
            *self.damaged() = Some(number);
        }
        Some((number, is_whole))
    }

    /// Bytes of a segment, for a member that copies the log: as many as there are, and as are visible.
    pub fn read_part(&self, number: u32, position: u64, bytes_max: usize) -> Result<Vec<u8>, LogError> {
        let visible = self.look(|log| log.visible_bytes(number)).unwrap_or(0);
        let wanted = visible.saturating_sub(position).min(bytes_max as u64) as usize;
        let mut bytes = vec![0; wanted];
        let failed = |error| LogError::io(format!("reading segment {number}"), error);
        let file = self.disk().open(&shoal_log::segment_name(number)).map_err(failed)?;
        let mut filled = 0;
        while filled < wanted {
            match self.disk().read(&file, position + filled as u64, &mut bytes[filled..]).map_err(failed)? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Puts down bytes of the copy that is offered.
    pub fn put_part(&self, number: u32, position: u64, bytes: &[u8]) -> Result<(), LogError> {
        let Some(offered) = self.offered() else { return Ok(()) };
        let mut copying = self.copying();
        if copying.as_ref().is_none_or(|copying| *copying.parts() != offered.parts) {
            *copying = Some(Copying::new(self.disk().clone(), offered.parts, offered.from.is_some())?);
        }
        match &mut *copying {
            Some(copying) => copying.put(number, position, bytes),
            None => Ok(()),
        }
    }

    /// The oldest segment of the offered copy that was not looked at is here: its frames are read.
    pub fn check_part(&self) -> Result<(), LogError> {
        let Some(store) = self.look_at_replica(|replica, _| replica.log().store()) else { return Ok(()) };
        match &mut *self.copying() {
            Some(copying) => copying.check_next(store),
            None => Ok(()),
        }
    }

    /// Every byte of the offered copy was put down: it becomes the log. False if it is not to be, now.
    pub fn install(&self) -> Result<bool, LogError> {
        let Some(offered) = self.offered() else { return Ok(false) };
        let mut copying = self.copying();
        let Some(copy) = copying.as_mut().filter(|copying| *copying.parts() == offered.parts) else {
            return Ok(false);
        };
        let (index, term) = match self.look_at_replica(|replica, _| replica.log().store()) {
            Some(store) => copy.check(store)?,
            None => return Ok(false),
        };
        if (index, u64::from(term)) != offered.last {
            return Err(LogError::Refused(format!(
                "the copy ends at {index} of term {term}, and not at {} of term {}",
                offered.last.0, offered.last.1
            )));
        }
        if offered.from.is_none() {
            put_segment(self.disk(), offered.parts.first)?;
            self.forget_segment(offered.parts.first);
            *self.damaged() = None;
            *copying = None;
            return Ok(true);
        }
        let mut inner = self.lock();
        while inner.log().is_flushing() {
            inner = self.wait(inner, Duration::from_secs(1));
        }
        let now = inner.now();
        let is_installed = inner.member().is_some_and(|replica| replica.install(now));
        self.tell(&mut inner);
        if is_installed {
            *copying = None;
        }
        Ok(is_installed)
    }

    /// The offered copy cannot be fetched: what was put down of it goes.
    pub fn decline(&self) -> Result<(), LogError> {
        self.look_at_replica(|replica, _| replica.decline());
        match self.copying().take() {
            Some(copying) => copying.remove(),
            None => Ok(()),
        }
    }
}
