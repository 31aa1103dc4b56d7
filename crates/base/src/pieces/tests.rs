use proptest::prelude::*;

use super::*;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * i % 251 + i / 4096) as u8).collect()
}

/// Checks the pieces of `content` against those of the block `named`. Returns the number of
/// accepted bytes.
fn accepted(named: &[u8], values: &[u8], content: &[u8]) -> Option<usize> {
    let mut pieces = Pieces::of(&BlockHash::of(named), named.len(), values)?;
    let mut offset = 0;
    while let Some(len) = pieces.next_len() {
        if !pieces.check(&content[offset..offset + len]) {
            break;
        }
        offset += len;
    }
    Some(offset)
}

#[test]
fn first_pieces_are_small() {
    let kib = |len: usize| -> Vec<usize> { lengths(len << 10).iter().map(|l| l >> 10).collect() };
    assert_eq!(kib(4), [4]);
    assert_eq!(kib(7), [4, 3]);
    assert_eq!(kib(100), [4, 4, 8, 16, 32, 36]);
    let mut mib = vec![4, 4, 8, 16, 32];
    mib.extend([64; 15]);
    assert_eq!(kib(1024), mib);
    assert!(lengths(0).is_empty());
}

#[test]
fn short_block_has_no_values() {
    for len in [0, 1, FIRST_PIECE_BYTES] {
        let short = content(len);
        assert!(values(&short).is_empty());
        assert!(Pieces::of(&BlockHash::of(&short), len, &[]).is_none());
        let own = value(0, &content(len.max(1)));
        assert!(Pieces::of(&BlockHash::of(&short), len, &own).is_none());
    }
}

#[test]
fn piece_lengths_add_up_around_each_boundary() {
    for base in [4 << 10, 8 << 10, 64 << 10, 96 << 10, 128 << 10, 1 << 20] {
        for len in [base - 1, base, base + 1, base + 1025] {
            let block = content(len);
            assert_eq!(lengths(len).iter().sum::<usize>(), len);
            let taken = accepted(&block, &values(&block), &block);
            assert_eq!(taken.unwrap_or(len), len);
        }
    }
}

#[test]
fn pieces_can_be_skipped() {
    let block = content(200_000);
    let mut pieces = Pieces::of(&BlockHash::of(&block), block.len(), &values(&block)).unwrap();
    assert_eq!(pieces.skip_to(0), 0);
    assert_eq!(pieces.skip_to(70_000), 65_536);
    assert!(pieces.check(&block[65_536..131_072]));
    assert!(!pieces.check(&block[65_536..131_072]));
    assert!(pieces.check(&block[131_072..196_608]));
    assert_eq!(pieces.skip_to(1 << 20), 200_000);
    assert!(!pieces.check(&[]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Asserts that a wrong byte is rejected with its piece and all later ones, and that all
    /// earlier pieces are accepted.
    #[test]
    fn wrong_byte_is_never_accepted(len in 4097_usize..300_000, at: prop::sample::Index, bit in 0..8_u8) {
        let block = content(len);
        let mut wrong = block.clone();
        let at = at.index(len);
        wrong[at] ^= 1_u8 << bit;
        let taken = accepted(&block, &values(&block), &wrong).unwrap();
        prop_assert!(taken <= at && at < taken + MAX_PIECE_BYTES);
        // The values of other content are refused.
        prop_assert!(Pieces::of(&BlockHash::of(&block), len, &values(&wrong)).is_none());
    }

    #[test]
    fn wrong_values_are_refused(len in 4097_usize..300_000, at: prop::sample::Index, bit in 0..8_u8) {
        let block = content(len);
        let good = values(&block);
        let mut wrong = good.clone();
        wrong[at.index(good.len())] ^= 1_u8 << bit;
        for wrong in [&wrong[..], &good[1..], &good[..good.len() - 32], &[&good[..], &[0; 32]].concat()] {
            prop_assert!(Pieces::of(&BlockHash::of(&block), len, wrong).is_none());
        }
    }
}
