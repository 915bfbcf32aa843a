//! Links come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::chain::LinkId;
use super::consumer::Consumer;
use super::event::HubEvent;
use super::link::{Link, LinkBell, LinkKind, Ring};
use super::port::Port;
use super::{Hub, lock};
use crate::load::Arrivals;

impl Hub {
    /// Gives a link its place, and whoever drives it what to drive it with. `kind` says who is on it.
    pub fn attach(self: &Arc<Hub>, name: &str, kind: LinkKind, bell: Box<dyn LinkBell>) -> Port {
        let id = {
            let mut ids = lock(&self.link_ids);
            // Buffers are kept by number, and connections come and go: numbers are used again.
            let free = (0..).find(|id| !ids.contains(id)).unwrap_or_default();
            ids.insert(free);
            free
        };
        self.chains.open(id);
        // What a program published may be on a way that is given up for this one. It is said again here if this one is used.
        let is_late = !self.is_router() && self.chains.keeps() && self.routes().links().next().is_some();
        let mut wanted = lock(&self.wanted);
        wanted.asked.open(id);
        wanted.asked.set_resting(id, is_late);
        let version = AtomicU64::new(wanted.asked.version(id));
        drop(wanted);
        let (lagging, is_leaf) = <(AtomicBool, AtomicBool)>::default();
        let (interest, announced, announcement) = <(AtomicU64, AtomicU64, AtomicU64)>::default();
        let (rests, is_to_rest) = (AtomicBool::new(is_late), AtomicBool::new(is_late));
        let name = name.to_owned();
        let has_news = AtomicBool::new(false);
        let (wanted, arrivals) = (version, (0..self.lanes).map(|_| Arrivals::default()).collect());
        let link = Arc::new(Link {
            id,
            name,
            kind,
            bell,
            wanted,
            lagging,
            rests,
            is_to_rest,
            interest,
            announced,
            announcement,
            is_leaf,
            arrivals,
            has_news,
        });
        self.chains.set_bell(&link);
        self.routes().add_link(link.clone());
        self.remote_links.fetch_add(usize::from(link.is_remote()), Ordering::Relaxed);
        self.change_interest();
        self.map_opens(id, link.is_shared());
        Port::new(self.clone(), link)
    }

    /// Takes a link away. With a reason it failed: whoever waits for it is told, and if it was the last one,
    /// everybody.
    pub(super) fn detach(&self, link: LinkId, why: Option<&str>) {
        let mut routes = self.routes();
        let Some(gone) = routes.remove_link(link) else { return };
        let last = routes.links().next().is_none();
        let consumers: Vec<Arc<Consumer>> = routes.consumers().cloned().collect();
        drop(routes);
        let came = gone.arrivals.iter().map(Arrivals::load);
        lock(&self.gone).iter_mut().zip(came).for_each(|(sum, load)| *sum += load);
        self.chains.shut(link);
        lock(&self.owed).forget(link);
        lock(&self.accept).leave(link);
        let mut wanted = lock(&self.wanted);
        wanted.asked.shut(link);
        wanted.behind.retain(|(behind, ..), _| *behind != link);
        self.want(wanted, Ring::Turn);
        lock(&self.link_ids).remove(&link);
        self.remote_links.fetch_sub(usize::from(gone.is_remote()), Ordering::Relaxed);
        self.map_shuts(link);
        let why: Option<Arc<str>> = why.map(|why| format!("{}: {why}", gone.name).into());
        lock(&self.flushes).lose(link, why.as_ref());
        self.say();
        if let Some(why) = &why {
            if last {
                *lock(&self.failure) = Some(why.clone());
                self.chains.fail(why);
                consumers.iter().for_each(|consumer| consumer.fail(why));
            }
            self.tell(HubEvent::LinkFailed(gone.name.clone(), why.clone()));
        }
        self.change_interest();
    }
}
