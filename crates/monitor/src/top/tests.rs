use std::time::Duration;

use pagewell_counters::Histogram;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::measure::{Look, Unit};
use super::screen::{Around, History, draw};
use super::text;
use crate::metrics::Snapshot;
use crate::metrics::text::short;

const AROUND: Around<'_> = Around {
    source: "127.0.0.1:20491, every 1 s",
    trouble: None,
    paused: false,
};

/// A process that has done nothing, up so long.
fn idle(seconds: f64) -> Snapshot {
    let mut snapshot = crate::testing::snapshot();
    snapshot.version = "1.2.3".to_owned();
    snapshot.uptime_seconds = seconds;
    snapshot.resident_bytes = 20 << 20;
    snapshot.counters.values_mut().for_each(|value| *value = 0);
    for procedure in &mut snapshot.procedures {
        procedure.calls = 0;
        procedure.set_latency(&pagewell_counters::Counts::default());
    }
    for procedure in &mut snapshot.client_procedures {
        procedure.calls = 0;
        procedure.set_latency(&pagewell_counters::Counts::default());
    }
    snapshot
}

/// Then 2,000 reads of 1 ms in two seconds, and looks into the cache.
fn busy(reads: u64) -> Snapshot {
    let mut snapshot = idle(12.0);
    let histogram = Histogram::new();
    (0..reads).for_each(|_| histogram.record(Duration::from_millis(1)));
    let read = &mut snapshot.procedures[6];
    read.calls = reads;
    read.traffic.as_mut().unwrap().sent_bytes = reads << 12;
    read.set_latency(&histogram.counts());
    for (name, value) in [
        ("pagewell_cache_hits_total", 3),
        ("pagewell_cache_misses_total", 1),
        ("pagewell_device_reads_total", 10),
        ("pagewell_device_read_bytes_total", 4 << 20),
    ] {
        snapshot.counters.insert(name.to_owned(), value);
    }
    snapshot
}

#[test]
fn an_interval_has_its_rates() {
    let look = Look::between(&idle(10.0), &busy(2000)).unwrap();
    let value = |name: &str| {
        let measure = look.measures.iter().find(|measure| measure.name == name);
        measure.unwrap_or_else(|| panic!("{name}")).value
    };
    assert_eq!(value("server calls"), Some(1000.0));
    assert_eq!(value("server queue depth"), Some(1.0), "2 s of work in 2 s");
    let median = value("server latency").unwrap();
    assert!((1000.0..1126.0).contains(&median), "{median}");
    assert_eq!(value("server sends"), Some(4_096_000.0));
    assert_eq!(value("cache hits"), Some(75.0));
    assert_eq!(value("device reads"), Some(f64::from(2 << 20)));
    assert!(
        !look.measures.iter().any(|one| one.name == "device writes"),
        "there were none"
    );
    let procedures: Vec<&str> = look.procedures.iter().map(|one| &*one.procedure).collect();
    assert_eq!(procedures, ["read"]);
}

#[test]
fn a_client_is_shown_beside_the_server() {
    let (mut earlier, mut now) = (busy(1), busy(1));
    now.uptime_seconds += 2.0;
    let histogram = Histogram::new();
    (0..10).for_each(|_| histogram.record(Duration::from_millis(100)));
    now.client_procedures[7].calls = 10;
    now.client_procedures[7].set_latency(&histogram.counts());
    for (name, value) in [
        ("client_received_bytes", 2048),
        ("client_attribute_cache_hits", 9),
    ] {
        let name = format!("pagewell_{name}_total");
        earlier.counters.insert(name.clone(), 0);
        now.counters.insert(name, value);
    }
    let look = Look::between(&earlier, &now).unwrap();
    let value = |name: &str| {
        look.measures
            .iter()
            .find(|one| one.name == name)
            .unwrap()
            .value
    };
    assert_eq!(value("client calls"), Some(5.0));
    assert_eq!(value("client queue depth"), Some(0.5));
    assert_eq!(value("client receives"), Some(1024.0));
    assert_eq!(value("client attribute hits"), Some(100.0));
    let called: Vec<_> = look
        .procedures
        .iter()
        .map(|one| (one.program, &*one.procedure))
        .collect();
    assert_eq!(called, [("client", "write")]);
}

#[test]
fn nothing_happened_is_no_number() {
    let look = Look::between(&busy(2000), &{
        let mut later = busy(2000);
        later.uptime_seconds += 1.0;
        later
    })
    .unwrap();
    for (name, value) in [
        ("server calls", Some(0.0)),
        ("server latency", None),
        ("cache hits", None),
    ] {
        let measure = look
            .measures
            .iter()
            .find(|measure| measure.name == name)
            .unwrap();
        assert_eq!(measure.value, value, "{name}");
    }
    assert!(look.procedures.is_empty());
    assert_eq!(
        Look::between(&busy(1), &busy(1)),
        None,
        "no time has passed"
    );
    assert_eq!(Look::between(&busy(1), &idle(1.0)), None, "restarted");
}

#[test]
fn one_look_is_text_for_scripts() {
    let look = Look::between(&idle(10.0), &busy(2000)).unwrap();
    let text = text::render(&look);
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    assert_eq!(line("server calls"), ["server", "calls", "1000.000", "1/s"]);
    assert_eq!(line("cache hits"), ["cache", "hits", "75.000", "%"]);
    assert_eq!(line("server   read")[2..5], ["1000", "3.9", "MiB/s"]);
    let nothing = text::render(&Look::between(&idle(1.0), &idle(2.0)).unwrap());
    assert!(nothing.contains("nothing has been done yet"), "{nothing}");
}

