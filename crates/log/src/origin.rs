//! The bus's identity of a message and the log's are the same thing.

use shoal_node::Origin;
use shoal_wire::MessageView;

use crate::rows::Meta;

impl Meta {
    /// Who published a record and when: as it says itself, where somebody passed it on, or else as its stream says.
    #[inline]
    pub fn of(origin: &Origin, record: &[u8]) -> Meta {
        let mut meta = Meta::from(origin);
        let Ok(view) = MessageView::parse(record) else { return meta };
        if let Ok(Some(id)) = view.origin() {
            (meta.publisher, meta.chain, meta.number) = (id.publisher, id.chain, Some(id.number));
        }
        if let Ok(Some(timestamp_us)) = view.timestamp_us() {
            meta.timestamp_us = timestamp_us;
        }
        meta
    }
}

impl From<&Origin> for Meta {
    fn from(origin: &Origin) -> Meta {
        Meta {
            publisher: origin.publisher,
            chain: origin.chain,
            number: (origin.number > 0).then_some(origin.number),
            timestamp_us: origin.timestamp_us,
        }
    }
}
