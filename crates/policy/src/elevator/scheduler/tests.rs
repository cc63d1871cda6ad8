use super::*;

fn extent(offset: u64, length: u64) -> Extent {
    Extent { offset, length }
}

#[test]
fn every_overlap_is_found_and_nothing_else() {
    for length in 1..20 {
        for offset in 0..60 {
            let mut spans = Spans::default();
            spans.insert(1, extent(offset, length), 1);
            for other_length in 1..20 {
                for other in 0..60 {
                    let expected = offset < other + other_length && other < offset + length;
                    let found = spans.overlaps(1, extent(other, other_length));
                    assert_eq!(found, expected, "{offset}+{length} {other}+{other_length}");
                    for object in [0, 2] {
                        assert!(!spans.overlaps(object, extent(other, other_length)));
                    }
                }
            }
            spans.remove(1, extent(offset, length), 1);
            assert!(!spans.overlaps(1, extent(0, u64::MAX)));
            assert!(spans.0.is_empty());
        }
    }
}

#[test]
fn the_ends_of_the_addresses_are_no_exception() {
    let mut spans = Spans::default();
    spans.insert(1, extent(u64::MAX - 1, 1), 1);
    assert!(spans.overlaps(1, extent(0, u64::MAX)));
    assert!(!spans.overlaps(1, extent(0, u64::MAX - 1)));
    spans.insert(1, extent(0, u64::MAX), 2);
    assert!(spans.overlaps(1, extent(5, 1)));
}

#[test]
fn many_overlapping_extents_are_taken_for_a_conflict() {
    let mut spans = Spans::default();
    for sequence in 0..PROBES as u64 {
        spans.insert(1, extent(0, 16), sequence);
        let few = sequence + 1 < PROBES as u64;
        assert_eq!(!spans.overlaps(1, extent(20, 1)), few);
    }
}