fn lines(width: u16, height: u16, history: &History, around: &Around<'_>) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, history, around)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells = buffer.content().chunks(usize::from(width));
    let text = cells.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    text.map(|line| line.trim_end().to_owned()).collect()
}

fn two_looks() -> History {
    let mut history = History::default();
    history.push(Look::between(&idle(10.0), &busy(1000)).unwrap());
    history.push(Look::between(&idle(10.0), &busy(2000)).unwrap());
    history
}

#[test]
fn the_screen_is_drawn() {
    let drawn = lines(80, 24, &two_looks(), &AROUND);
    let expected = [
        "pagewell 1.2.3, up 12.0 s, resident 20 MiB            127.0.0.1:20491, every 1 s",
        "",
        "server calls                    1000/s  server latency                 1.05 ms",
        "0/s with an error                       p50; p99 1.05 ms, p99.9 1.05 ms",
        "                                     █                                      ██",
    ];
    assert_eq!(drawn[..5], expected);
    assert!(
        drawn[5].ends_with("██") && drawn[5].contains("██  "),
        "{drawn:?}"
    );
    let text = drawn.join("\n");
    for part in [
        "server sends",
        "program  procedure",
        "server   read",
        "q quits, space pauses",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn trouble_and_a_pause_are_told() {
    let around = Around {
        trouble: Some("127.0.0.1:20491: no answer"),
        ..AROUND
    };
    assert_eq!(
        lines(80, 24, &two_looks(), &around)[23],
        "127.0.0.1:20491: no answer"
    );
    let around = Around {
        paused: true,
        ..AROUND
    };
    assert!(lines(80, 24, &two_looks(), &around)[23].starts_with("paused"));
}

#[test]
fn no_size_of_a_terminal_is_too_odd() {
    let history = two_looks();
    for width in [1, 19, 20, 35, 36, 79, 200, 700] {
        for height in 1..40 {
            lines(width, height, &history, &AROUND);
            lines(width, height, &History::default(), &AROUND);
        }
    }
}

#[test]
fn values_have_three_digits() {
    for (value, text) in [
        (0.0, "0"),
        (0.5, "0.50"),
        (12.34, "12.3"),
        (9999.0, "9999"),
        (12345.0, "12.3k"),
        (3e9, "3.00G"),
    ] {
        assert_eq!(short(value), text);
    }
    assert_eq!(Unit::BytesPerSecond.show(2048.0), "2.0 KiB/s");
    assert_eq!(Unit::Percent.show(99.96), "100 %");
}

/// A process that asked a store, one second after it began to.
fn stores(unguarded: i64, kept: i64) -> Look {
    let (earlier, mut now) = (idle(10.0), idle(11.0));
    for (name, value) in [
        ("object_get_requests", 30),
        ("object_put_requests", 10),
        ("object_answers", 40),
        ("object_answer_nanoseconds", 80_000_000),
        ("object_received_bytes", 2 << 20),
        ("object_retries", 2),
        ("tier_hits", 3),
        ("tier_misses", 1),
    ] {
        now.counters.insert(format!("pagewell_{name}_total"), value);
    }
    for (name, value) in [
        ("staging_bytes", 3 << 20),
        ("staging_kept_files", kept),
        ("object_unguarded", unguarded),
        ("object_guarded", 1),
    ] {
        now.gauges.insert(format!("pagewell_{name}"), value);
    }
    Look::between(&earlier, &now).unwrap()
}

#[test]
fn stores_that_were_asked_have_their_lines() {
    let look = stores(0, 0);
    let value = |name: &str| {
        let found = look.stores.iter().find(|one| one.name == name);
        found.unwrap_or_else(|| panic!("{name}")).value
    };
    assert_eq!(value("store requests"), Some(40.0));
    assert_eq!(value("store answers"), Some(2000.0), "2 ms each");
    assert_eq!(value("disk tier hits"), Some(75.0));
    assert_eq!(value("staged"), Some(f64::from(3 << 20)));
    let cost = 30.0 * 0.0004 / 1e3 + 10.0 * 0.005 / 1e3 + f64::from(2 << 20) * 0.09 / 1e9;
    let an_hour = value("store cost").unwrap();
    assert!((an_hour - cost * 3600.0).abs() < 1e-9, "{an_hour}");
    assert!(look.stores.iter().all(|one| !one.is_warning));
    let text = text::render(&look);
    assert!(text.contains("\nstore cost "), "{text}");
    assert!(
        Look::between(&idle(1.0), &idle(2.0))
            .unwrap()
            .stores
            .is_empty()
    );
}

#[test]
fn what_people_have_to_look_at_has_a_colour() {
    for (unguarded, kept, colours) in [(0, 0, 0), (1, 0, 1), (0, 2, 1), (1, 1, 2)] {
        let mut history = History::default();
        history.push(stores(unguarded, kept));
        let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
        terminal
            .draw(|frame| draw(frame, &history, &AROUND))
            .unwrap();
        let cells = terminal.backend().buffer().content().chunks(120);
        let lines = cells.filter(|row| row.iter().any(|cell| cell.fg == Color::Yellow));
        assert_eq!(lines.count(), colours, "{unguarded} {kept}");
        let drawn = lines_of(120, 30, &history).join("\n");
        for part in [
            "object stores\n",
            "store requests         40.0/s  30 get, 0 head, 0 list, 10 put, 0 delete",
            "store receives      2.0 MiB/s  2.0 MiB since the start",
            "USD at this rate; about 0.0003 USD since the start",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        for height in 1..40 {
            lines_of(40, height, &history);
        }
    }
}

fn lines_of(width: u16, height: u16, history: &History) -> Vec<String> {
    lines(width, height, history, &AROUND)
}
