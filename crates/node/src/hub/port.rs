//! The seam between the hub and whoever drives a link.
//!
//! | call                                  | says                                                              |
//! |---------------------------------------|-------------------------------------------------------------------|
//! | [`Port::open_source`], [`Port::feed`], [`Port::hand_over`] | what came: frames of records, source by source |
//! | [`Port::has_credit`]                  | whether a source may go on                                        |
//! | [`Port::take`], [`Port::set_blocked`], [`Port::set_lagging`] | what is to be sent, lane by lane           |
//! | [`Port::announcement`]                | what we want, to be announced                                     |
//! | [`Port::join`], [`Port::change_interest`], [`Port::set_open`], [`Port::part`] | who is there, and what they want |
//! | [`Port::ask_flushes`], [`Port::answer_flush`] | what flushes wait for                                     |
//! | [`Port::fail`], dropping it           | the end                                                           |
//!
//! What a link needs to do that — streams, connections, positions, acknowledgements — is its own business.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shoal_norm::{Chunk, NodeId, Time};
use shoal_wire::{About, Answer, DecodeError, LinkState, Question, RecordKind, Replay};

use super::accept::Key;
use super::asking::interest_of;
use super::assembly::Assembly;
use super::chain::LinkId;
use super::consumer::Source;
use super::event::{Departure, HubEvent, Lost};
use super::inbox::{Fed, Inbox, Place, SourceId, SourceNews, Told};
use super::link::{Link, Ring, Traffic};
use super::losers::OTHER_END;
use super::routes::InterestId;
use super::{Hub, lock};
use crate::interest::{Announcer, Entry};

/// A router that does not answer is asked again so often: whoever began to listen to a control stream a moment ago may have missed
/// what was said before, and any other says whom it waits for.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Requests of one turn; whoever asked for more asks again.
const REPLAYS_MAX: usize = 1024;
/// Questions that wait until nothing is put aside, and until both of us know the same routers; more are answered at once.
const DEFERRED_MAX: usize = 256;
/// So long they wait until both of us know the same routers.
const AGREES_IN: Duration = Duration::from_millis(500);
/// How soon they are looked at again.
const DEFERRED_FOR: Duration = Duration::from_millis(20);

/// A router that begins on a shared link passes nothing on from there for so long, as if it rested: by then it knows whether another one
/// does, and who has heard more.
const LISTENS: Duration = Duration::from_millis(100);

/// How often it is looked at what others brought over a link that rests, if nobody waits for it: before they can be missed.
const OWED_EVERY: Duration = Duration::from_millis(100);

/// A link's end of the seam. Dropping it takes the link away.
pub struct Port {
    hub: Arc<Hub>,
    link: Arc<Link>,
    inbox: Inbox,
    /// The version of what we want that marks name.
    announced: AtomicU64,

    /// What was last acted on of whether the link rests.
    rests: bool,
    /// When it had its first turn.
    began: Option<Time>,
    /// The time of its last turn.
    now: Time,
    /// When it is looked at what others brought while the link rests, if nobody waits for it.
    owed_at: Time,
    /// When routers that have not answered are asked again.
    ask_again_at: Time,
    /// Requests for what is missing that are not answered yet.
    replays: Mutex<Vec<Replay>>,
    /// Questions that are answered when nothing is put aside any more, and since when they wait.
    deferred: Mutex<Vec<(Question, Time)>>,
    /// Somebody began to ask for something: how far the chains are that are passed on is to be told, and of these again.
    asks_anew: AtomicBool,
    untold: Vec<Key>,
}

impl Port {
    pub(super) fn new(hub: Arc<Hub>, link: Arc<Link>) -> Port {
        let (accept, owed) = (hub.accept.clone(), hub.owed.clone());
        let (publisher, asks) = (hub.publisher, link.asks());
        let announced = Arc::default();
        let place = Place { link: link.id, rests: false, asks, publisher, accept, owed, announced };
        let assembly = Assembly::new(hub.assembly.clone());
        let inbox = Inbox::new(hub.chains.message_bytes_max(), assembly, place, hub.is_router());
        Port {
            hub,
            link,
            inbox,
            announced: AtomicU64::new(0),
            rests: false,
            began: None,
            now: Time::ZERO,
            owed_at: Time::ZERO,
            ask_again_at: Time::NEVER,
            replays: Mutex::default(),
            deferred: Mutex::default(),
            asks_anew: AtomicBool::new(false),
            untold: Vec::new(),
        }
    }

