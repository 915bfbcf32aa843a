//! Files to and from disk, for sessions that send and receive them block by block.
//!
//! Reading and writing happens on the link's thread, in pieces of one block.

mod received;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use shoal_norm::{Event, ObjectId, ObjectKind, Session, StreamId};

use received::ReceivedFile;

use crate::sys;

/// Files being received at once: each is an open one, and whoever announces files decides how many there are.
const INCOMING_MAX: usize = 256;

/// The files of one link.
#[derive(Debug, Default)]
pub struct Files {
    outgoing: HashMap<ObjectId, File>,
    incoming: HashMap<StreamId, ReceivedFile>,
    /// Where what is received goes; without it, chunks go to the application.
    directory: Option<PathBuf>,
    buffer: Vec<u8>,
    /// Files of which a part could not be written: what still comes of them is dropped, until they are given up.
    spoiled: HashSet<StreamId>,
    /// What is complete, until it is told.
    pub stored: Vec<StoredFile>,
    /// What the disk refused, until it is told.
    pub failures: Vec<FileFailure>,
    /// The last of it, until somebody asks.
    pub error: Option<String>,
}

/// A file that was received completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The object it was.
    pub object: StreamId,
    /// How long it is.
    pub bytes: u64,
    /// Where it is.
    pub path: PathBuf,
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

impl Files {
    /// Files that are received into a directory, if one is named.
    pub fn new(directory: Option<PathBuf>) -> Files {
        Files { directory, ..Files::default() }
    }

