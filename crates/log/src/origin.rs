//! The bus's identity of a message and the log's are the same thing.

use shoal_node::Origin;

use crate::rows::Meta;

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
