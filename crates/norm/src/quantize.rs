//! The compressed numbers of RFC 5740: round-trip times, group sizes, rates, losses.

use std::time::Duration;

const RTT_MIN_S: f64 = 1.0e-6;
const RTT_MAX_S: f64 = 1000.0;
/// Below this a quantised RTT counts microseconds, above it is logarithmic.
const RTT_LINEAR_BELOW_S: f64 = 33.0e-6;

/// Quantises a round-trip time, rounding up (section 4.2, field `grtt`).
pub fn quantize_rtt(rtt: Duration) -> u8 {
    let seconds = rtt.as_secs_f64().clamp(RTT_MIN_S, RTT_MAX_S);
    let quantized = if seconds < RTT_LINEAR_BELOW_S {
        (seconds / RTT_MIN_S).ceil() - 1.0
    } else {
        (255.0 - 13.0 * (RTT_MAX_S / seconds).ln()).ceil()
    };
    quantized.clamp(0.0, 255.0) as u8
}

/// The round-trip time a quantised one stands for.
pub fn unquantize_rtt(quantized: u8) -> Duration {
    let seconds = if quantized <= 31 {
        f64::from(quantized + 1) * RTT_MIN_S
    } else {
        RTT_MAX_S / (f64::from(255 - quantized) / 13.0).exp()
    };
    Duration::from_secs_f64(seconds)
}

/// Quantises a group size, rounding up: the top bit is the mantissa (1 or 5), the rest a power of ten.
pub fn quantize_group_size(size: u32) -> u8 {
    let by_size = (0..8u8).flat_map(|exponent| [exponent, exponent | 0x8]);
    by_size.into_iter().find(|&quantized| unquantize_group_size(quantized) >= f64::from(size)).unwrap_or(15)
}

/// The group size a quantised one stands for (section 4.2, field `gsize`).
pub fn unquantize_group_size(quantized: u8) -> f64 {
    let mantissa = if quantized & 0x8 == 0 { 1.0 } else { 5.0 };
    mantissa * 10f64.powi(i32::from(quantized & 0x7) + 1)
}

/// Quantises a rate in bytes per second: 12 bits of mantissa, 4 of decimal exponent (section 4.2.3.4).
pub fn quantize_rate(bytes_per_s: f64) -> u16 {
    if bytes_per_s < 1.0 {
        return 1;
    }
    let mut exponent = bytes_per_s.log10().floor().clamp(0.0, 15.0);
    let mut mantissa = (bytes_per_s / 10f64.powf(exponent) * 4096.0 / 10.0 + 0.5).floor();
    if mantissa >= 4096.0 && exponent < 15.0 {
        exponent += 1.0;
        mantissa = (bytes_per_s / 10f64.powf(exponent) * 4096.0 / 10.0 + 0.5).floor();
    }
    (mantissa.min(4095.0) as u16) << 4 | exponent as u16
}

/// The rate in bytes per second a quantised one stands for.
pub fn unquantize_rate(quantized: u16) -> f64 {
    f64::from(quantized >> 4) * 10.0 / 4096.0 * 10f64.powi(i32::from(quantized & 0xf))
}

/// Quantises a loss fraction to 16 bits (section 4.2.3.4, field `cc_loss`). Some loss never becomes none.
pub fn quantize_loss(fraction: f64) -> u16 {
    let rounded = (fraction.clamp(0.0, 1.0) * 65535.0 + 0.5) as u16;
    rounded.max(u16::from(fraction > 0.0))
}

/// The loss fraction a quantised one stands for.
pub fn unquantize_loss(quantized: u16) -> f64 {
    f64::from(quantized) / 65535.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rtt_survives_a_round_trip_within_a_step_and_never_shrinks() {
        for micros in [1u64, 5, 31, 33, 40, 100, 1_000, 50_000, 1_000_000, 900_000_000] {
            let rtt = Duration::from_micros(micros);
            let back = unquantize_rtt(quantize_rtt(rtt)).as_secs_f64();
            assert!(back >= rtt.as_secs_f64() * 0.999, "{rtt:?} shrank to {back}");
            assert!(back <= rtt.as_secs_f64() * 1.09 + 1e-6, "{rtt:?} grew to {back}");
        }
    }

    #[test]
    fn every_quantised_rtt_is_its_own_fixed_point() {
        for quantized in 0..=255u8 {
            let again = quantize_rtt(unquantize_rtt(quantized));
            assert!(again.abs_diff(quantized) <= 1, "{quantized} became {again}");
        }
    }

    #[test]
    fn group_sizes_round_up() {
        assert_eq!(unquantize_group_size(quantize_group_size(1)), 10.0);
        assert_eq!(unquantize_group_size(quantize_group_size(11)), 50.0);
        assert_eq!(unquantize_group_size(quantize_group_size(51)), 100.0);
        assert_eq!(unquantize_group_size(quantize_group_size(u32::MAX)), 5e8);
    }

    #[test]
    fn rates_survive_a_round_trip_within_a_thousandth() {
        for rate in [1.0, 9.999, 10.0, 1234.0, 1.25e7, 9.9999e8, 4.5e9] {
            let back = unquantize_rate(quantize_rate(rate));
            assert!((back / rate - 1.0).abs() < 2e-3, "{rate} became {back}");
        }
    }

    #[test]
    fn losses_survive_a_round_trip() {
        for loss in [0.0, 0.01, 0.3, 1.0] {
            assert!((unquantize_loss(quantize_loss(loss)) - loss).abs() < 1e-4);
        }
        assert_eq!((quantize_loss(0.0), quantize_loss(1e-9)), (0, 1));
    }
}
