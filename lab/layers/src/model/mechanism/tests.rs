use pagewell_base::mix::mix;

use super::*;

const READ: Operation = Operation::Read;
const LENGTH: u64 = 1 << 40;

fn mechanism(text: &str) -> Mechanism {
    Mechanism::new(Parameters::parse(text).unwrap(), LENGTH)
}

/// Service time of a request that comes when nothing else is there.
fn alone(mechanism: &mut Mechanism, offset: u64, length: u64) -> Service {
    let now = mechanism.free + Duration::from_secs(1);
    let service = mechanism.serve(now, READ, offset, length);
    assert_eq!(service.start, now);
    service
}

fn nanoseconds(service: Service) -> u128 {
    (service.done - service.start).as_nanos()
}

#[test]
fn a_dvd_takes_the_published_times() {
    let mut dvd = mechanism("dvd");
    let mut offset = 0;
    for (kilobytes, expected) in [(2, 660_000), (12, 1_810_000), (16, 2_270_000)] {
        let contiguous = alone(&mut dvd, offset, kilobytes << 10);
        assert!(!contiguous.sought);
        assert_eq!(nanoseconds(contiguous), expected);
        offset += kilobytes << 10;
    }
    let elsewhere = alone(&mut dvd, 1 << 30, 2048);
    assert!(elsewhere.sought);
    assert_eq!(nanoseconds(elsewhere), 67_660_000);
    let back_to_the_same = alone(&mut dvd, 1 << 30, 2048);
    assert_eq!(nanoseconds(back_to_the_same), 67_660_000);
    let rate = Parameters::parse("dvd").unwrap().media_bytes_per_second;
    assert!((rate / 1048576.0 - 8.5).abs() < 0.01, "{rate}");
    assert_eq!(dvd.totals().seeks, 2);
}

#[test]
fn a_gibibyte_by_sectors_does_not_drift() {
    let mut dvd = mechanism("dvd");
    let mut last = Duration::ZERO;
    for sector in 0..524_288 {
        // All came at once; the drive never rests.
        let service = dvd.serve(Duration::from_micros(sector), READ, sector * 2048, 2048);
        assert_eq!(service.start, last);
        last = service.done;
    }
    assert_eq!(last, Duration::from_micros(660) * 524_288);
    assert_eq!(dvd.totals().busy, last);
    assert_eq!(dvd.totals().bytes, 1 << 30);
    assert_eq!(dvd.totals().seeks, 0);
}

#[test]
fn requests_are_served_in_order_and_rest_is_not_busy() {
    let mut dvd = mechanism("dvd");
    let first = dvd.serve(Duration::ZERO, READ, 0, 2048);
    let second = dvd.serve(Duration::ZERO, READ, 1 << 20, 2048);
    let third = dvd.serve(Duration::from_secs(9), READ, 2048, 2048);
    assert_eq!(second.start, first.done);
    assert_eq!(third.start, Duration::from_secs(9));
    assert_eq!(dvd.totals().busy, Duration::from_micros(2 * 67_660 + 660));
}

#[test]
fn flash_overlaps_as_many_as_its_queue_holds() {
    // 100 us for access, 10 us for 1000 bytes.
    let text = "ssd,fixed=100us,depth=4";
    let mut parameters = Parameters::parse(text).unwrap();
    parameters.media_bytes_per_second = 1e8;
    let mut flash = Mechanism::new(parameters, LENGTH);
    let done: Vec<_> = (0..10u64)
        .map(|index| flash.serve(Duration::ZERO, READ, (10 - index) << 20, 1000))
        .map(|service| service.done.as_micros())
        .collect();
    assert_eq!(done, [110, 120, 130, 140, 220, 230, 240, 250, 330, 340]);
    assert_eq!(flash.totals().seeks, 0);
    assert_eq!(flash.totals().busy, Duration::from_micros(340));
}

#[test]
fn a_seek_and_half_a_turn_on_average() {
    let mut disk = mechanism("hdd-7200,cache=0");
    let count = 20_000;
    let mut sum = Duration::ZERO;
    for index in 0..count {
        let service = alone(&mut disk, mix(index + 1) % LENGTH / 512 * 512, 512);
        assert!(service.sought);
        sum += service.done - service.start;
    }
    let mean = sum.as_secs_f64() / f64::from(u32::try_from(count).unwrap());
    let expected = 0.1e-3 + 8.5e-3 + 8.333e-3 / 2.0 + 512.0 / 150e6;
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
}

#[test]
fn rotation_depends_on_addresses_only() {
    let offsets: Vec<u64> = (0..100).map(|index| mix(index + 1) % LENGTH).collect();
    let run = |rest: Duration| {
        let mut disk = mechanism("fc-15k,cache=0");
        let mut now = Duration::ZERO;
        let mut times = Vec::new();
        for offset in &offsets {
            let service = disk.serve(now, READ, *offset, 4096);
            times.push(service.done - service.start);
            now = service.done + rest;
        }
        times
    };
    assert_eq!(run(Duration::ZERO), run(Duration::from_micros(1234)));
}

