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
    /// When it was stored, or its delivery time, if it has a delay: its place among those of its priority.
    pub at_us: u64,
    /// Not before this.
    pub due_us: u64,
    /// Messages of one publisher and chain with the same delay have the same; 0 without a delay.
    pub order: u64,
    /// Not at this time or later.
    pub expires_us: u64,
}

impl Facts {
    /// Reads them. A record that cannot be read has none of them, and is delivered all the same.
    pub fn of(row: &Row<'_>) -> Facts {
        let bytes = row.record.len() as u32;
        let (offset, at_us) = (row.offset, row.stored_us);
        let plain = Facts {
            offset,
            bytes,
            priority: 4,
            group: None,
            at_us,
            due_us: 0,
            order: 0,
            expires_us: u64::MAX,
        };
        let Ok(view) = MessageView::parse(row.record) else { return plain };
        let facts = Facts { priority: view.priority().get(), ..plain };
        let Ok(fields) = view.fields() else { return facts };
        // Times count from when it was sent, and so does what it waited for before it came here.
        let sent_us = row.stored_us.saturating_sub(fields.held_us.unwrap_or(0));
        let due_us = fields.delivery_delay_us.map_or(0, |delay| sent_us.saturating_add(delay));
        let order =
            |delay: u64| hash([row.publisher, row.chain.into(), delay].map(u64::to_le_bytes).concat());
        Facts {
            group: fields.group.map(bucket_of),
            at_us: row.stored_us.max(due_us),
            due_us,
            order: fields.delivery_delay_us.map_or(0, order),
            expires_us: fields.ttl_us.map_or(u64::MAX, |ttl| sent_us.saturating_add(ttl)),
            ..facts
        }
    }
}

/// The same bucket for a group, whoever computes it.
fn bucket_of(group: &str) -> u16 {
    (hash(group.bytes()) % u64::from(GROUP_BUCKETS)) as u16
}

/// FNV-1a.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}
