use super::*;

/// The distance after so many times late, where a distance brings a rate.
fn grown(gain: &mut Gain, mut distance: u64, times: u32, rate: impl Fn(u64) -> u64) -> u64 {
    for _ in 0..times {
        match gain.late(rate(distance), distance) {
            Growth::On => distance += distance / 8,
            Growth::Stop => {}
            Growth::Back(before) => distance = before,
        }
    }
    distance
}

#[test]
fn a_distance_grows_as_long_as_the_rate_grows_with_it() {
    let mut gain = Gain::default();
    assert!(grown(&mut gain, 4 << 20, 40, |distance| distance * 20) > 256 << 20);
}

#[test]
fn it_stays_until_it_is_known_what_to_compare_with() {
    let mut gain = Gain::default();
    assert_eq!(grown(&mut gain, 4 << 20, 3, |_| 1 << 30), 4 << 20);
    assert_eq!(gain.late(1 << 30, 4 << 20), Growth::On);
}

#[test]
fn where_it_brings_nothing_it_goes_back_and_is_tried_again_later() {
    let mut gain = Gain::default();
    let most = grown(&mut gain, 4 << 20, 7, |_| 1 << 30);
    assert!((6 << 20..7 << 20).contains(&most), "{most}");
    let once = grown(&mut gain, most, 1, |_| 1 << 30);
    assert_eq!(once, 4 << 20);
    assert_eq!(grown(&mut gain, once, 63, |_| 1 << 30), once);
    let later = grown(&mut gain, once, 1000, |_| 1 << 30);
    assert!((once..7 << 20).contains(&later), "{later}");
    // The rate is limited to what comes of 16 MiB.
    let limited = |distance: u64| (20 * distance).min(20 * (16 << 20));
    let longer = grown(&mut gain, once, 400, limited);
    assert!((14 << 20..40 << 20).contains(&longer), "{longer}");
}

#[test]
fn one_time_that_was_slow_is_no_change_and_four_are() {
    let mut gain = Gain::default();
    let distance = grown(&mut gain, 4 << 20, 8, |_| 1 << 30);
    assert_eq!(gain.late(1, distance), Growth::Stop);
    assert_eq!(grown(&mut gain, distance, 3, |_| 1 << 30), distance);
    assert_eq!(grown(&mut gain, distance, 3, |_| 1 << 20), distance);
    assert_eq!(gain.late(1 << 20, distance), Growth::On);
}
