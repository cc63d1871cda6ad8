//! Reads while it is not clear which legs stay.

use super::*;

/// Writes fail on both legs, one after the other, and each just as it has brought what is read:
/// neither leaves, and both can be read.
#[test]
fn a_read_that_met_every_leg_at_a_bad_time_is_tried_again() {
    for is_first_lost in [false, true] {
        let (mirror, legs) = two(10_000);
        assert_eq!(write(&mirror, 0, &[1; 100]).result, Ok(()));
        legs.iter().for_each(|leg| leg.hold());
        let (one, done) = request(Operation::Read, 0, Buffer::new(100, 1));
        mirror.submit(one);
        let first = usize::from(legs[1].held() == 1);
        let second = 1 - first;
        let suspect = |index: usize, count| {
            mirror.shared.legs[index]
                .suspected
                .store(count, Ordering::SeqCst);
        };
        suspect(first, 1);
        legs[first].release();
        legs[first].hold();
        assert_eq!(legs[second].held(), 1);
        suspect(first, 0);
        suspect(second, 1);
        legs[second].release();
        assert_eq!(legs[first].held(), 1, "it is read there once more");
        // Suspected again: it is taken all the same, unless it leaves.
        suspect(first, 1);
        suspect(second, 0);
        if is_first_lost {
            mirror
                .shared
                .leave(first, &mirror.shared.legs[first], "a test");
        }
        let seen = legs[second].seen.lock().unwrap().len();
        legs[first].release();
        let (outcome, buffer) = done.recv_timeout(PATIENCE).unwrap();
        assert_eq!(outcome.result, Ok(()));
        assert!(buffer.iter().all(|byte| *byte == 1));
        let is_read_elsewhere = legs[second].seen.lock().unwrap().len() > seen;
        assert_eq!(is_read_elsewhere, is_first_lost);
    }
}
