//! What a session is given to send: streams, objects, files, commands and questions.

use crate::config::StreamOptions;
use crate::session::Session;
use crate::time::Time;
use crate::tx::stream::StreamState;
use crate::write_error::WriteError;
use crate::{NodeId, ObjectId};

impl Session {
    /// Opens a stream to send.
    pub fn open_stream(&mut self, options: &StreamOptions) -> Result<ObjectId, WriteError> {
        self.check_info(&options.info)?;
        self.sender.open_stream(options)
    }

    /// Appends to a stream; `starts_message` marks where a receiver may begin to read. Returns how much
    /// was taken: less than all of it while the cache is full, and then [`Event::Writable`] follows.
    pub fn write(
        &mut self,
        now: Time,
        object: ObjectId,
        data: &[u8],
        starts_message: bool,
    ) -> Result<usize, WriteError> {
        let stream = self.sender.stream_mut(object).filter(|stream| stream.state == StreamState::Open);
        let stream = stream.ok_or(WriteError::NoStream)?;
        let (taken, quiet) = (stream.write(data, starts_message), stream.quiet);
        if !quiet {
            self.sender.wake(now);
        }
        Ok(taken)
    }

    /// Makes everything written sendable now, though its last segment is not full.
    pub fn flush(&mut self, now: Time, object: ObjectId) -> Result<(), WriteError> {
        let stream = self.sender.stream_mut(object).ok_or(WriteError::NoStream)?;
        stream.push();
        if !stream.quiet {
            self.sender.wake(now);
        }
        Ok(())
    }

    /// Ends a stream. False if there was no room for its end: try again after [`Event::Writable`].
    pub fn close_stream(&mut self, now: Time, object: ObjectId) -> Result<bool, WriteError> {
        let ended = self.sender.stream_mut(object).ok_or(WriteError::NoStream)?.end();
        self.sender.wake(now);
        Ok(ended)
    }

    /// Forgets a stream at once. Receivers that still miss parts of it are refused.
    pub fn drop_stream(&mut self, object: ObjectId) {
        self.sender.drop_stream(object);
    }

    /// Sends bytes as NORM_OBJECT_DATA. `Ok(None)` if there is no room for them: try again after
    /// [`Event::ObjectRoom`].
    pub fn send_data(
        &mut self,
        now: Time,
        content: &[u8],
        info: &[u8],
    ) -> Result<Option<ObjectId>, WriteError> {
        self.check_info(info)?;
        self.sender.send_object(now, Ok(content), info)
    }

    /// Sends a file of `bytes` as NORM_OBJECT_FILE. Its bytes are asked for with [`Session::poll_read`].
    /// `Ok(None)` if there is no room for it: try again after [`Event::ObjectRoom`].
    pub fn send_file(&mut self, now: Time, bytes: u64, info: &[u8]) -> Result<Option<ObjectId>, WriteError> {
        self.check_info(info)?;
        self.sender.send_object(now, Err(bytes), info)
    }

    fn check_info(&self, info: &[u8]) -> Result<(), WriteError> {
        if info.len() > usize::from(self.config.segment_bytes) {
            return Err(WriteError::InfoTooLong);
        }
        Ok(())
    }

    /// Bytes of a file, as [`Session::poll_read`] asked for them.
    pub fn supply_file(&mut self, object: ObjectId, offset: u64, bytes: &[u8]) {
        if let Some(object) = self.sender.objects.find_mut(object) {
            object.supply(offset, bytes);
        }
    }

    /// Forgets an object being sent. Receivers that have parts of it are told. False if there is none.
    pub fn cancel_object(&mut self, object: ObjectId) -> bool {
        self.sender.cancel_object(object)
    }

    /// Says something to everybody with NORM_CMD(APPLICATION), `times` times, because it is not repaired. It
    /// must fit into a segment. False if the last command is still being repeated.
    pub fn send_command(&mut self, now: Time, content: &[u8], times: u32) -> Result<bool, WriteError> {
        self.check_info(content)?;
        // Repetitions are timed by the round trip; what is said once needs none.
        if times > 1 {
            self.sender.wake(now);
        }
        Ok(self.sender.questions.say(now, content, times))
    }

    /// Asks nodes for an acknowledgement of a type an application defined (16 to 255), with NORM_CMD(ACK_REQ);
    /// [`Event::AcksDone`] tells who gave it. False if the last question is still open, or the type is NORM's
    /// own.
    pub fn request_acks(&mut self, now: Time, ack_type: u8, ack_id: u8, nodes: &[NodeId]) -> bool {
        let times = self.config.robust_factor;
        let fits = nodes.len() * 4 <= usize::from(self.config.segment_bytes);
        self.sender.wake(now);
        ack_type >= 16 && fits && self.sender.questions.ask(now, ack_type, ack_id, nodes, times)
    }
}