    // --- getters ---

    /// The hub.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The link's number.
    pub fn link(&self) -> LinkId {
        self.link.id
    }

    /// What went over the link.
    pub fn traffic(&self) -> Traffic {
        self.hub.traffic(self.link.id)
    }

    /// How many lanes there are; the first is the link's own.
    pub fn lanes(&self) -> usize {
        self.hub.lanes
    }

    // --- what came ---

    /// Messages of this source will be fed.
    pub fn open_source(&mut self, source: Source) -> SourceId {
        self.inbox.open(source)
    }

    /// Feeds a source's next bytes: frames, wherever they are cut. Fresh ones begin with a frame, and what came
    /// before them is lost. Calls `told` with what the source says between its messages: act on it before
    /// [`Port::hand_over`], or [`Port::hand_over_if_full`], lets anybody read them.
    pub fn feed(&mut self, now: Time, id: SourceId, chunk: Chunk<'_>, told: impl FnMut(Told)) -> Fed {
        if self.inbox.waits_for_links(id, &self.hub.chains) {
            return Fed::Held;
        }
        if self.inbox.current() != Some(id) {
            self.pass_on(now);
        }
        let hub = &self.hub;
        self.inbox.set_version(hub.interest_version());
        let node = self.inbox.node(id);
        let unreadable = |why| hub.tell(HubEvent::Unreadable(node, why));
        let mut routes = hub.routes();
        let evaluations = routes.evaluations();
        let fed = self.inbox.feed(now, &mut routes, id, chunk, unreadable, told);
        let evaluated = routes.evaluations() - evaluations;
        drop(routes);
        let (lane, tally) = (self.inbox.lane_of(id), self.inbox.take_tally());
        let bytes = if fed == Fed::Held { 0 } else { chunk.bytes.len() as u64 };
        if let (Some(arrivals), Some(departures)) = (self.link.arrivals.get(lane), hub.departures.get(lane)) {
            arrivals.add(&tally, evaluated, bytes);
            departures.add(&tally);
        }
        fed
    }

    /// Puts what goes on to other links into their buffers, and rings them. A chain's lock is taken for that, before any
    /// other.
    #[inline]
    fn pass_on(&mut self, now: Time) {
        if !self.inbox.has_outbound() {
            return;
        }
        let given = self.inbox.pass_on(now, &self.hub);
        let lane = self.inbox.lane();
        let links = self.hub.routes().links_of(&given);
        for (link, waiting) in links {
            link.bell.ring(Ring::Data(lane, waiting));
        }
    }

    /// That was all for now: subscriptions get what came, and other links what is passed on to them.
    pub fn hand_over(&mut self, now: Time) {
        self.pass_on(now);
        if self.inbox.has_staged() {
            self.inbox.hand_over(now, &self.hub.routes());
        }
        self.inbox.finish(now);
    }

    /// Reads what was withheld, and has the link carry requests for what is missing. Returns when to do so next, and whether some of
    /// it cannot be read. To be called in every turn of the link.
    pub fn read_aside(&mut self, now: Time, mut told: impl FnMut(SourceId, Told)) -> (Time, bool) {
        while let Some(source) = self.inbox.aside() {
            match self.feed(now, source, Chunk { bytes: &[], fresh: false }, |news| told(source, news)) {
                Fed::All => self.hand_over_if_full(now),
                Fed::Broken => return (Time::NEVER, true),
                // It waits for a reader; there will be a turn when that has room.
                Fed::Held => break,
            }
        }
        let (lost, ask_at) = self.hub.ask(now, &self.link);
        for ((publisher, chain), first, last) in lost {
            self.tell_lost(Lost { node: 0, publisher, chain, first, last, segments: 0 });
        }
        self.hear_deferred(now);
        let is_deferred = !lock(&self.deferred).is_empty();
        (if is_deferred { ask_at.min(now + DEFERRED_FOR) } else { ask_at }, false)
    }

    /// What was asked meanwhile is answered, unless it is about what is missing, or withheld.
    fn hear_deferred(&mut self, now: Time) {
        let deferred = std::mem::take(&mut *lock(&self.deferred));
        if deferred.is_empty() {
            return;
        }
        let link = self.link.id;
        let waits = |(question, since): &(Question, Time)| {
            self.lacks(question)
                || self.withholds(now, question)
                || now < *since + AGREES_IN && self.hub.disagrees(link, question)
        };
        let (waiting, ready): (Vec<_>, Vec<_>) = deferred.into_iter().partition(waits);
        lock(&self.deferred).extend(waiting);
        self.hand_over(now);
        for (question, _) in &ready {
            match self.hub.disagrees(link, question) {
                true => self.hub.hear_stale(link, question),
                false => self.hub.hear_question(link, question),
            }
        }
    }

