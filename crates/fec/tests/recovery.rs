//! Whole blocks: encode, lose symbols, recover, compare byte for byte.

use proptest::collection::vec;
use proptest::prelude::*;
use shoal_fec::{CodeError, Kernel, ReedSolomon, Symbol, Workspace};

fn random_block(seed: u64, symbols: usize, bytes: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..symbols).map(|_| (0..bytes).map(|_| random.u8(..)).collect()).collect()
}

fn parity_of(code: &ReedSolomon, source: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let longest = source.iter().map(Vec::len).max().unwrap_or(0);
    let mut parity = vec![vec![0; longest]; code.parity_symbols()];
    code.encode(source.iter().map(|symbol| symbol.as_slice().into()), &mut parity).unwrap();
    parity
}

/// Recover `missing` from the parity symbols `used`, and compare with what was sent.
fn assert_recovers(
    code: &ReedSolomon,
    source: &[Vec<u8>],
    parity: &[Vec<u8>],
    missing: &[usize],
    used: &[usize],
) {
    let mut buffers: Vec<Vec<u8>> = used.iter().map(|index| parity[*index].clone()).collect();
    let present = source.iter().enumerate().filter(|(index, _)| !missing.contains(index));
    let present = present.map(|(index, symbol)| (index, Symbol::from(symbol.as_slice())));
    code.recover(&mut Workspace::new(), missing, used, present, &mut buffers).unwrap();
    for (index, recovered) in missing.iter().zip(&buffers) {
        let (symbol, padding) = recovered.split_at(source[*index].len());
        assert_eq!(symbol, source[*index], "symbol {index} of {missing:?} from parity {used:?}");
        assert!(padding.iter().all(|byte| *byte == 0), "padding of symbol {index} of {missing:?}");
    }
}

#[test]
fn every_single_and_double_erasure_of_small_codes_is_recovered_from_any_parity() {
    for (k, parity_symbols) in [(1, 1), (1, 3), (2, 2), (5, 3), (8, 4)] {
        let code = ReedSolomon::new(k, parity_symbols).unwrap();
        let source = random_block(k as u64, k, 37);
        let parity = parity_of(&code, &source);
        for lost in 0..k {
            for used in 0..parity_symbols {
                assert_recovers(&code, &source, &parity, &[lost], &[used]);
            }
        }
        for (first, second) in (0..k).flat_map(|first| (0..first).map(move |second| (first, second))) {
            for one in 0..parity_symbols {
                for other in (0..parity_symbols).filter(|other| *other != one) {
                    assert_recovers(&code, &source, &parity, &[first, second], &[one, other]);
                }
            }
        }
    }
}

#[test]
fn a_code_of_full_length_recovers_as_many_symbols_as_it_has_parity() {
    for (k, parity_symbols) in [(128, 127), (200, 55), (254, 1), (1, 254)] {
        let code = ReedSolomon::new(k, parity_symbols).unwrap();
        let source = random_block(7, k, 16);
        let parity = parity_of(&code, &source);
        let lost = k.min(parity_symbols);
        let (missing, used): (Vec<_>, Vec<_>) =
            ((0..lost).collect(), (parity_symbols - lost..).take(lost).collect());
        assert_recovers(&code, &source, &parity, &missing, &used);
    }
}

#[test]
fn a_symbol_of_64_kib_is_recovered() {
    let code = ReedSolomon::new(3, 2).unwrap();
    let source = random_block(3, 3, 65_536);
    assert_recovers(&code, &source, &parity_of(&code, &source), &[0, 2], &[1, 0]);
}

#[test]
fn a_symbol_in_two_pieces_codes_like_one_wherever_it_is_cut() {
    let code = ReedSolomon::new(4, 2).unwrap();
    let source = random_block(11, 4, 101);
    let expected = parity_of(&code, &source);
    for cut in 0..=101 {
        let mut parity = vec![vec![0xaa; 101]; 2];
        let pieces = source.iter().map(|symbol| Symbol::in_two_pieces(&symbol[..cut], &symbol[cut..]));
        code.encode(pieces, &mut parity).unwrap();
        assert_eq!(parity, expected, "cut at {cut}");
    }
}

#[test]
fn source_symbols_may_be_added_in_any_order_and_only_the_parity_wanted_is_computed() {
    let code = ReedSolomon::new(5, 4).unwrap();
    let source = random_block(13, 5, 50);
    let mut parity = vec![vec![0; 50]; 2];
    for index in [3, 0, 4, 1, 2] {
        code.add_source(index, source[index].as_slice().into(), &mut parity).unwrap();
    }
    assert_eq!(parity, parity_of(&code, &source)[..2]);
}

#[test]
fn a_shortened_block_codes_as_if_its_absent_symbols_were_zero() {
    let code = ReedSolomon::new(8, 3).unwrap();
    let short = random_block(17, 5, 33);
    let mut padded = short.clone();
    padded.resize(8, vec![0; 33]);
    let parity = parity_of(&code, &short);
    assert_eq!(parity, parity_of(&code, &padded));
    assert_recovers(&code, &short, &parity, &[4, 0, 2], &[2, 0, 1]);
}

