//! What the network does to a datagram on its way from one node to another.

use std::time::Duration;

use shoal_norm::{ConfigError, Time};

/// The weather between two nodes, in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Share of datagrams lost, one by one.
    pub loss: f64,
    /// Chance per datagram that a burst of loss begins.
    pub burst_begins: f64,
    /// Chance per datagram that a burst of loss ends.
    pub burst_ends: f64,
    /// Share of runs lost whole: of the datagrams a node hands over at once, all are lost or none.
    pub run_loss: f64,
    /// Share of datagrams that arrive twice.
    pub duplication: f64,
    /// Share of datagrams that others may overtake.
    pub reordering: f64,
    /// The least time under way.
    pub delay: Duration,
    /// Up to so much longer, at random; datagrams keep their order unless they are reordered.
    pub jitter: Duration,
    /// Nothing arrives.
    pub cut: bool,
}

impl Conditions {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), ConfigError> {
        let shares = [
            ("loss", self.loss),
            ("burst_begins", self.burst_begins),
            ("burst_ends", self.burst_ends),
            ("run_loss", self.run_loss),
            ("duplication", self.duplication),
            ("reordering", self.reordering),
        ];
        if let Some((field, _)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(ConfigError::new(field, "from 0 to 1"));
        }
        if self.burst_begins > 0.0 && self.burst_ends == 0.0 {
            return Err(ConfigError::new("burst_ends", "more than 0, or a burst never ends"));
        }
        Ok(())
    }
}

/// How fast a node's cable is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    /// What it can send; a node that wants more waits, as a socket would.
    pub egress_bytes_per_s: Option<f64>,
    /// What it can receive; more than its queue holds is dropped.
    pub ingress_bytes_per_s: Option<f64>,
    /// How much may wait to be received.
    pub ingress_queue_bytes: usize,
}

impl Port {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), ConfigError> {
        let rates = [
            ("egress_bytes_per_s", self.egress_bytes_per_s),
            ("ingress_bytes_per_s", self.ingress_bytes_per_s),
        ];
        let works = |rate: &f64| rate.is_finite() && *rate >= 1.0;
        match rates.into_iter().find(|(_, rate)| rate.is_some_and(|rate| !works(&rate))) {
            Some((field, _)) => Err(ConfigError::new(field, "at least 1, or none")),
            None => Ok(()),
        }
    }
}

/// What a path remembers from one datagram to the next.
#[derive(Clone, Debug, Default)]
pub struct Path {
    in_burst: bool,
    /// The last run, and whether it was lost.
    run: (u64, bool),
    last_arrival: Time,
}

/// When a datagram arrives: not at all, once or twice.
pub type Arrivals = [Option<Time>; 2];

impl Path {
    /// Sends a datagram of a run along the path; runs have numbers from 1 on.
    pub fn send(
        &mut self,
        now: Time,
        run: u64,
        conditions: &Conditions,
        random: &mut fastrand::Rng,
    ) -> Arrivals {
        if conditions.run_loss > 0.0 && self.run.0 != run {
            self.run = (run, random.f64() < conditions.run_loss);
        }
        let run_lost = conditions.run_loss > 0.0 && self.run.1;
        if conditions.burst_begins > 0.0 {
            let chance = if self.in_burst { conditions.burst_ends } else { conditions.burst_begins };
            self.in_burst ^= random.f64() < chance;
        } else {
            self.in_burst = false;
        }
        let lost = conditions.loss > 0.0 && random.f64() < conditions.loss;
        if conditions.cut || self.in_burst || run_lost || lost {
            return [None, None];
        }
        let first = self.arrival(now, conditions, random);
        let doubled = conditions.duplication > 0.0 && random.f64() < conditions.duplication;
        let second = doubled.then(|| self.arrival(now, conditions, random));
        [Some(first), second]
    }

    fn arrival(&mut self, now: Time, conditions: &Conditions, random: &mut fastrand::Rng) -> Time {
        let mut at = now + conditions.delay;
        if !conditions.jitter.is_zero() {
            at += conditions.jitter.mul_f64(random.f64());
        }
        if conditions.reordering > 0.0 && random.f64() < conditions.reordering {
            // Late by up to twice the usual time, and nobody waits for it.
            let late = (conditions.delay + conditions.jitter).max(Duration::from_micros(100));
            return at + late.mul_f64(random.f64() * 2.0);
        }
        self.last_arrival = self.last_arrival.max(at);
        self.last_arrival
    }
}

/// The receiving end of a cable.
#[derive(Clone, Debug, Default)]
pub struct Ingress {
    busy_until: Time,
}