    /// Whether some of what a question is about is missing, and asked for.
    fn lacks(&self, question: &Question) -> bool {
        question.about == About::Messages && lock(&self.hub.accept).is_lacking(question.origin.0)
    }

    /// Whether others have not brought on another way what a question is about, and what came over this link while it rests.
    fn withholds(&self, now: Time, question: &Question) -> bool {
        self.rests && question.about == About::Messages && self.inbox.withholds(now, question.origin.0)
    }

    /// The same if much came, so that it is read while it is in the processor's cache.
    #[inline]
    pub fn hand_over_if_full(&mut self, now: Time) {
        if self.inbox.is_full() {
            self.hand_over(now);
        }
    }

    /// Whether a source may be fed. Without credit it waits for a queue that it filled, or for a link; its own link is rung
    /// when there is room.
    pub fn has_credit(&mut self, id: SourceId) -> bool {
        !self.inbox.waits_for_links(id, &self.hub.chains) && !self.inbox.is_parked(id, &self.hub.routes())
    }

    /// Something became known of a source beside its bytes. Calls `told` with what follows from it.
    pub fn note_source(&mut self, now: Time, id: SourceId, news: SourceNews, told: impl FnMut(Told)) {
        if let SourceNews::Ends(last) = news
            && let Some(bytes) = self.inbox.ending(id, last)
        {
            self.feed(now, id, Chunk { bytes: &bytes, fresh: false }, told);
            self.hand_over(now);
        }
        let reads = self.hub.is_router() || self.hub.routes().reads_since() != Time::NEVER;
        self.inbox.note(now, id, news, reads);
    }

    /// Whose messages a source carries, and the number that should come next; 0 if not known.
    pub fn source(&self, id: SourceId) -> Option<(Source, u64)> {
        self.inbox.source(id)
    }

    /// Nothing more will come of a source.
    pub fn close_source(&mut self, now: Time, id: SourceId) {
        self.pass_on(now);
        self.inbox.close(now, id, &self.hub.routes());
    }

    /// A source is not expected to say more, though it may. True if the part of a message that was here is lost.
    pub fn rest_source(&mut self, now: Time, id: SourceId) -> bool {
        self.pass_on(now);
        self.inbox.rest(now, id, &self.hub.routes())
    }

    // --- what is to be sent ---

    /// Takes what waits in a lane in exchange for `emptied`. False if nothing waits.
    pub fn take(&self, lane: usize, emptied: &mut Vec<u8>) -> bool {
        self.hub.chains.take(lane, self.link.id, emptied)
    }

    /// Nothing more is sent: nobody waits for room here any more.
    pub fn stop_sending(&self) {
        self.hub.chains.stop(self.link.id);
    }

    /// Says whether a lane is not sent for now, because receivers take no more. Publishers do not ring for it then.
    pub fn set_blocked(&self, lane: usize, blocked: bool) {
        self.hub.chains.set_blocked(lane, self.link.id, blocked);
    }

    /// Whether somebody behind a link that is none of these takes what is held back by this one.
    pub fn others_take(&self, except: &BTreeSet<LinkId>) -> bool {
        let chains = &self.hub.chains;
        let sources = chains.held_back_by(self.link.id);
        // Nothing goes back to where it came from.
        let gets_it = |link: LinkId| sources.is_empty() || sources.iter().any(|&source| source != link);
        let routes = self.hub.routes();
        let takes = |link: &Link| !link.is_resting() && !link.is_lagging() && routes.has_asking(link.id);
        let others = routes.links().filter(|link| !except.contains(&link.id) && takes(link));
        let others: Vec<LinkId> = others.map(|link| link.id).collect();
        drop(routes);
        others.into_iter().any(|link| gets_it(link) && !chains.holds_back(link))
    }

    /// Says whether publishers do not wait for this link, because nobody behind it takes anything: what it has no room for
    /// is dropped, and told there.
    pub fn set_lagging(&self, lagging: bool) {
        self.link.lagging.store(lagging, Ordering::Relaxed);
        self.hub.chains.wake_parked_on(self.link.id);
        self.hub.wake.wake_waiting();
    }

