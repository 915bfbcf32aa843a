//! Announcements: who a node is and what it subscribes to, as a whole or as what changed.
//!
//! An announcement takes those who have its base version to its version; base 0 is nothing at all. One that is long
//! comes in parts. Number and digest of all subscriptions after it tell a reader that it has them all.

use crate::control::after_kind;
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::interest::{InterestEntry, NumberedEntry, digest};
use crate::limits::{CONTROL_RECORD_BYTES_MAX, FACT_BYTES_MAX, SUBSCRIPTIONS_MAX};
use crate::record::RecordKind;
use crate::varint::{VARINT_BYTES_MAX, varint_len, write_varint};

/// What every part of an announcement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnounceHeader {
    /// The node's domain, eight bytes: others may share the group.
    pub domain: u64,
    /// Who it is, eight bytes.
    pub publisher: u64,
    /// Counts the changes of its subscriptions, from 1.
    pub version: u64,
    /// The version that the announcement changes; 0 if it says everything.
    pub base: u64,
    /// How often it says that it is there.
    pub heartbeat_ms: u64,
    /// How many subscriptions it has.
    pub total: u64,
    /// The sum of their digests, eight bytes.
    pub digest: u64,
}

impl AnnounceHeader {
    fn write(&self, part: u64, parts: u64, out: &mut Vec<u8>) {
        out.push(RecordKind::Announce.first_byte());
        out.extend_from_slice(&self.domain.to_be_bytes());
        out.extend_from_slice(&self.publisher.to_be_bytes());
        out.extend_from_slice(&self.digest.to_be_bytes());
        for number in [self.version, self.base, part, parts, self.heartbeat_ms, self.total] {
            write_varint(out, number);
        }
    }
}

/// Something else that a node says of itself; readers skip tags they do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact<'a> {
    /// What it is about.
    pub tag: u64,
    /// What it says.
    pub value: &'a [u8],
}

/// The tag of the fact that says what a node does beside what its own programs do.
pub const FACT_ROLES: u64 = 1;

/// What a node does beside what its own programs do, a bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles(pub u64);

impl Roles {
    /// It records what others publish: publishers wait for it, however slow it is.
    pub const STORE: Roles = Roles(1);
    /// It passes on what it hears from one link to others.
    pub const ROUTER: Roles = Roles(2);

    /// These and those.
    pub fn with(self, roles: Roles) -> Roles {
        Roles(self.0 | roles.0)
    }

    /// Whether all of these are among them.
    pub fn contains(self, roles: Roles) -> bool {
        self.0 & roles.0 == roles.0
    }

    /// The value of the fact.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut value = Vec::new();
        write_varint(&mut value, self.0);
        value
    }

    /// What facts say; without a word, or one that cannot be read, there are none.
    pub fn of(facts: &[Fact<'_>]) -> Roles {
        let fact = facts.iter().find(|fact| fact.tag == FACT_ROLES);
        let bits = fact.and_then(|fact| Cursor::new(fact.value).varint("roles").ok());
        Roles(bits.unwrap_or(0))
    }
}

/// The tag of the fact that says which program a node is in.
pub const FACT_PROCESS: u64 = 2;
/// Bytes of a host's name, at the most.
const HOST_BYTES_MAX: usize = 64;

/// The program that a node is in, as it says itself: for people, and proof of nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Its host's name.
    pub host: String,
    /// Its number there.
    pub pid: u32,
}

impl Process {
    /// A program, with a name that fits.
    pub fn new(host: &str, pid: u32) -> Process {
        let host = host.chars().filter(|letter| !letter.is_control());
        let mut name = String::new();
        for letter in host {
            if name.len() + letter.len_utf8() > HOST_BYTES_MAX {
                break;
            }
            name.push(letter);
        }
        Process { host: name, pid }
    }

    /// The value of the fact.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut value = Vec::new();
        write_varint(&mut value, self.pid.into());
        value.extend_from_slice(self.host.as_bytes());
        value
    }

    /// What facts say; without a word, or one that cannot be read, it is not known.
    pub fn of(facts: &[Fact<'_>]) -> Option<Process> {
        let fact = facts.iter().find(|fact| fact.tag == FACT_PROCESS)?;
        let mut cursor = Cursor::new(fact.value);
        let pid = u32::try_from(cursor.varint("process").ok()?).ok()?;
        Some(Process::new(std::str::from_utf8(cursor.rest()).ok()?, pid))
    }
}

