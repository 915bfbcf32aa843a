//! What other nodes say of themselves: announcements, heartbeats and welcomes.

use shoal_norm::{NodeId, Time};
use shoal_wire::{Announce, DecodeError, Heartbeat, JoinedGroups, Position, RecordKind, Welcome};

use super::member::{self, Heard, Member};
use super::{
    Due, INTEREST_BYTES_MAX, MemberEvent, Membership, PARTS_PATIENCE, PROMPT_MEMBERS_MAX, REPEAT_FIRST,
    STRANGERS_MAX,
};
use crate::hub::Departure;
use crate::interest::InterestBounds;
use crate::norm::group_of_lane;

impl Membership {
    /// Takes a control record of a node's run. `succeeds` tells whether the run speaks in place of another one, which is silent;
    /// `positions` is where our streams are now, given the first numbers for which the node was not counted on, if it was
    /// before.
    pub fn handle_record(
        &mut self,
        now: Time,
        (node, instance): (NodeId, u16),
        record: &[u8],
        succeeds: impl Fn(NodeId, u16) -> bool,
        positions: impl FnOnce(Option<Vec<u64>>) -> Vec<Position>,
    ) -> Result<(), DecodeError> {
        let kind = RecordKind::of(record)?;
        if let Some(member) = self.members.get_mut(&node).filter(|member| member.instance == instance) {
            member.heard_at = now;
            if matches!(kind, RecordKind::Heartbeat | RecordKind::Announce) {
                member.beat.on_beat(now);
                self.death_at = self.death_at.min(member.death_at(self.config.missed_heartbeats_max));
            }
        }
        match kind {
            RecordKind::Announce => {
                self.on_announce(now, (node, instance), &Announce::read(record)?, succeeds, positions)
            }
            RecordKind::Heartbeat => self.on_heartbeat(now, node, instance, Heartbeat::read(record)?),
            RecordKind::Welcome => self.on_welcome(now, node, instance, Welcome::read(record)?),
            _ => {}
        }
        Ok(())
    }