/// The block libnorm 1.5.9 and zfec 1.6 agree on, so that a change of matrix is noticed without either.
#[test]
fn parity_equals_that_of_libnorm_and_zfec() {
    let code = ReedSolomon::new(3, 3).unwrap();
    let parity = parity_of(&code, &[b"NORM".to_vec(), b"5740".to_vec(), b"5510".to_vec()]);
    assert_eq!(parity, [[182, 169, 18, 145], [155, 214, 240, 112], [25, 93, 131, 109]]);
}

#[test]
fn what_cannot_be_coded_is_refused_with_the_reason() {
    let code = ReedSolomon::new(4, 2).unwrap();
    let symbol = [1u8; 10];
    let mut parity = vec![vec![0; 10]; 2];
    assert_eq!(code.add_source(4, symbol[..].into(), &mut parity), Err(CodeError::SourceIndex(4)));
    let too_long = CodeError::Length { bytes: 10, parity_bytes: 9 };
    assert_eq!(code.add_source(0, symbol[..].into(), &mut [vec![0; 10], vec![0; 9]]), Err(too_long));
    assert_eq!(
        code.add_source(0, symbol[..].into(), &mut vec![vec![0; 10]; 3]),
        Err(CodeError::ParityIndex(2))
    );

    let mut recover = |missing: &[usize], used: &[usize], present: usize| {
        let present = [(present, Symbol::from(&symbol[..]))];
        code.recover(&mut Workspace::new(), missing, used, present, &mut parity)
    };
    let counts = |missing, parity| CodeError::Counts { missing, parity, buffers: 2 };
    assert_eq!(recover(&[0], &[0, 1], 1), Err(counts(1, 2)));
    assert_eq!(recover(&[0, 1], &[0], 2), Err(counts(2, 1)));
    assert_eq!(recover(&[0, 4], &[0, 1], 1), Err(CodeError::SourceIndex(4)));
    assert_eq!(recover(&[0, 1], &[0, 2], 2), Err(CodeError::ParityIndex(2)));
    assert_eq!(recover(&[1, 1], &[0, 1], 2), Err(CodeError::Repeated(1)));
    assert_eq!(recover(&[0, 1], &[1, 1], 2), Err(CodeError::Repeated(1)));
    assert_eq!(recover(&[0, 1], &[0, 1], 1), Err(CodeError::Repeated(1)));
    assert_eq!(recover(&[0, 1], &[0, 1], 4), Err(CodeError::SourceIndex(4)));
    assert_eq!(recover(&[0, 1], &[0, 1], 2), Ok(()));
    let uneven = &mut [vec![0; 10], vec![0; 9]];
    let refused = code.recover(&mut Workspace::new(), &[0, 1], &[0, 1], [], uneven);
    assert_eq!(refused, Err(CodeError::Length { bytes: 9, parity_bytes: 10 }));
}

/// A block with symbols of different lengths, and which of them are lost.
fn lossy_block() -> impl Strategy<Value = (usize, Vec<Vec<u8>>, Vec<usize>, Vec<usize>)> {
    (1usize..=200, 1usize..=55)
        .prop_flat_map(|(k, parity)| (Just(parity), vec(vec(any::<u8>(), 0..120), k), 0..=parity.min(k)))
        .prop_flat_map(|(parity, source, lost)| {
            let places = |count: usize| Just((0..count).collect::<Vec<_>>()).prop_shuffle();
            (Just(parity), places(source.len()), places(parity), Just(source), Just(lost))
        })
        .prop_map(|(parity, mut missing, mut used, source, lost)| {
            missing.truncate(lost);
            used.truncate(lost);
            (parity, source, missing, used)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_losses_up_to_the_parity_are_recovered_by_every_kernel(
        (parity_symbols, source, missing, used) in lossy_block()
    ) {
        for kernel in Kernel::available() {
            let code = ReedSolomon::with_kernel(source.len(), parity_symbols, kernel).unwrap();
            assert_recovers(&code, &source, &parity_of(&code, &source), &missing, &used);
        }
    }

    #[test]
    fn no_arguments_make_recovery_panic(
        missing in vec(0usize..8, 0..4),
        used in vec(0usize..6, 0..4),
        present in vec((0usize..8, vec(any::<u8>(), 0..40)), 0..8),
        mut buffers in vec(vec(any::<u8>(), 20..22), 0..4),
    ) {
        let code = ReedSolomon::new(6, 4).unwrap();
        let present = present.iter().map(|(index, symbol)| (*index, Symbol::from(symbol.as_slice())));
        let result = code.recover(&mut Workspace::new(), &missing, &used, present, &mut buffers);
        let consistent = missing.len() == used.len() && used.len() == buffers.len();
        prop_assert!(consistent || result.is_err());
    }
}