/// The tag of the fact that says in which multicast groups a node is.
pub const FACT_GROUPS: u64 = 3;

/// The multicast groups of a domain that has several beside its own, and those that a node is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JoinedGroups {
    /// How many there are, as the node was told.
    pub count: u32,
    /// Those that it is in, a bit each.
    pub joined: u32,
}

impl JoinedGroups {
    /// The value of the fact.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut value = Vec::new();
        write_varint(&mut value, self.count.into());
        write_varint(&mut value, self.joined.into());
        value
    }

    /// What facts say; without a word, or one that cannot be read, there are none.
    pub fn of(facts: &[Fact<'_>]) -> JoinedGroups {
        let read = |fact: &Fact<'_>| {
            let mut cursor = Cursor::new(fact.value);
            let count = u32::try_from(cursor.varint("groups").ok()?).ok()?;
            let joined = u32::try_from(cursor.varint("joined groups").ok()?).ok()?;
            Some(JoinedGroups { count, joined })
        };
        facts.iter().find(|fact| fact.tag == FACT_GROUPS).and_then(read).unwrap_or_default()
    }
}

/// A subscription in an announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced<'a> {
    /// Its number; its announcer gives it to no other.
    pub id: u64,
    /// What it asks for.
    pub entry: InterestEntry<'a>,
    /// What it adds to the digest of all.
    pub digest: u64,
}

/// One part of an announcement, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce<'a> {
    /// What all parts say.
    pub header: AnnounceHeader,
    /// Which part it is, from 0.
    pub part: u64,
    /// How many there are.
    pub parts: u64,
    /// Numbers of subscriptions that ended.
    pub removed: Vec<u64>,
    /// New subscriptions; all of them, if the base is 0.
    pub added: Vec<Announced<'a>>,
    /// Nodes whose announcement or welcome the announcer lacks.
    pub missing: Vec<u64>,
    /// What else it says of itself.
    pub facts: Vec<Fact<'a>>,
}

impl<'a> Announce<'a> {
    /// Reads the record.
    pub fn read(record: &'a [u8]) -> Result<Announce<'a>, DecodeError> {
        let bytes = record.len();
        if bytes > CONTROL_RECORD_BYTES_MAX {
            return Err(DecodeError::TooLong { what: "announcement", bytes, max: CONTROL_RECORD_BYTES_MAX });
        }
        let mut cursor = after_kind(record);
        let domain = u64::from_be_bytes(cursor.array("domain")?);
        let publisher = u64::from_be_bytes(cursor.array("publisher")?);
        let digest = u64::from_be_bytes(cursor.array("digest")?);
        let version = cursor.varint("announced version")?;
        let base = cursor.varint("base version")?;
        let part = cursor.varint("part")?;
        let parts = cursor.varint_up_to("number of parts", SUBSCRIPTIONS_MAX)?;
        if part >= parts {
            return Err(DecodeError::NoSuchPart { part, parts });
        }
        let heartbeat_ms = cursor.varint("heartbeat interval")?;
        let total = cursor.varint_up_to("number of subscriptions", SUBSCRIPTIONS_MAX)?;
        let header = AnnounceHeader { domain, publisher, version, base, heartbeat_ms, total, digest };
        Ok(Announce {
            header,
            part,
            parts,
            removed: read_list(&mut cursor, "number of ended subscriptions", 1, |cursor| {
                cursor.varint("ended subscription")
            })?,
            added: read_list(
                &mut cursor,
                "number of new subscriptions",
                1 + InterestEntry::BYTES_MIN,
                read_announced,
            )?,
            missing: read_list(&mut cursor, "number of missing nodes", 8, |cursor| {
                Ok(u64::from_be_bytes(cursor.array("missing node")?))
            })?,
            facts: read_list(&mut cursor, "number of facts", 2, |cursor| {
                let tag = cursor.varint("fact")?;
                Ok(Fact { tag, value: cursor.prefixed("fact", FACT_BYTES_MAX)? })
            })?,
        })
    }
}

fn read_announced<'a>(cursor: &mut Cursor<'a>) -> Result<Announced<'a>, DecodeError> {
    let start = cursor.rest();
    let id = cursor.varint("subscription")?;
    let entry = InterestEntry::read(cursor)?;
    let digest = digest(&start[..start.len() - cursor.rest().len()]);
    Ok(Announced { id, entry, digest })
}