    fn on_announce(
        &mut self,
        now: Time,
        (node, instance): (NodeId, u16),
        announce: &Announce<'_>,
        succeeds: impl Fn(NodeId, u16) -> bool,
        positions: impl FnOnce(Option<Vec<u64>>) -> Vec<Position>,
    ) {
        let publisher = announce.header.publisher;
        if announce.header.domain != self.config.domain || publisher == self.config.publisher {
            return;
        }
        let other = self.nodes.get(&publisher).filter(|other| **other != node);
        let elsewhere = other.map(|other| (*other, self.members[other].instance));
        let before = self.members.get(&node).map(|member| (node, member.instance));
        // Anybody can send a copy of an announcement in another's name, or as another run.
        let is_open =
            |&(other, run): &(NodeId, u16)| (other, run) != (node, instance) && !succeeds(other, run);
        if before.iter().chain(&elsewhere).any(is_open) {
            return self.on_stranger(now, publisher);
        }
        self.strangers.remove(&publisher);
        if self.has_other_groups((node, instance), announce) {
            return;
        }
        let is_other = |member: &Member| (member.instance, member.publisher) != (instance, publisher);
        if self.members.get(&node).is_some_and(is_other) {
            self.forget(node, Departure::Failed);
        }
        if let Some((before, _)) = elsewhere {
            // It has another node id now.
            self.remove(before, Departure::Left);
        }
        let is_new = !self.members.contains_key(&node);
        let mut positions = Some(positions);
        let joined = |positions: Vec<Position>, groups: u32| {
            let is_in = move |position: &Position| {
                group_of_lane(position.stream.into()).is_none_or(|group| groups >> group & 1 == 1)
            };
            positions.into_iter().filter(is_in).collect::<Vec<_>>()
        };
        if is_new {
            if self.members.len() >= self.config.members_max {
                return;
            }
            let bounds = InterestBounds { bytes_max: INTEREST_BYTES_MAX };
            let Some(positions) = positions.take() else { return };
            let groups = JoinedGroups::of(&announce.facts).joined;
            let welcome = match self.forgotten.take(publisher) {
                Some((before, first)) => {
                    self.returned.push(node);
                    let mut again = joined(positions(Some(first)), groups);
                    for position in &mut again {
                        // In a group that it was not in before it missed nothing.
                        if !before.iter().any(|told| told.stream == position.stream) {
                            position.missed_from = 0;
                        }
                    }
                    member::welcome_again(before, &again)
                }
                None => joined(positions(None), groups),
            };
            let member = Member::new(now, instance, announce, bounds, welcome);
            self.death_at = self.death_at.min(member.death_at(self.config.missed_heartbeats_max));
            self.lacking += usize::from(member.is_lacking());
            self.unknown += usize::from(!member.is_known());
            self.members.insert(node, member);
            self.nodes.insert(publisher, node);
            (self.ackers_changed, self.bystanders_changed) = (true, true);
            self.events.push_back(MemberEvent::Joined(node));
            self.repeat = REPEAT_FIRST;
        }
        let (all, all_max) = (self.interest_bytes, self.interest_bytes_max);
        let taken = self.change(node, instance, |member| {
            let others = all - member.interest_bytes();
            let room = all_max.saturating_sub(others).min(INTEREST_BYTES_MAX);
            let (roles, groups) = (member.roles, member.groups.joined);
            let heard = member.take_announce(now, announce, room);
            let has_joined = member.groups.joined & !groups;
            (heard, member.roles != roles, has_joined, others + member.interest_bytes())
        });
        let Some((heard, has_other_roles, has_joined, bytes)) = taken else { return };
        self.ackers_changed |= has_other_roles || has_joined != 0;
        self.interest_bytes = bytes;
        match heard {
            Heard::Changed(change) => self.events.push_back(MemberEvent::Subscriptions(node, change)),
            Heard::TooMuch => self.events.push_back(MemberEvent::TooMuch(node)),
            Heard::Lacking => self.announce_soon(now),
            Heard::Partly => {
                // Should the rest not come, it is asked for.
                self.announce_at = self.announce_at.min(now + PARTS_PATIENCE);
                self.repeats = true;
            }
            Heard::Nothing => {}
        }
        let patience = self.repeat_first();
        let Some(member) = self.members.get_mut(&node) else { return };
        if has_joined != 0
            && let Some(positions) = positions.take()
        {
            let is_of_group = |position: &Position| group_of_lane(position.stream.into()).is_some();
            let further = joined(positions(None), has_joined).into_iter().filter(is_of_group);
            member.welcome_in_groups(further);
            // What follows counts: it cannot wait until many are welcomed together.
            self.records.push_back(Due::Welcome(node));
        }
        let lacks_us = announce.missing.contains(&self.config.publisher);
        // What was said a moment ago is on its way.
        if !is_new && (!lacks_us || now.since(member.welcomed_at) < patience) {
            return self.stop_repeating();
        }
        member.welcomed_at = now;
        if self.members.len() > PROMPT_MEMBERS_MAX {
            self.held.push(node);
        } else {
            self.records.push_back(Due::Welcome(node));
        }
        self.announced = 0;
        self.announce_soon(now);
    }

    /// Whether a node has another number of groups than we. It is told of once for each of its runs.
    fn has_other_groups(&mut self, run: (NodeId, u16), announce: &Announce<'_>) -> bool {
        if announce.part > 0 {
            return self.refused.contains(&run);
        }
        let theirs = JoinedGroups::of(&announce.facts).count;
        if theirs == self.config.groups.count() as u32 {
            self.refused.remove(&run);
            return false;
        }
        if self.refused.len() >= STRANGERS_MAX {
            self.refused.pop_first();
        }
        if self.refused.insert(run) {
            self.events.push_back(MemberEvent::OtherGroups(run.0, theirs));
        }
        true
    }

    fn on_heartbeat(&mut self, now: Time, node: NodeId, instance: u16, heartbeat: Heartbeat) {
        if heartbeat.domain != self.config.domain || self.refused.contains(&(node, instance)) {
            return;
        }
        if self.members.get(&node).is_some_and(|member| member.instance == instance) {
            if self.on_version(now, node, instance, heartbeat.version) {
                self.events.push_back(MemberEvent::InterestUnknown(node));
            }
        } else {
            self.on_stranger(now, heartbeat.publisher);
        }
    }

    fn on_stranger(&mut self, now: Time, stranger: u64) {
        if self.strangers.len() < STRANGERS_MAX {
            self.strangers.insert(stranger);
            self.announce_soon(now);
        }
    }

    fn on_welcome(&mut self, now: Time, node: NodeId, instance: u16, welcome: Welcome) {
        if welcome.to != self.config.publisher {
            return;
        }
        if self.change(node, instance, |member| member.welcomed_us = true).is_none() {
            self.on_stranger(now, welcome.from);
        }
        self.stop_repeating();
        let Welcome { from: publisher, positions, .. } = welcome;
        self.events.push_back(MemberEvent::Welcomed { node, instance, publisher, positions });
    }
}
