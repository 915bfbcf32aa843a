//! Files to and from disk, for sessions that send and receive them block by block.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use shoal_norm::{Event, ObjectId, ObjectKind, Session, StreamId};

/// The files of one link.
#[derive(Debug, Default)]
pub struct Files {
    outgoing: HashMap<ObjectId, File>,
    incoming: HashMap<StreamId, File>,
    /// Where what is received goes; without it, chunks go to the application.
    directory: Option<PathBuf>,
    buffer: Vec<u8>,
    /// Files of which a part could not be written: what still comes of them is dropped, until they are given up.
    spoiled: HashSet<StreamId>,
    /// What the disk refused, until it is told.
    pub failures: Vec<FileFailure>,
    /// The last of it, until somebody asks.
    pub error: Option<String>,
}

/// A file that could not be read or written. It is told once, and the object is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFailure {
    /// One that was being sent; it is cancelled.
    Sending(ObjectId, String),
    /// One that was being received; what there was of it is removed, and the session is to abandon it.
    Receiving(StreamId, String),
}

impl FileFailure {
    /// What happened, to what.
    pub fn why(&self) -> &str {
        match self {
            FileFailure::Sending(_, why) | FileFailure::Receiving(_, why) => why,
        }
    }
}

/// Where a received file is put, under a name that no two objects share.
pub fn path_in(directory: &Path, object: StreamId) -> PathBuf {
    directory.join(format!("{}-{}-{}", object.node, object.instance, object.object))
}

impl Files {
    /// Files that are received into a directory, if one is named.
    pub fn new(directory: Option<PathBuf>) -> Files {
        Files { directory, ..Files::default() }
    }

    /// Opens a file to send; tells how long it is.
    pub fn open(path: &Path) -> io::Result<(File, u64)> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    /// A file is being sent as this object.
    pub fn send(&mut self, object: ObjectId, file: File) {
        self.outgoing.insert(object, file);
    }

    /// Reads what a session asks for. A file that cannot be read is cancelled.
    pub fn serve(&mut self, session: &mut Session) {
        while let Some(read) = session.poll_read() {
            self.buffer.resize(read.bytes, 0);
            let result = match self.outgoing.get(&read.object) {
                Some(file) => file.read_exact_at(&mut self.buffer, read.offset),
                None => Err(io::Error::from(io::ErrorKind::NotFound)),
            };
            match result {
                Ok(()) => session.supply_file(read.object, read.offset, &self.buffer),
                Err(error) => {
                    let why = format!("a file being sent cannot be read: {error}");
                    self.fail(FileFailure::Sending(read.object, why));
                    self.outgoing.remove(&read.object);
                    session.cancel_object(read.object);
                }
            }
        }
    }

    /// Takes note of an event. True if it was all about a file on disk, and concerns nobody else.
    pub fn on_event(&mut self, event: &Event) -> bool {
        match event {
            Event::ObjectReleased { object } => {
                self.outgoing.remove(object);
            }
            Event::ObjectOpened { object, kind: ObjectKind::File, bytes } => self.begin(*object, *bytes),
            Event::FileChunk { object, offset, bytes } => {
                if let Some(file) = self.incoming.get(object) {
                    if let Err(error) = file.write_all_at(bytes, *offset) {
                        self.spoil(*object, &error);
                    }
                    return true;
                }
                return self.directory.is_some();
            }
            Event::FileReceived { object, .. } => {
                self.incoming.remove(object);
                // Its failure was told; that all of it came helps nobody.
                return self.spoiled.remove(object);
            }
            Event::ObjectAborted { object, .. } => {
                if self.spoiled.remove(object) {
                    return true;
                }
                if self.incoming.remove(object).is_some()
                    && let Some(directory) = &self.directory
                {
                    let _ = fs::remove_file(path_in(directory, *object));
                }
            }
            _ => {}
        }
        false
    }

    fn begin(&mut self, object: StreamId, bytes: u64) {
        let Some(directory) = &self.directory else { return };
        let path = path_in(directory, object);
        let created = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        match created.and_then(|file| file.set_len(bytes).map(|()| file)) {
            Ok(file) => {
                self.incoming.insert(object, file);
            }
            Err(error) => self.spoil(object, &error),
        }
    }

    /// A received file could not be written: what there is of it is of no use.
    fn spoil(&mut self, object: StreamId, error: &io::Error) {
        self.incoming.remove(&object);
        self.spoiled.insert(object);
        let Some(directory) = &self.directory else { return };
        let path = path_in(directory, object);
        let why = format!("{} cannot be written: {error}", path.display());
        let _ = fs::remove_file(path);
        self.fail(FileFailure::Receiving(object, why));
    }

