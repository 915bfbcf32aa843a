//! Publishing: who gets a message, what a full queue does, and what number it has.
//!
//! | `when_full` | the buffer of a link is full | a queue of this process is full                                  |
//! |-------------|------------------------------|-----------------------------------------------------------------|
//! | `block`     | wait, unless it is lagging   | wait; with links only for `patience`, and then lose messages as a slow member does |
//! | `drop`      | not sent over that link      | dropped for that queue                                          |
//! | `error`     | nobody gets the message      | nobody gets the message                                         |
//!
//! A callback never waits for its own queue, and for no other longer than `patience`: two callbacks that
//! feed each other would wait for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::MessageView;

use super::Hub;
use super::chain::Clock;
use super::consumer::{Consumer, shared_copy};
use super::event::{HubEvent, Lost};
use super::link::{Link, Ring};
use super::routes::Plan;
use super::send_error::SendError;
use crate::attributes::Origin;

/// What publishing does when nobody takes more.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Wait.
    Block,
    /// Drop the message where there is no room.
    Drop,
    /// Refuse the message.
    Error,
}

/// How long publishing may wait.
#[derive(Copy, Clone, Debug)]
pub struct Patience {
    /// What to do when there is no room.
    pub when_full: WhenFull,
    /// How long a reader in this process may make no progress.
    pub patience: Duration,
    /// When the publisher gives up.
    pub deadline: Option<Time>,
}

/// A message to be published, and how far that is. It is offered to the hub until it is taken or refused.
pub struct Publication<'a> {
    /// Its lane, which is its chain.
    pub lane: usize,
    /// Its record up to its body, and its body.
    pub parts: [&'a [u8]; 2],
    /// Whether it has a time to live.
    pub expires: bool,
    /// How long to wait.
    pub patience: Patience,
    /// The queue whose callback publishes it, if one does.
    pub caller: Option<&'a Arc<Consumer>>,
    /// When its publisher began to wait for a queue of this process.
    pub began: Option<Time>,
    /// Queues that will not get it, because their readers were given up.
    pub without: Vec<Arc<Consumer>>,
}

/// Why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A link or a lane takes no more.
    Send(SendError),
    /// The queue of the callback that publishes is full.
    OwnQueue,
    /// Another queue stayed full for as long as a callback waits.
    Callbacks,
    /// It is no message: why.
    Unreadable(shoal_wire::DecodeError),
}

/// What became of a message that was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It is published with this number; 0 if it was dropped.
    Done(u64),
    /// There is no room. Offer it again when the hub woke you, and no later than this.
    Wait(Time),
    /// Who wants what changed since the plan was made: offer it with another one.
    Outdated,
    /// It cannot be published.
    Refused(Refusal),
}

/// Links to ring once no lock is held, by their place in a plan, and how many bytes wait for each.
#[derive(Default)]
struct Rings {
    first: Option<(usize, usize)>,
    more: Vec<(usize, usize)>,
}

impl Rings {
    #[inline]
    fn push(&mut self, ring: (usize, usize)) {
        match self.first {
            None => self.first = Some(ring),
            Some(_) => self.more.push(ring),
        }
    }

    /// Rings them, or leaves those to the caller whose ring takes a system call.
    fn ring(self, links: &[Arc<Link>], lane: usize, mut unrung: Option<&mut Unrung>) {
        for (index, waiting) in self.first.into_iter().chain(self.more) {
            let (link, ring) = (&links[index], Ring::Data(lane, waiting));
            match &mut unrung {
                Some(unrung) if link.bell.is_slow() => unrung.0.push((link.clone(), ring)),
                _ => link.bell.ring(ring),
            }
        }
    }
}

/// Links that are to be rung once whoever published has let go of what others wait for.
#[derive(Default)]
pub struct Unrung(Vec<(Arc<Link>, Ring)>);

impl Unrung {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rings them.
    pub fn ring(self) {
        self.0.into_iter().for_each(|(link, ring)| link.bell.ring(ring));
    }
}

/// Whether a full queue keeps a message from being published now.
enum Room {
    /// It has room, or does without.
    Settled,
    Wait(Time),
    Refused(Refusal),
}

impl Hub {
    /// Offers a message: it goes to everybody who wants it, or to nobody. Rings the links that are to send it.
    #[inline]
    pub fn publish(&self, clock: &impl Clock, plan: &Plan, publication: &mut Publication<'_>) -> Attempt {
        loop {
            // It waits for the routes, and so has an outcome.
            if let Some(attempt) = self.publish_on(clock, plan, publication, None) {
                return attempt;
            }
        }
    }

    /// The same for a caller that must not wait for long: `None` if filters decide, and somebody else reads or changes who wants
    /// what; then see [`Hub::wait_for_routes`]. Links whose ring takes a system call are left to the caller.
    #[inline]
    pub fn try_publish(
        &self,
        clock: &impl Clock,
        plan: &Plan,
        publication: &mut Publication<'_>,
        unrung: &mut Unrung,
    ) -> Option<Attempt> {
        self.publish_on(clock, plan, publication, Some(unrung))
    }