    /// Opens a file to send; tells how long it is. Only what has a length, and is read without waiting, can be sent.
    pub fn open(path: &Path) -> io::Result<(File, u64)> {
        // To open a pipe would wait for whoever writes to it.
        let opened = sys::open_without_waiting(path);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = opened.map_err(named)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { "a directory" } else { "no regular file" };
            let why = format!("{} is {kind}; only regular files can be sent", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok((file, metadata.len()))
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
                Some(file) => sys::read_exact_at(file, &mut self.buffer, read.offset),
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
                    if let Err(error) = file.write(*offset, bytes) {
                        self.spoil(*object, &error);
                    }
                    return true;
                }
                return self.directory.is_some();
            }
            Event::FileReceived { object, bytes } => {
                if let Some(file) = self.incoming.remove(object) {
                    match file.finish() {
                        Ok(path) => self.stored.push(StoredFile { object: *object, bytes: *bytes, path }),
                        Err(error) => self.tell_refused(*object, &error),
                    }
                }
                // Where a file was to be stored, that is what is told, or its failure was.
                self.spoiled.remove(object);
                return self.directory.is_some();
            }
            Event::ObjectAborted { object, .. } => {
                self.incoming.remove(object);
                return self.spoiled.remove(object);
            }
            _ => {}
        }
        false
    }

    fn begin(&mut self, object: StreamId, bytes: u64) {
        let Some(directory) = &self.directory else { return };
        let begun = if self.incoming.len() < INCOMING_MAX {
            ReceivedFile::begin(directory, object, bytes)
        } else {
            Err(io::Error::other(format!("{INCOMING_MAX} files are being received already")))
        };
        match begun {
            Ok(file) => {
                self.incoming.insert(object, file);
            }
            Err(error) => self.spoil(object, &error),
        }
    }

    /// Closes what is being sent, and removes what was received in part: nobody will go on with either.
    pub fn discard_all(&mut self) {
        self.outgoing.clear();
        self.incoming.clear();
    }

    /// A received file could not be written: what there is of it is of no use.
    fn spoil(&mut self, object: StreamId, error: &io::Error) {
        self.incoming.remove(&object);
        self.spoiled.insert(object);
        self.tell_refused(object, error);
    }

    fn tell_refused(&mut self, object: StreamId, error: &io::Error) {
        let Some(directory) = &self.directory else { return };
        let StreamId { node, instance, object: number } = object;
        let why = format!(
            "file {number} of node {node}, instance {instance}, cannot be written to {}: {error}",
            directory.display()
        );
        self.fail(FileFailure::Receiving(object, why));
    }

    fn fail(&mut self, failure: FileFailure) {
        self.error = Some(failure.why().to_owned());
        self.failures.push(failure);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use shoal_norm::{AbortReason, Config, Source, Time};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("shoal-files-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn names_in(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn no_more_files_are_begun_than_can_be_open() {
        let directory = scratch("many");
        let mut files = Files::new(Some(directory.clone()));
        for number in 0..=INCOMING_MAX {
            let object = StreamId { node: 1, instance: 1, object: number as u16 };
            files.on_event(&Event::ObjectOpened { object, kind: ObjectKind::File, bytes: 1 });
        }
        assert_eq!(names_in(&directory).len(), INCOMING_MAX);
        let [FileFailure::Receiving(object, why)] = &files.failures[..] else {
            panic!("{:?}", files.failures)
        };
        assert_eq!(usize::from(object.object), INCOMING_MAX);
        assert!(why.contains("already"), "{why}");
        files.discard_all();
        assert!(names_in(&directory).is_empty());
        fs::remove_dir_all(directory).unwrap();
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
                received = received.or(incoming.stored.pop());
            }
        }
        let received = received.unwrap();
        assert_eq!((received.bytes, received.path), (length, directory.join("1-1-0")));
        assert!(fs::read(directory.join("1-1-0")).unwrap() == content);
        assert_eq!(names_in(&directory), ["1-1-0", "from"]);
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
        assert!(files.on_event(&Event::FileReceived { object, bytes: 10 }), "nor is their end");
        assert_eq!(files.stored.is_empty(), !files.failures.is_empty(), "a file is received, or failed");
        std::mem::take(&mut files.failures)
    }

    #[test]
    fn a_file_that_cannot_be_created_fails_once() {
        let directory = scratch("gone");
        fs::remove_dir_all(&directory).unwrap();
        let failures = receive_into(&mut Files::new(Some(directory.clone())), 10);
        assert_eq!(failures.len(), 1);
        let why = format!("file 3 of node 7, instance 1, cannot be written to {}", directory.display());
        assert!(failures[0].why().starts_with(&why), "{failures:?}");
    }

    #[test]
    fn a_file_larger_than_the_disk_takes_fails_and_leaves_nothing() {
        let directory = scratch("large");
        let failures = receive_into(&mut Files::new(Some(directory.clone())), u64::MAX);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(names_in(&directory), [""; 0]);
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
        files.on_event(&Event::ObjectOpened { object, kind: ObjectKind::File, bytes: 5 });
        let beyond = i64::MAX as u64;
        assert!(files.on_event(&Event::FileChunk { object, offset: beyond, bytes: b"12345".to_vec() }));
        assert!(files.on_event(&Event::FileReceived { object, bytes: 5 }));
        assert_eq!((files.stored.len(), files.failures.len()), (0, 1), "it is not received");
        assert_eq!(names_in(&directory), [""; 0]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn files_of_the_same_number_do_not_replace_each_other() {
        let directory = scratch("again");
        fs::write(directory.join("7-1-3"), b"mine").unwrap();
        // Left by a receiver that was killed.
        fs::write(directory.join("7-1-3-2.part"), b"12").unwrap();
        let mut files = Files::new(Some(directory.clone()));
        for _ in 0..2 {
            assert_eq!(receive_into(&mut files, 10), []);
        }
        assert_eq!(names_in(&directory), ["7-1-3", "7-1-3-2.part", "7-1-3-3", "7-1-3-4"]);
        let paths: Vec<_> = files.stored.iter().map(|stored| stored.path.clone()).collect();
        assert_eq!(paths, [directory.join("7-1-3-3"), directory.join("7-1-3-4")]);
        assert_eq!(fs::read(directory.join("7-1-3")).unwrap(), b"mine");
        assert_eq!(fs::read(directory.join("7-1-3-4")).unwrap(), b"1234512345");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_left_alone() {
        let directory = scratch("meanwhile");
        let object = StreamId { node: 7, instance: 1, object: 3 };
        let file = ReceivedFile::begin(&directory, object, 5).unwrap();
        file.write(0, b"12345").unwrap();
        fs::write(directory.join("7-1-3"), b"mine").unwrap();
        assert_eq!(file.finish().unwrap(), directory.join("7-1-3-2"));
        assert_eq!(fs::read(directory.join("7-1-3")).unwrap(), b"mine");
        assert_eq!(names_in(&directory), ["7-1-3", "7-1-3-2"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_is_not_complete_is_called_a_part_and_goes_with_its_receiver() {
        for aborted in [true, false] {
            let directory = scratch(&format!("part-{aborted}"));
            let object = StreamId { node: 7, instance: 1, object: 3 };
            let mut files = Files::new(Some(directory.clone()));
            files.on_event(&Event::ObjectOpened { object, kind: ObjectKind::File, bytes: 10 });
            files.on_event(&Event::FileChunk { object, offset: 0, bytes: b"12345".to_vec() });
            assert_eq!(names_in(&directory), ["7-1-3.part"]);
            if aborted {
                let reason = AbortReason::Expired;
                assert!(!files.on_event(&Event::ObjectAborted { object, reason }), "that is to be told");
            } else {
                drop(files);
            }
            assert_eq!(names_in(&directory), [""; 0]);
            fs::remove_dir_all(directory).unwrap();
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let directory = scratch("special");
        let pipe = directory.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, kind) in [
            (directory.as_path(), "a directory"),
            (pipe.as_path(), "no regular file"),
            (Path::new("/dev/zero"), "no regular file"),
        ] {
            let error = Files::open(path).unwrap_err();
            let why = format!("{} is {kind}; only regular files can be sent", path.display());
            assert_eq!(error.to_string(), why);
        }
        let error = Files::open(&directory.join("nothing")).unwrap_err().to_string();
        assert!(error.contains("special") && error.contains("nothing: No such file"), "{error}");
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