fn read_list<'a, T>(
    cursor: &mut Cursor<'a>,
    what: &'static str,
    least: usize,
    mut each: impl FnMut(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    // Grown by what is really there: what is made of an entry is larger than its bytes.
    let mut list = Vec::new();
    for _ in 0..cursor.count(what, least)? {
        list.push(each(cursor)?);
    }
    Ok(list)
}

/// An announcement to be written.
#[derive(Debug, Clone, Copy)]
pub struct Announcement<'a> {
    /// What all parts say.
    pub header: AnnounceHeader,
    /// Numbers of subscriptions that ended.
    pub removed: &'a [u64],
    /// New subscriptions; all of them, if the base is 0.
    pub added: &'a [&'a NumberedEntry],
    /// Nodes whose announcement or welcome the announcer lacks.
    pub missing: &'a [u64],
    /// What else it says of itself; the first part says it. None longer than [`FACT_BYTES_MAX`].
    pub facts: &'a [Fact<'a>],
}

impl Announcement<'_> {
    /// The records, in order. None is longer than `bytes_max`, unless a single subscription is, or the facts are.
    pub fn write(&self, bytes_max: usize) -> Vec<Vec<u8>> {
        let parts = self.cut(bytes_max);
        let count = parts.len() as u64;
        let write = |(part, content): (usize, &Part)| {
            let mut record = Vec::with_capacity(HEADER_BYTES_MAX + content.bytes());
            self.header.write(part as u64, count, &mut record);
            content.removed.write(&mut record);
            content.added.write(&mut record);
            content.missing.write(&mut record);
            let facts = if part == 0 { self.facts } else { &[] };
            write_facts(facts, &mut record);
            record
        };
        parts.iter().enumerate().map(write).collect()
    }

    fn cut(&self, bytes_max: usize) -> Vec<Part> {
        let facts: usize = self.facts.iter().map(|fact| FACT_HEADER_BYTES_MAX + fact.value.len()).sum();
        let mut parts = Parts { cut: vec![Part::default()], reserved: HEADER_BYTES_MAX + facts, bytes_max };
        for &id in self.removed {
            let part = parts.with_room_for(varint_len(id));
            write_varint(part.removed.next(), id);
        }
        for entry in self.added {
            let part = parts.with_room_for(entry.as_bytes().len());
            part.added.next().extend_from_slice(entry.as_bytes());
        }
        for node in self.missing {
            let node = node.to_be_bytes();
            parts.with_room_for(node.len()).missing.next().extend_from_slice(&node);
        }
        parts.cut
    }
}

/// First byte, three numbers of eight bytes, six varints, and four counts.
const HEADER_BYTES_MAX: usize = 1 + 3 * 8 + 10 * VARINT_BYTES_MAX;
const FACT_HEADER_BYTES_MAX: usize = 2 * VARINT_BYTES_MAX;

fn write_facts(facts: &[Fact<'_>], out: &mut Vec<u8>) {
    write_varint(out, facts.len() as u64);
    for fact in facts {
        write_varint(out, fact.tag);
        write_varint(out, fact.value.len() as u64);
        out.extend_from_slice(fact.value);
    }
}

/// Things of one sort, written one after the other.
#[derive(Default)]
struct List {
    count: u64,
    encoded: Vec<u8>,
}

impl List {
    /// Where the next thing goes.
    fn next(&mut self) -> &mut Vec<u8> {
        self.count += 1;
        &mut self.encoded
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.count);
        out.extend_from_slice(&self.encoded);
    }
}

#[derive(Default)]
struct Part {
    removed: List,
    added: List,
    missing: List,
}

impl Part {
    fn bytes(&self) -> usize {
        self.removed.encoded.len() + self.added.encoded.len() + self.missing.encoded.len()
    }
}