    #[inline]
    fn publish_on(
        &self,
        clock: &impl Clock,
        plan: &Plan,
        publication: &mut Publication<'_>,
        unrung: Option<&mut Unrung>,
    ) -> Option<Attempt> {
        let (mut asked, mut rings) = (None, Rings::default());
        let attempt = self.offer(clock, plan, &mut asked, publication, &mut rings, unrung.is_none())?;
        if attempt == Attempt::Refused(Refusal::Send(SendError::Full)) {
            // It may come back when there is room, here or in a buffer.
            self.chains.publish(publication.lane).send_away();
            self.sent_away.store(true, Ordering::SeqCst);
        }
        if rings.first.is_some() {
            rings.ring(&asked.as_ref().unwrap_or(plan).links, publication.lane, unrung);
        }
        Some(attempt)
    }

    #[inline]
    fn offer(
        &self,
        clock: &impl Clock,
        plan: &Plan,
        asked: &mut Option<Plan>,
        publication: &mut Publication<'_>,
        rings: &mut Rings,
        may_wait: bool,
    ) -> Option<Attempt> {
        let parts = publication.parts;
        let length = parts[0].len() + parts[1].len();
        if length > self.chains.message_bytes_max() {
            let too_long = SendError::TooLong(length, self.chains.message_bytes_max());
            return Some(Attempt::Refused(Refusal::Send(too_long)));
        }
        let mut publishing = self.chains.publish(publication.lane);
        if let Err(error) = publishing.check_open() {
            return Some(Attempt::Refused(Refusal::Send(error)));
        }
        // Looked at while the chain is locked: whoever changed it, and looked at the numbers then, knows what has which.
        if plan.version != self.interest_version() {
            return Some(Attempt::Outdated);
        }
        if plan.is_idle() {
            return Some(Attempt::Done(publishing.finish(length, 0, 0)));
        }
        let local = plan.asks || !plan.consumers.is_empty();
        // What no link takes is for readers here, or kept for those that ask later: by their age they know whether it is for them.
        let stamp = publishing.stamp(clock, (local || plan.keeps) && plan.links.is_empty());
        let origin = Origin {
            publisher: self.publisher,
            chain: publication.lane as u32,
            number: publishing.number(),
            timestamp_us: stamp.timestamp_us,
            node: self.node(),
        };
        let plan = if plan.asks {
            let view = match MessageView::parse(parts[0]) {
                Ok(view) => view,
                Err(error) => return Some(Attempt::Refused(Refusal::Unreadable(error))),
            };
            let mut routes = if may_wait { self.routes() } else { self.try_routes()? };
            let asked = asked.insert(Plan::default());
            let evaluations = routes.evaluations();
            routes.ask(&view, &origin, asked);
            publishing.count_evaluated(routes.evaluations() - evaluations);
            asked
        } else {
            plan
        };
        let drops = publication.patience.when_full == WhenFull::Drop;
        let (mut dropped, mut too_long) = (0, None);
        for link in &plan.links {
            if publishing.has_room(link.id, length) {
                if let Err(error) = publishing.reserve(link.id, length) {
                    return Some(Attempt::Refused(Refusal::Send(error)));
                }
                continue;
            }
            if let Some(bytes_max) = publishing.too_long_for(link.id, length) {
                (dropped, too_long) = (dropped + 1, Some(bytes_max));
                continue;
            }
            match publication.patience.when_full {
                _ if link.is_lagging() => dropped += 1,
                WhenFull::Error => return Some(Attempt::Refused(Refusal::Send(SendError::Full))),
                WhenFull::Drop => dropped += 1,
                WhenFull::Block => return Some(publication.wait(clock.now(), Time::NEVER)),
            }
        }
        for consumer in plan.consumers.iter().filter(|consumer| consumer.holds_back()) {
            if drops {
                dropped += 1;
                continue;
            }
            match publication.make_room(consumer, clock, self.has_remote_links()) {
                Room::Settled => {}
                Room::Wait(until) => return Some(publication.wait(clock.now(), until)),
                Room::Refused(why) => return Some(Attempt::Refused(why)),
            }
        }
        let targets = plan.links.len() + plan.consumers.len();
        if let Some(bytes_max) = too_long.filter(|_| dropped == targets) {
            // Nobody can take it.
            return Some(Attempt::Refused(Refusal::Send(SendError::TooLongThere(length, bytes_max))));
        }
        if drops && dropped > 0 && dropped == targets {
            plan.consumers.iter().for_each(|consumer| consumer.count_dropped());
            return Some(Attempt::Done(0));
        }
        let mut shared = None;
        if !plan.consumers.is_empty() {
            match shared_copy(&parts) {
                Ok(copy) => shared = copy,
                Err(error) => return Some(Attempt::Refused(Refusal::Send(error))),
            }
        }
        publishing.keep(self.publisher, stamp, &parts);
        for (index, link) in plan.links.iter().enumerate() {
            if dropped > 0 && !publishing.has_room(link.id, length) {
                publishing.drop_for(link.id);
            } else if let Some(waiting) = publishing.append(link.id, stamp, length, &parts) {
                rings.push((index, waiting));
            }
        }
        let mut copies = 0;
        for consumer in &plan.consumers {
            if drops && consumer.holds_back() {
                consumer.count_dropped();
            } else if !publication.without.iter().any(|lost| Arc::ptr_eq(lost, consumer)) {
                let arrived = if publication.expires { clock.now() } else { stamp.clock };
                consumer.put_record(&parts, &mut shared, &origin, arrived, publication.expires);
                copies += 1;
            }
        }
        let number = publishing.finish(length, targets, copies);
        if !publication.without.is_empty() {
            self.tell(HubEvent::Lost(Lost::of(&origin, number)));
        }
        Some(Attempt::Done(number))
    }
}

