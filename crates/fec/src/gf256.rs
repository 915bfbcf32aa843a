//! Arithmetic in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, whose root α = 2 generates every non-zero element
//! (RFC 5510 §8.1). Addition is exclusive or. All tables are computed at compile time.

/// The field's polynomial without its x^8 term.
const REDUCTION: u8 = 0x1d;

/// The order of α: exponents count modulo this.
const ORDER: usize = 255;

const POWERS: [u8; 2 * ORDER] = powers();
const LOGARITHMS: [u8; 256] = logarithms();

/// `PRODUCTS[a][b]` is a·b: what a scalar loop over one constant reads from.
pub(crate) static PRODUCTS: [[u8; 256]; 256] = products();

/// α to the power of `exponent`.
pub const fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// a·b.
pub const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize]
}

/// The element whose product with `a` is 1; zero has none, and gives zero.
pub const fn inverse(a: u8) -> u8 {
    if a == 0 {
        return 0;
    }
    POWERS[ORDER - LOGARITHMS[a as usize] as usize]
}

const fn times_alpha(a: u8) -> u8 {
    (a << 1) ^ (REDUCTION * (a >> 7))
}

/// Written twice over, so that the sum of two logarithms needs no reduction.
const fn powers() -> [u8; 2 * ORDER] {
    let mut table = [1; 2 * ORDER];
    let mut exponent = 1;
    while exponent < table.len() {
        table[exponent] = times_alpha(table[exponent - 1]);
        exponent += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut exponent = 0;
    while exponent < ORDER {
        table[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    table
}

const fn products() -> [[u8; 256]; 256] {
    let mut table = [[0; 256]; 256];
    let mut a = 0;
    while a < 256 {
        let mut b = 0;
        while b < 256 {
            table[a][b] = multiply(a as u8, b as u8);
            b += 1;
        }
        a += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as the definition has it: polynomials over GF(2), reduced.
    fn multiply_by_definition(a: u8, b: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_polynomials_modulo_the_field_polynomial() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), multiply_by_definition(a, b), "{a} × {b}");
                assert_eq!(PRODUCTS[usize::from(a)][usize::from(b)], multiply(a, b));
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        assert_eq!(inverse(0), 0);
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1, "inverse of {a}");
        }
    }

    #[test]
    fn alpha_generates_every_non_zero_element() {
        let mut seen = [false; 256];
        for exponent in 0..ORDER {
            seen[usize::from(power(exponent))] = true;
        }
        assert!(!seen[0] && seen[1..].iter().all(|met| *met));
        assert_eq!(power(ORDER), 1);
    }
}