struct Parts {
    cut: Vec<Part>,
    /// Bytes of the last part that are not for its lists.
    reserved: usize,
    bytes_max: usize,
}

impl Parts {
    fn with_room_for(&mut self, bytes: usize) -> &mut Part {
        let last = self.cut.len() - 1;
        let filled = self.cut[last].bytes();
        if filled == 0 || self.reserved + filled + bytes <= self.bytes_max {
            return &mut self.cut[last];
        }
        self.reserved = HEADER_BYTES_MAX;
        self.cut.push(Part::default());
        &mut self.cut[last + 1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::destination::DestinationKind;
    use crate::interest::{Filter, FilterKind};

    const HEADER: AnnounceHeader = AnnounceHeader {
        domain: 0x0123_4567_89ab_cdef,
        publisher: u64::MAX,
        version: 300,
        base: 0,
        heartbeat_ms: 4000,
        total: 2,
        digest: 1 << 63,
    };

    fn everything() -> InterestEntry<'static> {
        InterestEntry {
            kind: DestinationKind::Queue,
            pattern: "orders/*",
            persistent_only: true,
            no_local: Some(300),
            filters: vec![
                Filter { kind: FilterKind::Selector, bytes: &[1, 2, 3] },
                Filter { kind: FilterKind::Correlation, bytes: &[] },
            ],
        }
    }

    fn written(
        entries: &[NumberedEntry],
        removed: &[u64],
        missing: &[u64],
        bytes_max: usize,
    ) -> Vec<Vec<u8>> {
        let added: Vec<&NumberedEntry> = entries.iter().collect();
        let facts = [Fact { tag: 5, value: b"fact" }];
        Announcement { header: HEADER, removed, added: &added, missing, facts: &facts }.write(bytes_max)
    }

    #[test]
    fn an_announcement_comes_back_with_everything_an_entry_can_ask() {
        let plain = InterestEntry::new(DestinationKind::Topic, "prices/>");
        let entries =
            [NumberedEntry::new(7, &plain).unwrap(), NumberedEntry::new(1 << 40, &everything()).unwrap()];
        let records = written(&entries, &[3, 5], &[9], 1400);
        assert_eq!(records.len(), 1);
        assert_eq!(RecordKind::of(&records[0]), Ok(RecordKind::Announce));
        let expected = Announce {
            header: HEADER,
            part: 0,
            parts: 1,
            removed: vec![3, 5],
            added: vec![
                Announced { id: 7, entry: plain, digest: entries[0].digest() },
                Announced { id: 1 << 40, entry: everything(), digest: entries[1].digest() },
            ],
            missing: vec![9],
            facts: vec![Fact { tag: 5, value: b"fact" }],
        };
        assert_eq!(Announce::read(&records[0]), Ok(expected));
        for length in 0..records[0].len() {
            assert!(Announce::read(&records[0][..length]).is_err(), "cut at {length}");
        }
        let grown = [&records[0][..], &[1, 2, 3]].concat();
        assert_eq!(Announce::read(&grown), Announce::read(&records[0]));
    }

    #[test]
    fn a_program_comes_back_and_what_cannot_be_read_is_none() {
        let process = Process::new("host\n-a", 4711);
        assert_eq!(process, Process { host: "host-a".into(), pid: 4711 });
        let value = process.to_bytes();
        let fact = Fact { tag: FACT_PROCESS, value: &value };
        assert_eq!(Process::of(&[Fact { tag: FACT_ROLES, value: b"x" }, fact]), Some(process));
        assert_eq!(Process::new(&"ä".repeat(100), 1).host, "ä".repeat(32));
        assert_eq!(Process::of(&[]), None);
        for unreadable in [&[][..], &[0x80], &[1, 0xff], &[0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
            assert_eq!(Process::of(&[Fact { tag: FACT_PROCESS, value: unreadable }]), None);
        }
    }

    #[test]
    fn roles_come_back_and_what_cannot_be_read_is_no_role() {
        let value = Roles::STORE.to_bytes();
        let fact = Fact { tag: FACT_ROLES, value: &value };
        assert_eq!(Roles::of(&[Fact { tag: 7, value: b"x" }, fact]), Roles::STORE);
        // What a later version calls a role is left alone.
        let many = Roles(u64::MAX).to_bytes();
        assert!(Roles::of(&[Fact { tag: FACT_ROLES, value: &many }]).contains(Roles::STORE));
        for unreadable in [&[][..], &[0x80]] {
            assert_eq!(Roles::of(&[Fact { tag: FACT_ROLES, value: unreadable }]), Roles::default());
        }
        assert_eq!(Roles::of(&[]), Roles::default());
    }

    #[test]
    fn an_announcement_of_nothing_is_one_part() {
        let records = written(&[], &[], &[], 200);
        assert_eq!(records.len(), 1);
        let announce = Announce::read(&records[0]).unwrap();
        assert_eq!((announce.parts, announce.added.len()), (1, 0));
    }

    #[test]
    fn an_entry_longer_than_a_part_has_a_part_of_its_own() {
        let filters = vec![Filter { kind: FilterKind::Selector, bytes: &[7; 5000] }];
        let long = InterestEntry { filters, ..everything() };
        let entries: Vec<_> = (1..4).map(|id| NumberedEntry::new(id, &long).unwrap()).collect();
        let records = written(&entries, &[], &[], 1000);
        assert_eq!(records.len(), 3);
    }

    proptest! {
        #[test]
        fn parts_keep_their_bound_and_together_say_everything(
            names in prop::collection::vec("[a-z]{1,40}", 0..60),
            removed in prop::collection::vec(any::<u64>(), 0..60),
            missing in prop::collection::vec(any::<u64>(), 0..60),
            bytes_max in 300usize..900,
        ) {
            let number = |(id, name): (usize, &String)| {
                NumberedEntry::new(id as u64, &InterestEntry::new(DestinationKind::Topic, name)).unwrap()
            };
            let entries: Vec<_> = names.iter().enumerate().map(number).collect();
            let records = written(&entries, &removed, &missing, bytes_max);
            let read: Vec<_> = records.iter().map(|record| Announce::read(record).unwrap()).collect();
            for (at, part) in read.iter().enumerate() {
                prop_assert!(records[at].len() <= bytes_max);
                prop_assert_eq!((part.part, part.parts), (at as u64, records.len() as u64));
                prop_assert_eq!(part.header, HEADER);
                prop_assert_eq!(part.facts.len(), usize::from(at == 0));
            }
            let together = |list: fn(&Announce<'_>) -> Vec<u64>| read.iter().flat_map(list).collect::<Vec<_>>();
            prop_assert_eq!(together(|part| part.removed.clone()), removed);
            prop_assert_eq!(together(|part| part.missing.clone()), missing);
            let added: Vec<_> = read.iter().flat_map(|part| &part.added).collect();
            prop_assert_eq!(added.len(), entries.len());
            for ((at, found), name) in added.iter().enumerate().zip(&names) {
                prop_assert_eq!((found.id, found.entry.pattern), (at as u64, name.as_str()));
                prop_assert_eq!(found.digest, entries[at].digest());
            }
        }
    }

    #[test]
    fn absurd_counts_and_parts_are_refused() {
        let record = |numbers: &[u64]| {
            let mut record = vec![RecordKind::Announce.first_byte()];
            record.extend([0; 24]);
            numbers.iter().for_each(|&number| write_varint(&mut record, number));
            record
        };
        let refused = |numbers: &[u64]| Announce::read(&record(numbers)).unwrap_err().to_string();
        assert_eq!(refused(&[1, 0, 1, 1]), "the announcement is part 1 of 1");
        assert_eq!(
            refused(&[1, 0, 0, 1 << 40]),
            "the number of parts is 1099511627776; at most 1000000 is allowed"
        );
        assert_eq!(
            refused(&[1, 0, 0, 1, 1, 1_000_001]),
            "the number of subscriptions is 1000001; at most 1000000 is allowed"
        );
        assert_eq!(
            refused(&[1, 0, 0, 1, 1, 1, 1 << 50]),
            "the number of ended subscriptions is 1125899906842624; the bytes that are left cannot hold so many"
        );
        let long = vec![RecordKind::Announce.first_byte(); CONTROL_RECORD_BYTES_MAX + 1];
        assert!(matches!(Announce::read(&long), Err(DecodeError::TooLong { .. })));
    }
}
