//! A run in the form of fio 2.1.3: KB are 1024 bytes, times are microseconds, and the depths are
//! those asked for. What fio does not know (calls, hits, the effective depth) has lines of its own
//! behind.

use std::fmt::Write;

use super::recording::Recording;
use super::workload::Workload;
use pagewell_load::measure::number;

const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];
const MICRO_BUCKETS: [u64; 9] = [2, 4, 10, 20, 50, 100, 250, 500, 750];
const MILLI_BUCKETS: [u64; 11] = [1, 2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// A run as one job of this name.
pub(super) fn text(name: &str, workload: Workload, run: &Recording) -> String {
    let block = format!("{}K-{0}K", workload.block_bytes >> 10);
    let milliseconds = (run.seconds() * 1e3).round();
    let rate = run.kilobytes_per_second();
    let iops = number(run.latencies.len()) / run.seconds().max(1e-9);
    let (kind, group) = match workload.writes {
        true => ("write:", "WRITE:"),
        false => ("read :", "READ:"),
    };
    let (order, process, total) = (workload.fio(), std::process::id(), megabytes(run.bytes()));
    let mut text = format!(
        "{name}: (g=0): rw={order}, bs={block}/{block}/{block}, ioengine=vsync, iodepth=1\n\
         fio-2.1.3\nStarting 1 thread\n\n{name}: (groupid=0, jobs=1): err= 0: pid={process}\n  \
         {kind} io={total}, bw={rate:.0}KB/s, iops={iops:.0}, runt={milliseconds:>6}msec\n"
    );
    latency(&mut text, run);
    bandwidth(&mut text, run);
    buckets(&mut text, run);
    processor(&mut text, run);
    depths(&mut text, workload, run);
    let calls = &run.calls;
    let (depth, depth_of_calls) = (run.depth(), run.depth_of_calls());
    text + &format!(
        "\nRun status group 0 (all jobs):\n{group:>8} io={total}, aggrb={rate:.0}KB/s, \
         minb={rate:.0}KB/s, maxb={rate:.0}KB/s, mint={milliseconds}msec, \
         maxt={milliseconds}msec\n  rpc          : read={}, write={}, commit={}, other={}, \
         total={}, depth={depth_of_calls:.2}\n  effective    : depth={depth:.2}\n",
        calls.reads, calls.writes, calls.commits, calls.others, calls.requests,
    )
}

fn megabytes(bytes: u64) -> String {
    let value = number(bytes) / f64::from(1 << 20);
    let decimals = usize::from(value.fract() != 0.0);
    format!("{value:.decimals$}MB")
}

/// Microseconds of each operation, the shortest first.
fn sorted(run: &Recording) -> Vec<f64> {
    let mut latencies = run.latencies.clone();
    latencies.sort_unstable();
    let micro = latencies.iter().map(|time| f64::from(*time) / 1e3);
    micro.collect()
}

/// The mean and the standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let (mean, variance) = pagewell_load::measure::moments(values).unwrap_or_default();
    (mean, variance.unwrap_or(0.0).sqrt())
}

fn percentile(sorted: &[f64], percent: f64) -> f64 {
    // An index, cut below.
    let rank = (number(sorted.len()) * percent / 100.0).ceil() as usize;
    sorted
        .get(rank.max(1) - 1)
        .or(sorted.last())
        .copied()
        .unwrap_or(0.0)
}

fn latency(text: &mut String, run: &Recording) {
    let sorted = sorted(run);
    let (least, most) = (percentile(&sorted, 0.0), percentile(&sorted, 100.0));
    let (mean, deviation) = moments(&sorted);
    for name in ["clat", " lat"] {
        let _ = writeln!(
            text,
            "    {name} (usec): min={least:.0}, max={most:.0}, avg={mean:5.2}, stdev={deviation:.2}"
        );
    }
    let _ = writeln!(text, "    clat percentiles (usec):");
    let cells: Vec<String> = PERCENTILES
        .iter()
        .map(|percent| format!("{percent:5.2}th=[{:5.0}]", percentile(&sorted, *percent)))
        .collect();
    let lines = cells.chunks(4);
    let last = lines.len();
    for (index, line) in (1..).zip(lines) {
        let end = if index < last { "," } else { "" };
        let _ = writeln!(text, "     | {}{end}", line.join(", "));
    }
}

fn bandwidth(text: &mut String, run: &Recording) {
    let rates = || run.bandwidths.iter().copied();
    let (least, most) = (rates().reduce(f64::min), rates().fold(0.0, f64::max));
    let (least, (mean, deviation)) = (least.unwrap_or(0.0), moments(&run.bandwidths));
    let _ = writeln!(
        text,
        "    bw (KB  /s): min={least:5.0}, max={most:5.0}, per=100.00%, avg={mean:5.2}, \
         stdev={deviation:5.2}"
    );
}

