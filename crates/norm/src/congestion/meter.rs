//! What a receiver counts for a sender that follows it: what came from one probe to the next.
//!
//! A probe travels among the data, so what came between two of them is what was sent between them, but for losses.

use crate::quantize;
use crate::time::Time;
use crate::wire::Delivered;

#[derive(Debug, Default)]
pub struct DeliveryMeter {
    bytes: u64,
    messages: u32,
    /// The number of the newest message, once there is one.
    newest: Option<u16>,
    /// When the last probe came, and the number of the newest message then.
    since: Time,
    from: Option<u16>,
    /// What came before that, if the sender asked.
    pub delivered: Option<Delivered>,
}

impl DeliveryMeter {
    pub fn new(now: Time) -> DeliveryMeter {
        DeliveryMeter { since: now, ..DeliveryMeter::default() }
    }

    /// A message of the sender came.
    pub fn on_message(&mut self, sequence: u16, bytes: usize) {
        self.bytes += bytes as u64;
        self.messages += 1;
        if self.newest.is_none_or(|newest| sequence.wrapping_sub(newest) < 1 << 15) {
            self.newest = Some(sequence);
        }
    }

    /// A probe came, as one of those messages: counts anew.
    pub fn on_probe(&mut self, arrived_at: Time, is_asked: bool) {
        let seconds = arrived_at.since(self.since).as_secs_f64().max(1e-6);
        let numbers = self.from.zip(self.newest).map_or(0, |(from, newest)| newest.wrapping_sub(from));
        let sent = u32::from(numbers).max(self.messages);
        let lost = sent - self.messages;
        self.delivered = is_asked.then(|| Delivered {
            lost: (255 * u64::from(lost)).div_ceil(u64::from(sent.max(1))) as u8,
            rate: quantize::quantize_rate(self.bytes as f64 / seconds),
        });
        (self.bytes, self.messages) = (0, 0);
        (self.since, self.from) = (arrived_at, self.newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn it_tells_what_came_from_one_probe_to_the_next_and_what_did_not() {
        let mut meter = DeliveryMeter::new(at(0));
        // Across the wrap of the number; the probe itself is the last message.
        let mut number = 65_500u16;
        meter.on_message(number, 0);
        meter.on_probe(at(0), true);
        for step in 0..100u32 {
            number = number.wrapping_add(1);
            if step % 50 != 7 {
                meter.on_message(number, 1000);
            }
        }
        meter.on_probe(at(40), true);
        let told = meter.delivered.unwrap();
        assert_eq!(told.lost, 6, "two of a hundred, in 255ths, rounded up");
        assert!((quantize::unquantize_rate(told.rate) / 98_000.0 * 0.04 - 1.0).abs() < 0.01, "{told:?}");
        meter.on_probe(at(50), true);
        assert_eq!(meter.delivered.unwrap().lost, 0);
        meter.on_probe(at(60), false);
        assert_eq!(meter.delivered, None, "nobody asked");
    }

    #[test]
    fn messages_that_come_late_or_twice_are_no_loss() {
        let mut meter = DeliveryMeter::new(at(0));
        meter.on_message(10, 0);
        meter.on_probe(at(0), true);
        for number in [12, 11, 11, 14, 13] {
            meter.on_message(number, 100);
        }
        meter.on_probe(at(10), true);
        assert_eq!(meter.delivered.unwrap().lost, 0);
    }
}
