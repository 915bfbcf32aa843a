//! EXT_AUTH: what proves that a message comes from whom it says (RFC 5740 section 4.1, RFC 6584).
//!
//! NORM carries the proof and does not care what it is: a MAC, a signature, a label. Whoever has one implements
//! [`Authenticator`] and puts it into [`crate::Config::auth`]. Then EXT_AUTH is the last extension of every
//! message that is sent, and equally long in all of them, so that runs of equal datagrams stay equal. A message
//! that comes in is believed only after the authenticator accepted it.
//!
//! RFC 6584 lets the content begin with four bits that number the scheme (ASID); here they are the
//! authenticator's like all the rest. Replays are for it to refuse too: NORM's own sequence numbers are short
//! and not secret.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::stats::Reject;
use crate::wire::extension::{self, EXT_AUTH};
use crate::wire::{COMMON_HEADER_BYTES, Message};

/// The longest content of EXT_AUTH; a header has room for more, but not in every scheme.
pub const AUTH_CONTENT_BYTES_MAX: usize = 510;
/// What stands before the content: type and length.
const EXTENSION_HEADER_BYTES: usize = 2;

/// Makes and checks the content of EXT_AUTH.
///
/// It is called for every message, on the thread that drives the session; an authenticator with state of its
/// own keeps that behind a lock or in atomics.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Bytes of content, the same for every message: two more than a multiple of four, as its type and length
    /// fill up the first word, and at most [`AUTH_CONTENT_BYTES_MAX`].
    fn content_bytes(&self) -> usize;

    /// Writes `message[content]`, which is zero. The rest of the message goes out as it is now.
    fn seal(&self, message: &mut [u8], content: Range<usize>);

    /// Whether to believe a message. `content` is where its EXT_AUTH has its content; `None` if it has none.
    fn accepts(&self, message: &[u8], content: Option<Range<usize>>) -> bool;
}

/// The same bytes in every message: a label that tells groups apart, and no proof of anything.
#[derive(Clone, Debug)]
pub struct AuthLabel {
    content: Vec<u8>,
    required: bool,
}

impl AuthLabel {
    /// A label, padded with zeros to a length EXT_AUTH can have. Messages with another one are refused; those
    /// with none are too if it is `required`.
    pub fn new(label: &[u8], required: bool) -> AuthLabel {
        let words = (label.len() + EXTENSION_HEADER_BYTES).div_ceil(4);
        let mut content = label.to_vec();
        content.resize(words * 4 - EXTENSION_HEADER_BYTES, 0);
        AuthLabel { content, required }
    }
}

impl Authenticator for AuthLabel {
    fn content_bytes(&self) -> usize {
        self.content.len()
    }

    fn seal(&self, message: &mut [u8], content: Range<usize>) {
        message[content].copy_from_slice(&self.content);
    }

    fn accepts(&self, message: &[u8], content: Option<Range<usize>>) -> bool {
        content.map_or(!self.required, |content| message.get(content) == Some(&self.content[..]))
    }
}

/// The authenticator of a session, if it has one.
type Auth = Option<Arc<dyn Authenticator>>;

/// Whether the length an authenticator asks for can be had.
pub(crate) fn fits(auth: &Auth) -> bool {
    auth.as_ref().is_none_or(|auth| {
        let bytes = auth.content_bytes();
        bytes <= AUTH_CONTENT_BYTES_MAX && bytes % 4 == EXTENSION_HEADER_BYTES
    })
}

/// Bytes by which EXT_AUTH lengthens every message.
pub(crate) fn extension_bytes(auth: &Auth) -> usize {
    auth.as_ref().map_or(0, |auth| auth.content_bytes() + EXTENSION_HEADER_BYTES)
}

/// Puts an EXT_AUTH of so many bytes at the end of the header of a finished message.
pub(crate) fn reserve(message: &mut Vec<u8>, extension_bytes: usize) {
    if extension_bytes == 0 {
        return;
    }
    let at = usize::from(message[1]) * 4;
    let words = (extension_bytes / 4) as u8;
    let extension = [EXT_AUTH, words].into_iter().chain(std::iter::repeat(0)).take(extension_bytes);
    message.splice(at..at, extension);
    message[1] += words;
}

/// Seals each of the messages that lie side by side.
pub(crate) fn seal(auth: &Auth, messages: &mut [u8], message_bytes: usize) {
    let Some(auth) = auth else { return };
    for message in messages.chunks_mut(message_bytes) {
        let end = usize::from(message[1]) * 4;
        let content = end - auth.content_bytes()..end;
        // A cached message still has what it was sealed with before.
        message[content.clone()].fill(0);
        auth.seal(message, content);
    }
}

/// Refuses a message that the authenticator does not believe.
pub(crate) fn verify(auth: &Auth, datagram: &[u8], message: &Message<'_>) -> Result<(), Reject> {
    let Some(auth) = auth else { return Ok(()) };
    let header_end = usize::from(datagram[1]) * 4;
    let start = message.extensions_at().max(COMMON_HEADER_BYTES);
    let found = datagram.get(start..header_end).map(extension::find_auth).transpose()?.flatten();
    let content = found.map(|at| start + at.start..start + at.end);
    if auth.accepts(datagram, content) { Ok(()) } else { Err(Reject::Authentication) }
}
