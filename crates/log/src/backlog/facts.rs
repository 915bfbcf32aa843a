//! What a backlog has to know of a message; the rest stays in the log.

use shoal_wire::MessageView;

use crate::row::Row;

/// Groups share so many buckets: groups of one bucket have the same consumer at a time.
pub const GROUP_BUCKETS: u16 = 1024;

/// What decides when and to whom a message goes. Times are microseconds since 1970 by the store's clock.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its offset.
    pub offset: u64,
    /// How long its record is.
    pub bytes: u32,
    /// 0 to 9.
    pub priority: u8,
    /// The bucket of its group, if it has one.
    pub group: Option<u16>,
    /// Not before this.
    pub due_us: u64,
    /// Not at this time or later.
    pub expires_us: u64,
}

impl Facts {
    /// Reads them. A record that cannot be read has none of them, and is delivered all the same.
    pub fn of(row: &Row<'_>) -> Facts {
        let bytes = row.record.len() as u32;
        let plain =
            Facts { offset: row.offset, bytes, priority: 4, group: None, due_us: 0, expires_us: u64::MAX };
        let Ok(view) = MessageView::parse(row.record) else { return plain };
        let facts = Facts { priority: view.priority().get(), ..plain };
        let Ok(fields) = view.fields() else { return facts };
        Facts {
            group: fields.group.map(bucket_of),
            due_us: fields.delivery_delay_us.map_or(0, |delay| row.stored_us.saturating_add(delay)),
            expires_us: fields.ttl_us.map_or(u64::MAX, |ttl| row.stored_us.saturating_add(ttl)),
            ..facts
        }
    }
}

/// FNV-1a: the same bucket for a group, whoever computes it.
fn bucket_of(group: &str) -> u16 {
    let hash = group
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash % u64::from(GROUP_BUCKETS)) as u16
}
