//! The inner loop: `destination += Σ constant · source` over byte slices, with the processor's vectors.
//!
//! This is the crate's only file with `unsafe` code, for two reasons and no others:
//! * a function compiled for an instruction set may run only where the processor has it. [`Kernel`] can only be
//!   obtained after asking the processor, which is what makes the calls in [`Kernel::multiply_add`] sound;
//! * vector loads and stores take pointers. Each is made from a slice of exactly the vector's length.
//!
//! A product by a constant is linear in the bits of the other factor, so it is the sum of what the low and the
//! high four bits contribute: two look-ups in tables of sixteen, which `pshufb` does for a whole vector (SSSE3,
//! AVX2). GFNI multiplies each byte by an 8×8 bit matrix, which is the same map in one instruction.
#![allow(unsafe_code)]

use crate::gf256::PRODUCTS;

/// A way to multiply and add, which this processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Gfni,
}

impl Kernel {
    /// The kernel every processor has.
    pub const SCALAR: Self = Self(Instructions::Scalar);

    /// The kernels of this processor, slowest first; the first is [`Self::SCALAR`].
    pub fn available() -> Vec<Self> {
        #[cfg_attr(
            not(target_arch = "x86_64"),
            expect(unused_mut, reason = "other processors have one kernel")
        )]
        let mut kernels = vec![Self::SCALAR];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2");
            let candidates = [
                (Instructions::Ssse3, is_x86_feature_detected!("ssse3")),
                (Instructions::Avx2, avx2),
                (Instructions::Gfni, avx2 && is_x86_feature_detected!("gfni")),
            ];
            kernels.extend(candidates.into_iter().filter(|candidate| candidate.1).map(|found| Self(found.0)));
        }
        kernels
    }

    /// The fastest kernel of this processor.
    pub fn fastest() -> Self {
        Self::available().pop().unwrap_or(Self::SCALAR)
    }

    /// The instruction set's name: `scalar`, `ssse3`, `avx2` or `gfni`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Instructions::Ssse3 => "ssse3",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni => "gfni",
        }
    }

    /// Add each source times its constant to `destination`, over as many bytes as all of them have.
    ///
    /// Several sources at once save reading and writing the destination for each.
    #[inline]
    pub fn multiply_add<const N: usize>(
        self,
        destination: &mut [u8],
        sources: [&[u8]; N],
        constants: [u8; N],
    ) {
        let length = sources.iter().fold(destination.len(), |shortest, source| shortest.min(source.len()));
        let (destination, sources) = (&mut destination[..length], sources.map(|source| &source[..length]));
        match self.0 {
            Instructions::Scalar => multiply_add_scalar(destination, sources, constants),
            // SAFETY: `available` names these only where the processor has the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Ssse3 => unsafe { x86::multiply_add_ssse3(destination, sources, constants) },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { x86::multiply_add_avx2(destination, sources, constants) },
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni => unsafe { x86::multiply_add_gfni(destination, sources, constants) },
        }
    }
}