impl Ingress {
    /// When a datagram that reaches the cable now is through it; `None` if the queue is full.
    pub fn receive(&mut self, now: Time, bytes: usize, port: &Port) -> Option<Time> {
        let Some(rate) = port.ingress_bytes_per_s else {
            return Some(now);
        };
        let waiting = self.busy_until.since(now).as_secs_f64() * rate;
        if waiting + bytes as f64 > port.ingress_queue_bytes as f64 && waiting > 0.0 {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + Duration::from_secs_f64(bytes as f64 / rate);
        Some(self.busy_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000_000);
    /// Datagrams of a run in these tests.
    const RUN: usize = 20;

    fn send_many(conditions: &Conditions, count: usize) -> Vec<Arrivals> {
        let mut random = fastrand::Rng::with_seed(9);
        let mut path = Path::default();
        let step = Duration::from_micros(10);
        let mut send =
            |at: usize| path.send(START + step * at as u32, (at / RUN + 1) as u64, conditions, &mut random);
        (0..count).map(&mut send).collect()
    }

    #[test]
    fn a_run_is_lost_whole_or_not_at_all() {
        let arrivals = send_many(&Conditions { run_loss: 0.1, ..Default::default() }, 20_000);
        let runs: Vec<usize> = arrivals.chunks(RUN).map(lost).collect();
        assert!(runs.iter().all(|lost| *lost == 0 || *lost == RUN));
        let share = runs.iter().filter(|lost| **lost > 0).count();
        assert!((60..140).contains(&share), "{share} of 1000 runs");
    }

    fn lost(arrivals: &[Arrivals]) -> usize {
        arrivals.iter().filter(|arrival| arrival[0].is_none()).count()
    }

    #[test]
    fn random_loss_takes_its_share() {
        let share = lost(&send_many(&Conditions { loss: 0.2, ..Default::default() }, 20_000));
        assert!((3_700..4_300).contains(&share), "{share} of 20,000");
    }

    #[test]
    fn burst_loss_takes_neighbours() {
        let conditions = Conditions { burst_begins: 0.01, burst_ends: 0.1, ..Default::default() };
        let arrivals = send_many(&conditions, 20_000);
        let runs = arrivals.windows(2).filter(|pair| pair[0][0].is_some() && pair[1][0].is_none()).count();
        let mean = lost(&arrivals) as f64 / runs as f64;
        assert!((8.0..12.0).contains(&mean), "bursts of {mean}");
    }

    #[test]
    fn a_burst_ends_with_the_weather_that_brought_it() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut path = Path::default();
        let storm = Conditions { burst_begins: 1.0, burst_ends: 0.001, ..Default::default() };
        assert_eq!(path.send(START, 1, &storm, &mut random), [None, None]);
        assert!(path.send(START, 1, &Conditions::default(), &mut random)[0].is_some());
    }

    #[test]
    fn duplication_doubles_its_share() {
        let arrivals = send_many(&Conditions { duplication: 0.3, ..Default::default() }, 10_000);
        let doubled = arrivals.iter().filter(|arrival| arrival[1].is_some()).count();
        assert!((2_800..3_200).contains(&doubled), "{doubled} of 10,000");
    }

    #[test]
    fn jitter_alone_keeps_the_order_and_reordering_does_not() {
        let millis = Duration::from_millis;
        let in_order = |conditions: &Conditions| {
            let times: Vec<Time> =
                send_many(conditions, 1000).iter().filter_map(|arrival| arrival[0]).collect();
            assert!(times.iter().all(|&at| at >= START + conditions.delay));
            times.is_sorted()
        };
        let jittery = Conditions { delay: millis(5), jitter: millis(3), ..Default::default() };
        assert!(in_order(&jittery));
        assert!(!in_order(&Conditions { reordering: 0.1, ..jittery }));
    }

    #[test]
    fn a_cut_path_delivers_nothing() {
        let cut = Conditions { cut: true, ..Default::default() };
        assert_eq!(lost(&send_many(&cut, 100)), 100);
    }

    #[test]
    fn impossible_conditions_are_named() {
        let field = |conditions: Conditions| conditions.check().unwrap_err().field;
        assert_eq!(field(Conditions { loss: 1.1, ..Default::default() }), "loss");
        assert_eq!(field(Conditions { reordering: f64::NAN, ..Default::default() }), "reordering");
        assert_eq!(field(Conditions { burst_begins: 0.1, ..Default::default() }), "burst_ends");
        let port = Port { ingress_bytes_per_s: Some(0.0), ..Default::default() };
        assert_eq!(port.check().unwrap_err().field, "ingress_bytes_per_s");
    }

    #[test]
    fn a_slow_cable_delays_and_a_full_queue_drops() {
        let port = Port { ingress_bytes_per_s: Some(1e6), ingress_queue_bytes: 5_000, ..Default::default() };
        let mut ingress = Ingress::default();
        let through: Vec<Option<Time>> = (0..10).map(|_| ingress.receive(START, 1000, &port)).collect();
        assert_eq!(through.iter().flatten().count(), 5);
        assert_eq!(through[4], Some(START + Duration::from_millis(5)));
        assert!(ingress.receive(START + Duration::from_millis(4), 1000, &port).is_some());
    }
}
