//! Numbers that wrap: comparing them, and finding the unwrapped number a wrapped one stands for.

/// The number nearest to `reference` whose low `bits` bits are `low`.
pub fn extend(reference: u64, low: u32, bits: u32) -> u64 {
    let modulus = 1u64 << bits;
    let mask = modulus - 1;
    let forward = (u64::from(low)).wrapping_sub(reference) & mask;
    if forward <= modulus / 2 {
        reference.wrapping_add(forward)
    } else {
        // Behind the reference; near zero there is nothing behind, so it must be ahead.
        let backward = modulus - forward;
        reference.checked_sub(backward).unwrap_or_else(|| reference.wrapping_add(forward))
    }
}

/// Whether 16-bit serial number `a` comes before `b`.
pub fn before(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extends_across_the_wrap_in_both_directions() {
        assert_eq!(extend(0x00ff_fffe, 1, 24), 0x0100_0001);
        assert_eq!(extend(0x0100_0001, 0x00ff_fffe, 24), 0x00ff_fffe);
        assert_eq!(extend(5, 3, 24), 3);
        assert_eq!(extend(5, 9, 24), 9);
        assert_eq!(extend(0, 0xffff, 16), 0xffff);
    }

    #[test]
    fn extends_the_widest_field() {
        assert_eq!(extend(u64::from(u32::MAX), 2, 32), (1 << 32) + 2);
    }

    #[test]
    fn orders_serial_numbers_across_the_wrap() {
        assert!(before(0xffff, 0));
        assert!(!before(0, 0xffff));
        assert!(!before(7, 7));
    }
}