    /// The number given last in each lane.
    pub fn last_numbers(&self) -> Vec<u64> {
        self.hub.chains.last_numbers()
    }

    /// Has those behind the link told how far each chain is.
    pub fn tell_position(&self) {
        if !self.link.is_resting() {
            self.hub.chains.tell_position(self.link.id);
        }
    }

    // --- what we want ---

    /// Counts changes of what is asked for over this link.
    pub fn wanted_version(&self) -> u64 {
        self.link.wanted.load(Ordering::SeqCst)
    }

    /// What is asked for over this link, as announcements: what changed since a version, or all of it, and whom we lack.
    pub fn announcement(&self, announcer: Announcer, since: Option<u64>, missing: &[u64]) -> Vec<Vec<u8>> {
        let (asked, link) = (&lock(&self.hub.wanted).asked, self.link.id);
        let changes = since.and_then(|since| asked.increment(link, announcer, since, missing));
        changes.unwrap_or_else(|| asked.full(link, announcer, missing))
    }

    /// What we want was announced: marks before messages say so from now on.
    pub fn set_announced(&self, version: u64) {
        if self.announced.swap(version, Ordering::SeqCst) != version {
            self.hub.chains.set_version(self.link.id, version);
        }
    }

    // --- who is there, and what they want ---

    /// A node is there.
    pub fn join(&self, node: NodeId) {
        self.hub.routes().add_member(self.link.id, node);
        self.hub.change_interest();
        self.hub.tell(HubEvent::Joined(node));
    }

    /// A node is gone.
    pub fn part(&self, node: NodeId, departure: Departure) {
        if departure == Departure::Failed {
            self.hub.note_failed(self.now, self.link.id, node);
        }
        // In the lanes, before the first message that is left out because of it.
        self.hub.chains.forget_member(self.link.id, node, departure == Departure::Failed);
        self.hub.routes().remove_member(self.link.id, node);
        self.hub.chains.forget_loser(self.link.id, node);
        self.hub.forget_behind(self.link.id, node);
        self.hub.change_interest();
        self.hub.tell(HubEvent::Gone(node, departure));
    }

    /// A node wants something else now: what is new, and what no longer.
    pub fn change_interest(&self, node: NodeId, added: &[(u64, Entry)], removed: &[(u64, Entry)]) {
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let interest = |(id, entry): &(u64, Entry)| Some((*id, interest_of(entry)?));
        let ids: Vec<InterestId> = removed.iter().map(|(id, _)| *id).collect();
        let new: Vec<_> = added.iter().filter_map(interest).collect();
        let is_first = self.hub.routes().change_interest(self.link.id, node, new, &ids);
        if is_first && self.hub.is_router() {
            // Before a flush asks there again.
            let is_told =
                !self.link.is_resting() && self.hub.tell_passed(self.now, &self.link, None).is_empty();
            self.asks_anew.store(!is_told, Ordering::SeqCst);
            self.link.bell.ring(Ring::Turn);
        }
        self.hub.change_interest();
        self.hub.ask_behind(self.link.id, node, added, removed);
        self.link.interest.store(self.hub.interest_version(), Ordering::SeqCst);
        let patterns = |entries: &[(u64, Entry)]| {
            let patterns: BTreeSet<&str> = entries.iter().map(|(_, entry)| entry.pattern.as_str()).collect();
            patterns.into_iter().map(str::to_owned).collect()
        };
        self.hub.tell(HubEvent::Subscriptions(node, patterns(added), patterns(removed)));
    }

    /// The announcement of a node was acted on: who publishes there, its version, and whether the node asks for more than before.
    pub fn apply(&self, node: NodeId, announced: (u64, u64), asks_more: bool) {
        if announced.0 > 0 {
            self.hub.apply(self.now, &self.link, node, announced, asks_more);
        }
    }

    /// Bytes of messages whose end has not come, beside short ones.
    pub fn part_bytes(&self) -> usize {
        self.inbox.part_bytes()
    }

    /// We have another node id now.
    pub fn rename(&self, node: NodeId) {
        self.hub.rename(node);
    }

    /// Whoever is behind the link takes no longer messages: they are dropped for it, and it is told so.
    pub fn set_message_bytes_max(&self, bytes_max: u64) {
        self.hub.chains.set_message_bytes_max(self.link.id, usize::try_from(bytes_max).unwrap_or(usize::MAX));
    }

