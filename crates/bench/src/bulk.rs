//! One long transfer, as fast as it goes, with every byte checked: what the NORM benchmark measures.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use shoal_io::norm::{Full, LinkError, LinkOptions, NormLink};
use shoal_norm::Stats;

use crate::verify::{VerifyInbox, fill_pattern};

/// How long a receiver stays for its sender's last questions.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);

/// How one side of a transfer went.
#[derive(Clone, Debug, Default)]
pub struct BulkReport {
    /// Bytes of messages sent or received.
    pub bytes: u64,
    /// From the first to the last of them.
    pub seconds: f64,
    /// What went wrong, if anything did.
    pub fault: Option<String>,
    /// What the session did.
    pub stats: Stats,
}

/// Sends `bytes` in messages of `message_bytes`, then ends the stream and waits until it is acknowledged
/// or announced. Calls `progress` with the bytes sent so far.
pub fn send_bulk(
    options: LinkOptions,
    bytes: u64,
    message_bytes: usize,
    linger: Duration,
    mut progress: impl FnMut(u64),
) -> Result<BulkReport, LinkError> {
    let (inbox, _) = VerifyInbox::new(0);
    let link = NormLink::open(options, Box::new(inbox))?;
    let mut message = vec![0; message_bytes];
    let began = Instant::now();
    let mut report = BulkReport::default();
    let count = bytes.div_ceil(message_bytes as u64);
    for number in 0..count {
        fill_pattern(number, &mut message);
        match link.send(0, &[&message], Full::Wait(Some(linger))) {
            Ok(()) => report.bytes += message_bytes as u64,
            Err(error) => {
                report.fault = Some(error.to_string());
                break;
            }
        }
        progress(report.bytes);
    }
    if !link.close(linger) {
        report.fault.get_or_insert("not everything was acknowledged or announced in time".to_owned());
    }
    report.seconds = began.elapsed().as_secs_f64();
    report.stats = link.stats();
    Ok(report)
}

/// Receives one such transfer, until its stream ends or nothing comes for `patience`.
pub fn receive_bulk(
    options: LinkOptions,
    message_bytes: usize,
    patience: Duration,
    mut progress: impl FnMut(u64),
) -> Result<BulkReport, LinkError> {
    let (inbox, shared) = VerifyInbox::new(message_bytes);
    let link = NormLink::open(options, Box::new(inbox))?;
    let mut last = (0, Instant::now());
    let verified = loop {
        std::thread::sleep(Duration::from_millis(10));
        let seen = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        progress(seen.bytes);
        if seen.bytes != last.0 {
            last = (seen.bytes, Instant::now());
        }
        if seen.ended || seen.fault.is_some() || last.1.elapsed() > patience {
            break seen;
        }
    };
    let stats = link.stats();
    // The sender may still be asking whether its end arrived.
    let until = Instant::now() + GOODBYE_PATIENCE;
    while verified.ended
        && Instant::now() < until
        && !shared.lock().unwrap_or_else(PoisonError::into_inner).gone
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    link.close(Duration::ZERO);
    let seconds = verified.span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    let unfinished = (!verified.ended).then(|| "the stream did not end".to_owned());
    Ok(BulkReport { bytes: verified.bytes, seconds, fault: verified.fault.or(unfinished), stats })
}