    fn fail(&mut self, failure: FileFailure) {
        self.error = Some(failure.why().to_owned());
        self.failures.push(failure);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shoal_norm::{AbortReason, Config, Source, Time};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("shoal-files-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn a_file_goes_from_disk_to_disk() {
        let directory = scratch("copy");
        let (from, content) =
            (directory.join("from"), (0..300_000u32).map(|at| (at / 7) as u8).collect::<Vec<_>>());
        fs::write(&from, &content).unwrap();
        let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
        let mut receiver = Session::new(Config::new(2, 1, 2)).unwrap();
        let (mut outgoing, mut incoming) = (Files::new(None), Files::new(Some(directory.clone())));
        let (file, length) = Files::open(&from).unwrap();
        let mut now = Time::from_nanos(1_000_000);
        let object = sender.send_file(now, length, b"").unwrap().unwrap();
        outgoing.send(object, file);
        let source =
            Source { address: "127.0.0.1:1".parse().unwrap(), unicast: false, waited: Duration::ZERO };
        let mut received = None;
        while received.is_none() {
            now += Duration::from_millis(1);
            outgoing.serve(&mut sender);
            while let Some(out) = sender.poll_transmit(now) {
                out.datagrams().for_each(|datagram| receiver.handle_datagram(now, source, datagram));
                outgoing.serve(&mut sender);
            }
            while let Some(event) = receiver.poll_event() {
                incoming.on_event(&event);
                if let Event::FileReceived { object, bytes } = event {
                    assert_eq!(bytes, length);
                    received = Some(object);
                }
            }
        }
        assert!(fs::read(path_in(&directory, received.unwrap())).unwrap() == content);
        fs::remove_dir_all(directory).unwrap();
    }

    /// What becomes of a file that arrives in two chunks, and then is complete.
    fn receive_into(files: &mut Files, bytes: u64) -> Vec<FileFailure> {
        let object = StreamId { node: 7, instance: 1, object: 3 };
        files.on_event(&Event::ObjectOpened { object, kind: ObjectKind::File, bytes });
        for offset in [0, 5] {
            let chunk = Event::FileChunk { object, offset, bytes: b"12345".to_vec() };
            assert!(files.on_event(&chunk), "chunks are no business of the application");
        }
        let told = !files.on_event(&Event::FileReceived { object, bytes: 10 });
        assert_eq!(told, files.failures.is_empty(), "a file is received, or failed");
        std::mem::take(&mut files.failures)
    }

    #[test]
    fn a_file_that_cannot_be_created_fails_once() {
        let directory = scratch("gone");
        fs::remove_dir_all(&directory).unwrap();
        let failures = receive_into(&mut Files::new(Some(directory.clone())), 10);
        assert_eq!(failures.len(), 1);
        assert!(failures[0].why().contains(&format!("{}/7-1-3 cannot be written", directory.display())));
    }

    #[test]
    fn a_file_larger_than_the_disk_takes_fails_and_leaves_nothing() {
        let directory = scratch("large");
        let failures = receive_into(&mut Files::new(Some(directory.clone())), u64::MAX);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_failed_file_is_given_up_without_another_word() {
        let directory = scratch("abandoned");
        fs::remove_dir_all(&directory).unwrap();
        let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
        let mut receiver = Session::new(Config::new(2, 1, 2)).unwrap();
        let mut now = Time::from_nanos(1_000_000);
        let object = sender.send_file(now, 10_000_000, b"").unwrap().unwrap();
        let source =
            Source { address: "127.0.0.1:1".parse().unwrap(), unicast: false, waited: Duration::ZERO };
        let mut files = Files::new(Some(directory));
        let mut reasons = Vec::new();
        for _ in 0..2_000 {
            now += Duration::from_millis(1);
            while let Some(read) = sender.poll_read() {
                sender.supply_file(object, read.offset, &vec![7; read.bytes]);
            }
            while let Some(out) = sender.poll_transmit(now) {
                out.datagrams().for_each(|datagram| receiver.handle_datagram(now, source, datagram));
            }
            while let Some(event) = receiver.poll_event() {
                let about_file_only = files.on_event(&event);
                if let Event::ObjectAborted { reason, .. } = event {
                    assert!(about_file_only, "its failure was told");
                    reasons.push(reason);
                }
                for failure in files.failures.drain(..) {
                    if let FileFailure::Receiving(object, _) = failure {
                        receiver.abandon_object(object);
                    }
                }
            }
        }
        assert_eq!(reasons, [AbortReason::Abandoned], "once, and it does not begin anew");
        assert!(files.spoiled.is_empty());
    }

    #[test]
    fn a_chunk_that_cannot_be_written_spoils_its_file() {
        let directory = scratch("spoiled");
        let mut files = Files::new(Some(directory.clone()));
        let object = StreamId { node: 7, instance: 1, object: 3 };
        // Open for reading only: every write to it is refused.
        fs::write(path_in(&directory, object), b"").unwrap();
        files.incoming.insert(object, File::open(path_in(&directory, object)).unwrap());
        assert!(files.on_event(&Event::FileChunk { object, offset: 0, bytes: b"12345".to_vec() }));
        assert!(files.on_event(&Event::FileReceived { object, bytes: 5 }), "it is not received");
        assert_eq!(files.failures.len(), 1);
        assert!(!path_in(&directory, object).exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_sent_is_cancelled() {
        let directory = scratch("shrink");
        let path = directory.join("from");
        fs::write(&path, [7; 1000]).unwrap();
        let (file, length) = Files::open(&path).unwrap();
        fs::write(&path, [7; 10]).unwrap();
        let mut session = Session::new(Config::new(1, 1, 1)).unwrap();
        let object = session.send_file(Time::from_nanos(1), length, b"").unwrap().unwrap();
        let mut files = Files::new(None);
        files.send(object, file);
        files.serve(&mut session);
        assert!(files.error.is_some());
        assert!(matches!(files.failures[..], [FileFailure::Sending(failed, _)] if failed == object));
        assert!(!session.cancel_object(object), "it is gone already");
        fs::remove_dir_all(directory).unwrap();
    }
}