fn multiply_add_scalar<const N: usize>(destination: &mut [u8], sources: [&[u8]; N], constants: [u8; N]) {
    for (source, constant) in sources.into_iter().zip(constants) {
        let products = &PRODUCTS[usize::from(constant)];
        for (sum, factor) in destination.iter_mut().zip(source) {
            *sum ^= products[usize::from(*factor)];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::multiply_add_scalar;
    use crate::gf256::multiply;

    /// Per constant: its products with 0..16, then with 0, 16, 32, …, 240.
    static NIBBLE_PRODUCTS: [[u8; 32]; 256] = nibble_products();
    /// Per constant: multiplying by it, as the bit matrix `gf2p8affineqb` takes.
    static BIT_MATRICES: [u64; 256] = bit_matrices();
    /// A window of 32 bytes at `n` keeps the last `n` bytes of a vector.
    static KEEP_LAST: [u8; 64] = keep_last();

    const fn nibble_products() -> [[u8; 32]; 256] {
        let mut table = [[0; 32]; 256];
        let mut constant = 0;
        while constant < 256 {
            let mut nibble = 0;
            while nibble < 16 {
                table[constant][nibble] = multiply(constant as u8, nibble as u8);
                table[constant][16 + nibble] = multiply(constant as u8, (nibble << 4) as u8);
                nibble += 1;
            }
            constant += 1;
        }
        table
    }

    /// Output bit i is the parity of the input and the matrix's byte 7 − i (Intel's numbering).
    const fn bit_matrices() -> [u64; 256] {
        let mut table = [0; 256];
        let mut constant = 0;
        while constant < 256 {
            let mut bytes = [0u8; 8];
            let mut column = 0;
            while column < 8 {
                let product = multiply(constant as u8, 1 << column);
                let mut row = 0;
                while row < 8 {
                    bytes[7 - row] |= (product >> row & 1) << column;
                    row += 1;
                }
                column += 1;
            }
            table[constant] = u64::from_le_bytes(bytes);
            constant += 1;
        }
        table
    }

    const fn keep_last() -> [u8; 64] {
        let mut table = [0; 64];
        let mut index = 32;
        while index < 64 {
            table[index] = 0xff;
            index += 1;
        }
        table
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn load_16(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen bytes are there, and an unaligned load asks for nothing more.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn store_16(bytes: &mut [u8; 16], vector: __m128i) {
        // SAFETY: as for loading, and the borrow is exclusive.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), vector) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_32(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: thirty-two bytes are there, and an unaligned load asks for nothing more.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store_32(bytes: &mut [u8; 32], vector: __m256i) {
        // SAFETY: as for loading, and the borrow is exclusive.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
    }

    /// The look-up tables of one constant.
    #[derive(Clone, Copy)]
    struct Nibbles16 {
        low: __m128i,
        high: __m128i,
    }

    impl Nibbles16 {
        #[inline]
        #[target_feature(enable = "ssse3")]
        fn new(constant: u8) -> Self {
            let (halves, _) = NIBBLE_PRODUCTS[usize::from(constant)].as_chunks::<16>();
            Self { low: load_16(&halves[0]), high: load_16(&halves[1]) }
        }

        #[inline]
        #[target_feature(enable = "ssse3")]
        fn multiply(self, factors: __m128i) -> __m128i {
            let mask = _mm_set1_epi8(0x0f);
            let low = _mm_and_si128(factors, mask);
            let high = _mm_and_si128(_mm_srli_epi64::<4>(factors), mask);
            _mm_xor_si128(_mm_shuffle_epi8(self.low, low), _mm_shuffle_epi8(self.high, high))
        }
    }

    #[derive(Clone, Copy)]
    struct Nibbles32 {
        low: __m256i,
        high: __m256i,
    }

    impl Nibbles32 {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn new(constant: u8) -> Self {
            let Nibbles16 { low, high } = Nibbles16::new(constant);
            Self { low: _mm256_broadcastsi128_si256(low), high: _mm256_broadcastsi128_si256(high) }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn multiply(self, factors: __m256i) -> __m256i {
            let mask = _mm256_set1_epi8(0x0f);
            let low = _mm256_and_si256(factors, mask);
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(factors), mask);
            _mm256_xor_si256(_mm256_shuffle_epi8(self.low, low), _mm256_shuffle_epi8(self.high, high))
        }
    }

    #[derive(Clone, Copy)]
    struct BitMatrix(__m256i);

    impl BitMatrix {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn new(constant: u8) -> Self {
            Self(_mm256_set1_epi64x(BIT_MATRICES[usize::from(constant)].cast_signed()))
        }

        #[inline]
        #[target_feature(enable = "avx2,gfni")]
        fn multiply(self, factors: __m256i) -> __m256i {
            _mm256_gf2p8affine_epi64_epi8::<0>(factors, self.0)
        }
    }

    #[target_feature(enable = "ssse3")]
    pub(super) fn multiply_add_ssse3<const N: usize>(
        destination: &mut [u8],
        sources: [&[u8]; N],
        constants: [u8; N],
    ) {
        for (source, constant) in sources.into_iter().zip(constants) {
            let table = Nibbles16::new(constant);
            let (sums, last_sums) = destination.as_chunks_mut::<16>();
            let (factors, last_factors) = source.as_chunks::<16>();
            for (sum, factor) in sums.iter_mut().zip(factors) {
                store_16(sum, _mm_xor_si128(load_16(sum), table.multiply(load_16(factor))));
            }
            multiply_add_short(last_sums, last_factors, constant);
        }
    }

    /// For less than a vector, such as NORM's 8-byte stream payload header: eight bytes at a time.
    #[target_feature(enable = "ssse3")]
    fn multiply_add_short(destination: &mut [u8], source: &[u8], constant: u8) {
        let table = Nibbles16::new(constant);
        let (sums, last_sums) = destination.as_chunks_mut::<8>();
        let (factors, last_factors) = source.as_chunks::<8>();
        for (sum, factor) in sums.iter_mut().zip(factors) {
            let product = table.multiply(_mm_cvtsi64_si128(i64::from_le_bytes(*factor)));
            *sum = (i64::from_le_bytes(*sum) ^ _mm_cvtsi128_si64(product)).to_le_bytes();
        }
        multiply_add_scalar(last_sums, [last_factors], [constant]);
    }

    /// AVX2 and GFNI differ only in how a vector is multiplied. A generic function would be compiled for the
    /// features both have, and could not take in the multiplication of the one that needs more.
    macro_rules! multiply_add_by_vectors_of_32 {
        ($name:ident, $features:literal, $multiplier:ident) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name<const N: usize>(
                destination: &mut [u8],
                sources: [&[u8]; N],
                constants: [u8; N],
            ) {
                if destination.len() < 32 {
                    for (source, constant) in sources.into_iter().zip(constants) {
                        multiply_add_short(destination, source, constant);
                    }
                    return;
                }
                let multipliers = constants.map(|constant| $multiplier::new(constant));
                // Byte by byte, what is left after whole vectors would cost as much as all of them. A vector
                // that ends with the slice is added instead, with zeros for what the loop will add. It comes
                // first: right after the loop it would wait for the loop's last writes.
                let left = destination.len() % 32;
                if let (1.., Some(sum), Some(keep)) =
                    (left, destination.last_chunk_mut(), KEEP_LAST[left..].first_chunk())
                {
                    let mut total = load_32(sum);
                    for (multiplier, factors) in multipliers.iter().zip(sources) {
                        let factors =
                            factors.last_chunk().map_or(_mm256_setzero_si256(), |last| load_32(last));
                        let factors = _mm256_and_si256(factors, load_32(keep));
                        total = _mm256_xor_si256(total, multiplier.multiply(factors));
                    }
                    store_32(sum, total);
                }
                let vectors = sources.map(|source| source.as_chunks::<32>().0);
                for (at, sum) in destination.as_chunks_mut().0.iter_mut().enumerate() {
                    let mut total = load_32(sum);
                    for (multiplier, factors) in multipliers.iter().zip(&vectors) {
                        total = _mm256_xor_si256(total, multiplier.multiply(load_32(&factors[at])));
                    }
                    store_32(sum, total);
                }
            }
        };
    }

    multiply_add_by_vectors_of_32!(multiply_add_avx2, "avx2", Nibbles32);
    multiply_add_by_vectors_of_32!(multiply_add_gfni, "avx2,gfni", BitMatrix);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gf256::multiply;

    /// Bytes that repeat after 251, so that shifted slices differ.
    fn pattern(length: usize, step: usize) -> Vec<u8> {
        (0..length).map(|index| ((index * step) % 251) as u8).collect()
    }

    #[test]
    fn every_kernel_agrees_with_the_field_for_every_constant_and_factor() {
        let factors: Vec<u8> = (0..=255).collect();
        for kernel in Kernel::available() {
            for constant in 0..=255 {
                let mut sums = pattern(256, 7);
                kernel.multiply_add(&mut sums, [&factors], [constant]);
                for (index, sum) in sums.iter().enumerate() {
                    let expected = pattern(256, 7)[index] ^ multiply(constant, factors[index]);
                    assert_eq!(*sum, expected, "{}: {constant} × {index}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn every_kernel_agrees_with_scalar_at_every_length_and_alignment() {
        let (before, source) = (pattern(256, 3), pattern(256, 5));
        for kernel in Kernel::available() {
            for length in 0..=150 {
                for (at, from) in [(0, 0), (1, 0), (0, 3), (7, 13), (31, 17), (33, 63)] {
                    let (mut expected, mut sums) = (before.clone(), before.clone());
                    let factors = &source[from..from + length];
                    Kernel::SCALAR.multiply_add(&mut expected[at..at + length], [factors], [0x8e]);
                    kernel.multiply_add(&mut sums[at..at + length], [factors], [0x8e]);
                    assert_eq!(sums, expected, "{}: {length} bytes at {at} from {from}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn several_sources_at_once_add_up_to_each_alone() {
        for kernel in Kernel::available() {
            for length in [0, 1, 8, 15, 16, 31, 32, 33, 63, 64, 100, 1392] {
                let sources = [5, 7, 11, 13].map(|step| pattern(length, step));
                let constants = [1, 0, 0x8e, 0xff];
                let (mut expected, mut sums) = (pattern(length, 3), pattern(length, 3));
                for (source, constant) in sources.iter().zip(constants) {
                    Kernel::SCALAR.multiply_add(&mut expected, [source], [constant]);
                }
                kernel.multiply_add(&mut sums, sources.each_ref().map(Vec::as_slice), constants);
                assert_eq!(sums, expected, "{}: {length} bytes", kernel.name());
            }
        }
    }

    #[test]
    fn slices_of_different_length_are_added_as_far_as_all_go() {
        for kernel in Kernel::available() {
            let mut sums = pattern(100, 3);
            kernel.multiply_add(&mut sums[..40], [&pattern(100, 5), &pattern(70, 7)], [1, 9]);
            kernel.multiply_add(&mut sums, [&pattern(40, 5), &pattern(90, 7)], [1, 9]);
            assert_eq!(sums, pattern(100, 3), "{}", kernel.name());
        }
    }

    #[test]
    fn the_fastest_kernel_is_available_and_scalar_always_is() {
        assert!(Kernel::available().contains(&Kernel::fastest()));
        assert_eq!(Kernel::available()[0], Kernel::SCALAR);
    }
}
