//! Commands and questions an application has for the group: NORM_CMD(APPLICATION) and NORM_CMD(ACK_REQ)
//! (RFC 5740 sections 4.2.3.6 and 4.2.3.7).
//!
//! Neither is repaired, so both are repeated: a command as often as its sender says, a question until everybody
//! who was asked has answered, and `robust_factor` times at the most. One of each is under way at a time.

use std::collections::VecDeque;
use std::time::Duration;

use crate::NodeId;
use crate::event::Event;
use crate::time::Time;
use crate::wire::SenderHeader;
use crate::wire::command;

#[derive(Debug)]
struct Command {
    content: Vec<u8>,
    at: Time,
    left: u32,
}

#[derive(Debug)]
struct Question {
    ack_type: u8,
    ack_id: u8,
    acked: Vec<NodeId>,
    silent: Vec<NodeId>,
    at: Time,
    left: u32,
}

/// What is being said and asked.
#[derive(Debug, Default)]
pub struct Questions {
    command: Option<Command>,
    question: Option<Question>,
}

impl Questions {
    /// Says something `times` times. False if something is being said already.
    pub fn say(&mut self, now: Time, content: &[u8], times: u32) -> bool {
        if self.command.is_some() {
            return false;
        }
        self.command = Some(Command { content: content.to_vec(), at: now, left: times.max(1) });
        true
    }

    /// Asks nodes for an acknowledgement. False if something is being asked already.
    pub fn ask(&mut self, now: Time, ack_type: u8, ack_id: u8, nodes: &[NodeId], times: u32) -> bool {
        if self.question.is_some() {
            return false;
        }
        let silent = nodes.to_vec();
        self.question = Some(Question { ack_type, ack_id, acked: Vec::new(), silent, at: now, left: times });
        true
    }

    /// A node answered.
    pub fn on_answer(&mut self, node: NodeId, ack_type: u8, ack_id: u8) {
        if let Some(question) = &mut self.question
            && (question.ack_type, question.ack_id) == (ack_type, ack_id)
            && let Some(index) = question.silent.iter().position(|silent| *silent == node)
        {
            question.acked.push(question.silent.swap_remove(index));
            if question.silent.is_empty() {
                (question.left, question.at) = (0, Time::ZERO);
            }
        }
    }

    /// Writes what is due. False if nothing is.
    pub fn poll(&mut self, now: Time, interval: Duration, header: &SenderHeader, out: &mut Vec<u8>) -> bool {
        if let Some(said) = self.command.as_mut().filter(|said| said.at <= now) {
            command::write_application(header, &said.content, out);
            said.left -= 1;
            said.at = now + interval;
            if said.left == 0 {
                self.command = None;
            }
            return true;
        }
        if let Some(asked) = self.question.as_mut().filter(|asked| asked.at <= now && asked.left > 0) {
            command::write_ack_request(header, asked.ack_type, asked.ack_id, &asked.silent, out);
            asked.left -= 1;
            asked.at = now + interval;
            return true;
        }
        false
    }

    /// When something is due.
    pub fn deadline(&self) -> Time {
        let said = self.command.as_ref().map_or(Time::NEVER, |said| said.at);
        let asked = self.question.as_ref().map_or(Time::NEVER, |asked| asked.at);
        said.min(asked)
    }

    /// Ends a question whose last repetition had its time. Call when its deadline has come.
    pub fn settle(&mut self, now: Time, events: &mut VecDeque<Event>) {
        if let Some(asked) = self.question.take_if(|asked| asked.left == 0 && asked.at <= now) {
            let Question { ack_type, ack_id, mut acked, silent, .. } = asked;
            acked.sort_unstable();
            events.push_back(Event::AcksDone { ack_type, ack_id, acked, silent });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(10);
    const HEADER: SenderHeader =
        SenderHeader { sequence: 0, source: 1, instance: 1, grtt: 0, backoff: 4, group_size: 0 };

    fn at(step: u32) -> Time {
        Time::from_nanos(1_000_000) + STEP * step
    }

    #[test]
    fn a_question_is_repeated_until_everybody_answered() {
        let (mut questions, mut out, mut events) = (Questions::default(), Vec::new(), VecDeque::new());
        assert!(questions.ask(at(0), 16, 3, &[4, 5], 20));
        assert!(!questions.ask(at(0), 16, 4, &[4], 20));
        assert!(questions.poll(at(0), STEP, &HEADER, &mut out));
        assert!(!questions.poll(at(0), STEP, &HEADER, &mut out));
        questions.on_answer(5, 16, 3);
        questions.on_answer(4, 17, 3);
        assert!(questions.poll(at(1), STEP, &HEADER, &mut out));
        assert_eq!(out[out.len() - 4..], 4u32.to_be_bytes(), "only who did not answer is asked again");
        questions.on_answer(4, 16, 3);
        questions.settle(at(1), &mut events);
        let done = Event::AcksDone { ack_type: 16, ack_id: 3, acked: vec![4, 5], silent: vec![] };
        assert_eq!(events, [done]);
        assert_eq!(questions.deadline(), Time::NEVER);
    }

    #[test]
    fn who_never_answers_is_named() {
        let (mut questions, mut out, mut events) = (Questions::default(), Vec::new(), VecDeque::new());
        questions.ask(at(0), 16, 1, &[4], 3);
        for step in 0..4 {
            questions.poll(at(step), STEP, &HEADER, &mut out);
            questions.settle(at(step), &mut events);
        }
        let done = Event::AcksDone { ack_type: 16, ack_id: 1, acked: vec![], silent: vec![4] };
        assert_eq!(events, [done]);
    }

    #[test]
    fn a_command_is_said_as_often_as_asked() {
        let (mut questions, mut out) = (Questions::default(), Vec::new());
        assert!(questions.say(at(0), b"stop", 2));
        let said = (0..5).filter(|step| questions.poll(at(*step), STEP, &HEADER, &mut out)).count();
        assert_eq!(said, 2);
    }
}