impl Publication<'_> {
    /// It has to wait, unless it waited long enough.
    #[cold]
    fn wait(&self, now: Time, until: Time) -> Attempt {
        match self.patience.deadline {
            Some(deadline) if deadline <= now => Attempt::Refused(Refusal::Send(SendError::Full)),
            deadline => Attempt::Wait(deadline.map_or(until, |deadline| deadline.min(until))),
        }
    }

    /// What to do about a queue that is full.
    #[cold]
    fn make_room(&mut self, consumer: &Arc<Consumer>, clock: &impl Clock, has_remote: bool) -> Room {
        if self.without.iter().any(|lost| Arc::ptr_eq(lost, consumer)) {
            return Room::Settled;
        }
        if self.patience.when_full == WhenFull::Error {
            return Room::Refused(Refusal::Send(SendError::Full));
        }
        if self.caller.is_some_and(|caller| Arc::ptr_eq(caller, consumer)) {
            return Room::Refused(Refusal::OwnQueue);
        }
        let now = clock.now();
        let limit = *self.began.get_or_insert(now) + self.patience.patience;
        if has_remote && (consumer.is_given_up() || now >= limit) {
            consumer.give_up();
            self.without.push(consumer.clone());
            return Room::Settled;
        }
        if now < limit {
            return Room::Wait(limit);
        }
        if self.caller.is_some() { Room::Refused(Refusal::Callbacks) } else { Room::Wait(Time::NEVER) }
    }
}

#[cfg(test)]
mod tests {
    use shoal_wire::{BodyKind, Destination, Outgoing, Topic};

    use super::super::{Asleep, HubConfig, LinkKind, Silent, lock};
    use super::*;

    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Time {
            Time::from_nanos(1)
        }

        fn wall_us(&self) -> u64 {
            1
        }
    }

    fn hub() -> Arc<Hub> {
        let config = HubConfig {
            publisher: 7,
            node: 1,
            lanes: 2,
            lane_bytes_max: 1 << 10,
            message_bytes_max: 1 << 10,
            assembly_bytes_max: 1 << 10,
            seed: 1,
        };
        Hub::new(&config, Arc::new(Asleep))
    }

    fn record() -> Vec<u8> {
        let mut record = Vec::new();
        let topic = Topic::new("prices").unwrap();
        Outgoing::new(Destination::topic(topic), BodyKind::Bytes, b"5").encode_into(&mut record).unwrap();
        record
    }

    fn publication(record: &[u8]) -> Publication<'_> {
        let patience = Patience { when_full: WhenFull::Error, patience: Duration::ZERO, deadline: None };
        Publication {
            lane: 1,
            parts: [record, &[]],
            expires: false,
            patience,
            caller: None,
            began: None,
            without: Vec::new(),
        }
    }

    #[test]
    fn a_plan_made_before_a_link_was_activated_is_outdated_once_the_lanes_are_free() {
        let hub = hub();
        let port = hub.attach("cable", LinkKind::Alone, Box::new(Silent));
        let link = hub.routes().link(port.link()).unwrap().clone();
        link.rests.store(true, Ordering::SeqCst);
        let (plan, record) = (hub.plan(b"prices"), record());
        // Activation waits for this once it let go of the lanes.
        let held = lock(&hub.owed);
        let activation = std::thread::spawn({
            let (hub, link) = (hub.clone(), link.clone());
            move || hub.take_up(Time::ZERO, &link, false)
        });
        while link.is_resting() {
            std::thread::yield_now();
        }
        let attempt = hub.publish(&Noon, &plan, &mut publication(&record));
        drop(held);
        activation.join().unwrap();
        assert_eq!(attempt, Attempt::Outdated, "else the link skips the message as unwanted");
    }

    #[test]
    fn who_must_not_wait_does_not_wait_for_who_changes_what_is_wanted() {
        let (hub, record) = (hub(), record());
        let mut publication = publication(&record);
        let filtered = Plan { version: hub.interest_version(), asks: true, ..Plan::default() };
        let changing = hub.routes();
        let attempt = hub.try_publish(&Noon, &filtered, &mut publication, &mut Unrung::default());
        assert_eq!(attempt, None);
        assert!(hub.try_plan(b"prices").is_none());
        drop(changing);
        let attempt = hub.try_publish(&Noon, &filtered, &mut publication, &mut Unrung::default());
        assert_eq!(attempt, Some(Attempt::Done(1)), "the attempt before took no number");
    }
}