/// Shares of operations by time, each bucket with its upper end.
fn buckets(text: &mut String, run: &Recording) {
    let micro = MICRO_BUCKETS.iter().map(|end| (*end, end * 1000));
    let milli = MILLI_BUCKETS.iter().map(|end| (*end, end * 1_000_000));
    let mut counts = vec![0u64; MICRO_BUCKETS.len() + MILLI_BUCKETS.len() + 1];
    let ends: Vec<(u64, u64)> = micro.chain(milli).collect();
    for latency in &run.latencies {
        let found = ends.iter().position(|(_, end)| u64::from(*latency) < *end);
        counts[found.unwrap_or(ends.len())] += 1;
    }
    let total = number(run.latencies.len()).max(1.0);
    // fio counts what is below a millisecond among the microseconds, with 1000 as their last.
    let named = |index: usize| match index {
        9 => "1000".to_owned(),
        index if index < ends.len() => ends[index].0.to_string(),
        _ => ">=1000".to_owned(),
    };
    let shares: Vec<(usize, String)> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(index, count)| {
            let share = (number(*count) * 100.0 / total).max(0.01);
            (index, format!("{}={share:.2}%", named(index)))
        })
        .collect();
    for (unit, of) in [("usec", 0..10), ("msec", 10..counts.len())] {
        let line: Vec<&str> = shares
            .iter()
            .filter(|(index, _)| of.contains(index))
            .map(|(_, share)| share.as_str())
            .collect();
        if !line.is_empty() {
            let _ = writeln!(text, "    lat ({unit}) : {}", line.join(", "));
        }
    }
}

fn processor(text: &mut String, run: &Recording) {
    let percent = |time: std::time::Duration| time.as_secs_f64() * 100.0 / run.seconds().max(1e-9);
    let _ = writeln!(
        text,
        "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, majf=0, minf={}",
        percent(run.usage.user),
        percent(run.usage.system),
        run.usage.context_switches,
        run.usage.page_faults
    );
}

fn depths(text: &mut String, workload: Workload, run: &Recording) {
    let one = "1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%";
    let batch = "0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%";
    let writes = if workload.writes {
        run.latencies.len()
    } else {
        0
    };
    let reads = run.latencies.len() - writes;
    *text += &format!(
        "  IO depths    : {one}\n     submit    : {batch}\n     complete  : {batch}\n     \
         issued    : total=r={reads}/w={writes}/d=0, short=r=0/w=0/d=0\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn run() -> Recording {
        Recording {
            loop_time: Duration::from_millis(2000),
            block_bytes: 4096,
            latencies: (1..=256).map(|micro| micro * 1000).collect(),
            bandwidths: vec![400.0, 600.0],
            ..Recording::default()
        }
    }

    #[test]
    fn the_lines_are_those_that_scripts_look_for() {
        let text = text("read_file", Workload::ALL[0], &run());
        for line in [
            "read_file: (g=0): rw=read, bs=4K-4K/4K-4K/4K-4K, ioengine=vsync, iodepth=1",
            "  read : io=1MB, bw=512KB/s, iops=128, runt=  2000msec",
            "    clat (usec): min=1, max=256, avg=128.50, stdev=74.05",
            "    clat percentiles (usec):",
            "     |  1.00th=[    3],  5.00th=[   13], 10.00th=[   26], 20.00th=[   52],",
            "     | 99.99th=[  256]",
            "    bw (KB  /s): min=  400, max=  600, per=100.00%, avg=500.00, stdev=141.42",
            "     issued    : total=r=256/w=0/d=0, short=r=0/w=0/d=0",
            "   READ: io=1MB, aggrb=512KB/s, minb=512KB/s, maxb=512KB/s, mint=2000msec, \
             maxt=2000msec",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(
            text.contains("lat (usec) : 2=0.39%, 4=0.78%, 10=2.34%"),
            "{text}"
        );
    }

    #[test]
    fn shares_add_up_and_long_ones_are_milliseconds() {
        let mut run = run();
        run.latencies = vec![900_000, 1_500_000, 3_000_000_000];
        let text = text("write_file", Workload::RANDOM_WRITE_SMALL, &run);
        assert!(text.contains("    lat (usec) : 1000=33.33%\n"), "{text}");
        assert!(
            text.contains("    lat (msec) : 2=33.33%, >=1000=33.33%\n"),
            "{text}"
        );
        assert!(
            text.contains("rw=randwrite") && text.contains("r=0/w=3/d=0"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_no_defect() {
        let text = text("x", Workload::ALL[1], &Recording::default());
        assert!(text.contains("io=0MB"), "{text}");
    }
}