    /// Says whether somebody may want anything: one who was not heard yet, or whose interest is not known.
    pub fn set_open(&self, open: bool) {
        if self.hub.routes().set_open(self.link.id, open) {
            self.hub.change_interest();
        }
    }

    // --- which links are used ---

    /// Acts on whether the link rests. To be called in every turn of the link.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        if self.link.is_resting() && !self.link.is_to_rest.load(Ordering::SeqCst) {
            let is_asked = self.hub.routes().has_asking(self.link.id);
            let is_told = self.hub.take_up(now, &self.link, is_asked);
            self.asks_anew.store(!is_told, Ordering::SeqCst);
        }
        self.now = now;
        self.inbox.set_node(self.hub.node());
        let version = self.hub.interest_version();
        // Where there is one neighbour, our interest goes ahead of requests.
        if !self.link.is_shared() || self.wanted_version() <= self.announced.load(Ordering::SeqCst) {
            let announcement = self.wanted_version();
            self.link.announced.store(version, Ordering::SeqCst);
            self.link.announcement.store(announcement, Ordering::SeqCst);
            self.inbox.note_announced(announcement, version);
        }
        if self.link.is_resting() {
            // What is announced there contains nothing that we want: requests wait until it does.
            self.inbox.forget_announced();
            self.link.announced.store(0, Ordering::SeqCst);
        }
        let began = *self.began.get_or_insert(now);
        let listens = self.hub.is_router() && self.link.is_shared() && now < began + LISTENS;
        let rests = self.link.is_resting() || listens;
        if rests != self.rests {
            self.rests = rests;
            self.hand_over(now);
            let reads = self.hub.is_router() || self.hub.routes().reads_since() != Time::NEVER;
            self.inbox.set_resting(now, rests, reads);
            if rests {
                self.hub.chains.rest(self.link.id);
            } else {
                let is_asked = self.hub.routes().has_asking(self.link.id);
                self.asks_anew.fetch_or(is_asked && self.hub.is_router(), Ordering::SeqCst);
            }
        }
        if self.rests {
            self.settle_owed(now);
        }
        self.inbox.set_usable(self.hub.has_routers(self.link.id));
        if !self.rests && self.asks_anew.load(Ordering::SeqCst) {
            self.asks_anew.store(false, Ordering::SeqCst);
            self.untold = self.hub.tell_passed(now, &self.link, None);
        } else if !self.untold.is_empty() {
            let untold = std::mem::take(&mut self.untold);
            self.untold = self.hub.tell_passed(now, &self.link, Some(&untold));
        }
    }

    /// Others brought what is owed here: whoever waits for that need not any longer.
    fn settle_owed(&mut self, now: Time) {
        if now >= self.owed_at || lock(&self.hub.flushes).is_awaiting(self.link.id) {
            let inbox = &self.inbox;
            lock(&self.hub.owed).settle(now, self.link.id, |key| inbox.next(key));
            self.hub.note_brought(&self.link);
            self.owed_at = now + OWED_EVERY;
        }
    }

    /// Whether another link leads to whoever is behind this one, and this one is not used.
    pub fn is_resting(&self) -> bool {
        self.link.is_resting()
    }

    /// Who is on the link: publisher, node, and whether it is a router.
    pub fn set_neighbours(&self, domain: u64, neighbours: impl IntoIterator<Item = (u64, NodeId, bool)>) {
        let neighbours = neighbours.into_iter().map(|(publisher, node, router)| (publisher, (node, router)));
        self.hub.map_neighbours(self.link.id, domain, neighbours.collect());
    }

    /// Says whether nobody but one node is on the link, and that one is no router.
    pub fn set_leaf(&self, is_leaf: bool) {
        self.link.is_leaf.store(is_leaf, Ordering::Relaxed);
    }

    /// Whether a node on the link is a router.
    pub fn is_router(&self, node: NodeId) -> bool {
        self.hub.has_router(self.link.id, node)
    }

    /// The link is broken and may be mended: another way is used, if there is one. Or it is mended.
    pub fn set_suspected(&self, is_suspected: bool) {
        self.hub.map_suspects(self.link.id, is_suspected);
    }

    /// Takes a record by which routers know the network's shape, or ask each other. False if it is something else.
    pub fn handle_routing(&self, record: &[u8]) -> Result<bool, DecodeError> {
        let link = self.link.id;
        match RecordKind::of(record)? {
            RecordKind::LinkState => self.hub.map_hears(link, LinkState::read(record)?),
            RecordKind::Question => {
                let question = Question::read(record)?;
                let mut deferred = lock(&self.deferred);
                // What it asks about may be missing, or withheld.
                let is_early = self.lacks(&question)
                    || self.withholds(self.now, &question)
                    || self.hub.disagrees(link, &question);
                if is_early && deferred.len() < DEFERRED_MAX {
                    if deferred.iter().all(|(known, _)| *known != question) {
                        deferred.push((question, self.now));
                    }
                } else {
                    drop(deferred);
                    self.hub.hear_question(link, &question);
                }
            }
            RecordKind::Replay => {
                let mut replays = lock(&self.replays);
                if replays.len() < REPLAYS_MAX {
                    replays.push(Replay::read(record)?);
                }
                drop(replays);
                self.link.bell.ring(Ring::Turn);
            }
            RecordKind::Answer => self.hub.hear_answer(link, &Answer::read(record)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Answers requests that were heard. To be called when what members want was acted on, as far as it was heard.
    pub fn answer_replays(&self, now: Time) {
        for replay in std::mem::take(&mut *lock(&self.replays)) {
            self.hub.hear_replay(now, &self.link, &replay);
        }
    }

    /// Whoever is on the link may have missed what was said of where links lead: it is said again.
    pub fn tell_link_states(&self) {
        self.hub.map_tells(&self.link);
    }

    /// Asks routers on the link again that have not answered: their answers, or our questions, may be lost.
    pub fn ask_again(&self) {
        self.hub.ask_again(self.link.id);
    }

    /// The same if they have not for a while; they say then whom they wait for. Returns when to do so next.
    pub fn ask_again_in_time(&mut self, now: Time) -> Time {
        if !self.hub.is_asking(now, self.link.id) {
            self.ask_again_at = Time::NEVER;
        } else if self.ask_again_at == Time::NEVER {
            self.ask_again_at = now + ASK_AGAIN;
        } else if now >= self.ask_again_at {
            self.ask_again_at = now + ASK_AGAIN;
            self.ask_again();
        }
        self.ask_again_at
    }

    /// Whether something is to be said to whoever is on the link.
    pub fn has_routing(&self) -> bool {
        self.link.has_news.load(Ordering::SeqCst)
    }

    /// The next record to be said to whoever is on the link.
    pub fn poll_routing(&self) -> Option<Vec<u8>> {
        self.hub.map_record(&self.link)
    }

    // --- flushes ---

    /// Asks about the lanes of which enough was sent for a flush; `ask` says whether it did.
    pub fn ask_flushes(&self, sent: impl FnMut(usize) -> u64, ask: impl FnMut(usize) -> bool) {
        let mut flushes = lock(&self.hub.flushes);
        if flushes.is_waiting(self.link.id) {
            flushes.ask(self.link.id, sent, ask);
        }
    }

    /// Whether members of the link are to be asked whether they know what we want.
    pub fn awaits_interest(&self) -> bool {
        lock(&self.hub.flushes).awaits_interest(self.link.id)
    }

    /// A node lost for good some of what was sent in a lane since then: no flush may say that it has everything.
    pub fn note_loser(&self, lane: usize, node: NodeId, since: Time) {
        self.hub.chains.note_loser(lane, self.link.id, node, since);
    }

    /// Everybody answered for a lane, except the silent ones.
    pub fn answer_flush(&self, lane: usize, silent: &[NodeId]) {
        lock(&self.hub.flushes).answered(self.link.id, lane, silent);
        self.hub.say();
        self.hub.wake.wake();
    }

    // --- the end ---

    /// Tells the hub's owner something.
    pub fn tell(&self, event: HubEvent) {
        self.hub.tell(event);
    }

    /// Messages are lost here, and to those behind a router; who wants nothing lost nothing.
    pub fn tell_lost(&self, lost: Lost) {
        let is_asked_here = lock(&self.hub.wanted).asked.is_asked_here();
        if lost.publisher > 0 && (is_asked_here || self.hub.is_router()) {
            let key = (lost.publisher, lost.chain);
            lock(&self.hub.lost).add(OTHER_END, key, lost.last.max(lost.first));
        }
        if is_asked_here {
            self.hub.tell(HubEvent::Lost(lost));
        }
    }

    /// The link failed. Whoever waits for it is told why.
    pub fn fail(&self, why: &str) {
        self.hub.detach(self.link.id, Some(why));
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.hub.detach(self.link.id, None);
    }
}
