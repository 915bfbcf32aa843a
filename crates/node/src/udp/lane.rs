//! One lane on its way out: a stream of frames that is cut into datagrams.

use shoal_norm::Share;
use shoal_wire::frame::frame_bytes;

use super::datagram::Content;

/// What of a lane waits to be sent.
#[derive(Debug, Default)]
pub(super) struct OutLane {
    /// Its part of what the link sends.
    pub share: Share,
    /// Taken from the hub.
    pub bytes: Vec<u8>,
    /// How many of them were sent.
    at: usize,
    /// Where the frame begins that is next; may be behind the end of what is here.
    frame_at: usize,
    /// The place of the first byte in the stream.
    place: u64,
}

impl OutLane {
    pub fn new(share: Share) -> OutLane {
        OutLane { share, ..OutLane::default() }
    }

    /// Whether everything that was taken was sent.
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Bytes sent, ever.
    pub fn sent(&self) -> u64 {
        self.place + self.at as u64
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Gives back what was sent, to be filled by the hub.
    pub fn emptied(&mut self) -> &mut Vec<u8> {
        self.place += self.bytes.len() as u64;
        self.frame_at -= self.bytes.len();
        self.at = 0;
        self.bytes.clear();
        &mut self.bytes
    }

    /// Cuts off the next piece of at most so many bytes, and gives it to `write`.
    pub fn cut(&mut self, lane: usize, most: usize, write: impl FnOnce(&Content<'_>)) {
        let end = self.bytes.len().min(self.at + most);
        let first = (self.frame_at < end).then(|| self.frame_at - self.at);
        write(&Content::Data { lane, place: self.sent(), first, bytes: &self.bytes[self.at..end] });
        self.at = end;
        while self.frame_at < end {
            self.frame_at += frame_bytes(&self.bytes[self.frame_at..]).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_wire::frame;

    use super::*;

    #[test]
    fn every_piece_says_where_the_first_frame_in_it_begins() {
        let mut lane = OutLane::default();
        for length in [10, 3, 40] {
            frame::write(&vec![7; length], lane.emptied_for_test());
        }
        let mut firsts = Vec::new();
        while !lane.is_empty() {
            lane.cut(1, 16, |content| {
                let Content::Data { place, first, bytes, .. } = content else { panic!("{content:?}") };
                firsts.push((*place, *first, bytes.len()));
            });
        }
        // Frames begin at 0, 11 and 15.
        assert_eq!(firsts, [(0, Some(0), 16), (16, None, 16), (32, None, 16), (48, None, 8)]);
        assert_eq!(lane.sent(), 56);
        frame::write(&[1], lane.emptied());
        lane.cut(1, 16, |content| {
            assert!(matches!(content, Content::Data { place: 56, first: Some(0), .. }));
        });
    }

    impl OutLane {
        fn emptied_for_test(&mut self) -> &mut Vec<u8> {
            &mut self.bytes
        }
    }
}