#[test]
fn reading_the_same_block_again_takes_a_turn() {
    let mut disk = mechanism("hdd-7200,cache=0");
    alone(&mut disk, 0, 8192);
    let again = alone(&mut disk, 0, 8192);
    let turn = Duration::from_nanos(8_333_333).as_nanos();
    assert!(nanoseconds(again).abs_diff(turn) < 10, "{again:?}");
}

#[test]
fn a_mebibyte_at_a_time_takes_what_fibre_channel_disks_took() {
    let mut disk = mechanism("fc-15k");
    let mut now = Duration::ZERO;
    for index in 0..64 {
        let rest = Duration::from_micros(50); // the host's
        now = disk.serve(now, READ, index << 20, 1 << 20).done + rest;
    }
    let each = now.as_secs_f64() / 64.0;
    assert!((each / 15.746e-3 - 1.0).abs() < 0.002, "{each}");
    assert_eq!(disk.totals().buffered, 63);
}

#[test]
fn a_drive_reads_on_until_its_buffer_is_full() {
    // 1 MB/s, 1 MiB ahead; the interface is fast.
    let mut parameters = Parameters::parse("hdd-7200,cache=2m,fixed=0ms").unwrap();
    parameters.media_bytes_per_second = 1048576.0;
    parameters.interface_bytes_per_second = 1e20;
    let mut disk = Mechanism::new(parameters, LENGTH);
    let half = 1 << 19;
    let first = disk.serve(Duration::ZERO, READ, 0, half);
    assert_eq!(first.done, Duration::from_millis(500));
    // After ten seconds 1 MiB is there, and the rest has to be read.
    let now = Duration::from_millis(10_500);
    let second = disk.serve(now, READ, half, 4 * half);
    assert!(second.buffered && !second.sought);
    assert_eq!(second.done, now + Duration::from_secs(1));
    // What was read lately is still there, what is far ahead or far behind is not.
    let again = disk.serve(second.done, READ, 4 * half, half);
    assert!(again.buffered);
    assert_eq!(again.done, second.done);
    let behind = disk.serve(again.done, READ, 0, 512);
    assert!(behind.sought && !behind.buffered);
    let ahead = disk.serve(behind.done, READ, 4 << 20, 512);
    assert!(ahead.sought && !ahead.buffered);
}

#[test]
fn a_write_empties_the_buffer() {
    let mut disk = mechanism("hdd-7200");
    alone(&mut disk, 0, 4096);
    assert!(alone(&mut disk, 4096, 4096).buffered);
    let written = disk.serve(disk.free, Operation::Write, 8192, 4096);
    assert!(!written.buffered && !written.sought);
    assert!(!alone(&mut disk, 12_288, 4096).buffered);
}

#[test]
fn a_flush_waits_for_all_before_it_and_moves_nothing() {
    let flush = |model: &mut Mechanism, now| model.serve(now, Operation::Flush, 0, 0);
    let mut disk = mechanism("hdd-7200");
    let written = disk.serve(Duration::ZERO, Operation::Write, 1 << 30, 4096);
    let flushed = flush(&mut disk, Duration::ZERO);
    assert_eq!(flushed.start, written.done);
    assert_eq!(flushed.done, written.done + Duration::from_micros(100));
    assert_eq!((disk.totals().requests, disk.totals().flushes), (1, 1));
    assert_eq!(disk.totals().busy, flushed.done);
    let next = disk.serve(flushed.done, Operation::Write, (1 << 30) + 4096, 4096);
    assert!(!next.sought);
    // What is read ahead stays.
    alone(&mut disk, 0, 4096);
    flush(&mut disk, Duration::ZERO);
    assert!(alone(&mut disk, 4096, 4096).buffered);
    // Flash does not let it overlap, though there is room in its queue.
    let mut flash = mechanism("ssd,fixed=100us,depth=4");
    let written = flash.serve(Duration::ZERO, Operation::Write, 0, 4096);
    let flushed = flush(&mut flash, Duration::ZERO);
    assert_eq!(flushed.start, written.done);
    assert_eq!(flushed.done, written.done + Duration::from_micros(100));
}

#[test]
fn absurd_requests_do_not_panic() {
    for preset in crate::model::parameters::PRESETS {
        let mut any = mechanism(preset.name);
        for (offset, length) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX, 0), (5, 0)] {
            any.serve(Duration::MAX, READ, offset, length);
            any.serve(Duration::ZERO, Operation::Write, offset, length);
        }
    }
}
