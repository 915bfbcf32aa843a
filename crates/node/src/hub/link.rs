//! A link as the hub knows it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::chain::LinkId;
use crate::load::Arrivals;

/// Why a link is rung.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ring {
    /// A message was published for it: on which lane, and how many bytes wait there.
    Data(usize, usize),
    /// We want something else now: say so before anything that is published from now on.
    Interest,
    /// A queue that held its senders back has room, or somebody waits for a flush: have a turn soon.
    Turn,
}

/// How the hub reaches a link. Called on any thread, without a lock of the hub held, so a link may call the hub back.
pub trait LinkBell: Send + Sync {
    /// Something is to be done.
    fn ring(&self, why: Ring);

    /// Whether ringing for data now would take a system call. Whoever holds what others wait for may let go of it first.
    fn is_slow(&self) -> bool {
        false
    }
}

/// What went over a link.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages given to it, those that were said again included.
    pub messages_sent: u64,
    /// Messages that came over it.
    pub messages_received: u64,
    /// Whether it is not used, because another one leads to the same nodes.
    pub is_resting: bool,
}

/// Who is on a link, and what becomes of what is sent there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Other connections of this process.
    Inside,
    /// One node, and nothing is lost as long as the link holds.
    Alone,
    /// Several nodes, each of which hears all others; lost messages are repaired.
    Shared,
    /// Several nodes, and what is lost is not repaired.
    BestEffort,
}

/// For links that look by themselves, as those in a simulation do.
#[derive(Debug, Default)]
pub struct Silent;

impl LinkBell for Silent {
    fn ring(&self, _why: Ring) {}
}

/// A link.
pub struct Link {
    /// Its number in its hub.
    pub id: LinkId,
    /// What kind of link it is, for those who read events.
    pub name: String,
    pub(super) kind: LinkKind,
    pub(super) bell: Box<dyn LinkBell>,
    /// Counts changes of what is asked for over it.
    pub(super) wanted: AtomicU64,
    /// Whoever is behind it takes nothing, and publishers do not wait for it.
    pub(super) lagging: AtomicBool,
    /// It is not used, because another one leads to the same nodes; and whether that is to stay so.
    pub(super) rests: AtomicBool,
    pub(super) is_to_rest: AtomicBool,
    /// The version of who wants what when something changed behind it last, and up to which our own interest was announced there; 0 if nothing was
    /// since the link was on standby.
    pub(super) interest: AtomicU64,
    pub(super) announced: AtomicU64,
    /// The version of that announcement.
    pub(super) announcement: AtomicU64,
    /// One node is there, and no router, which says what it wants before what it publishes.
    pub(super) is_leaf: AtomicBool,
    /// What came over it, lane by lane.
    pub(super) arrivals: Box<[Arrivals]>,
    /// Something is to be said over it of where links lead.
    pub(super) has_news: AtomicBool,
}

impl Link {
    #[inline]
    pub(super) fn is_resting(&self) -> bool {
        self.rests.load(Ordering::SeqCst)
    }

    /// Whether it leads out of the process: then publishers wait only a short time for a reader in here.
    pub(super) fn is_remote(&self) -> bool {
        self.kind != LinkKind::Inside
    }

    /// Whether several nodes are on it, and each of them hears all others.
    pub(super) fn is_shared(&self) -> bool {
        self.kind == LinkKind::Shared
    }

    /// Whether neighbours on it answer requests for what is missing.
    pub(super) fn asks(&self) -> bool {
        matches!(self.kind, LinkKind::Alone | LinkKind::Shared)
    }

    /// Whether an answer goes there, though nobody there is known to want it: he may have asked a moment ago.
    pub(super) fn takes_answers(&self) -> bool {
        !self.is_resting() && !self.is_leaf.load(Ordering::Relaxed)
    }

    #[cold]
    pub(super) fn is_lagging(&self) -> bool {
        self.lagging.load(Ordering::Relaxed)
    }
}
