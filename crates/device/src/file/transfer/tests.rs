use super::*;
use crate::{Buffer, Issuer};

fn target(length_bytes: u64, block_bytes: u64) -> Target {
    let null = || std::fs::File::open("/dev/null").unwrap().into();
    Target {
        name: "file".to_owned(),
        buffered: null(),
        direct: Some(null()),
        durable: Some(null()),
        length_bytes,
        block_bytes,
        tail_start: length_bytes - length_bytes % 4096,
        writable: true,
    }
}

fn transfer(target: &Target, operation: Operation, offset: u64, length: usize) -> Transfer {
    let buffer = Buffer::new(length, 512);
    let request = Request::owned(operation, offset, buffer, Issuer::Reader, |_, _| ());
    Transfer::new(request, target)
}

/// Answers attempts until the end; what was asked for as (offset, bytes).
fn run(
    target: &Target,
    mut transfer: Transfer,
    answers: &[Result<usize, Errno>],
) -> (Vec<(u64, usize)>, Option<Outcome>) {
    let mut asked = Vec::new();
    for answer in answers {
        let (offset, vectors) = transfer.attempt(target);
        asked.push((offset, vectors.iter().map(Segment::len).sum()));
        match transfer.advance(target, *answer) {
            Progress::Again(again) => transfer = again,
            Progress::Finished(_, outcome) => return (asked, Some(outcome)),
        }
    }
    (asked, None)
}

#[test]
fn short_and_interrupted_transfers_go_on_from_a_block() {
    let target = target(1 << 20, 512);
    let answers = [
        Ok(1024),
        Err(Errno::INTR),
        Ok(700),
        Err(Errno::AGAIN),
        Ok(2560),
    ];
    let one = transfer(&target, Operation::Read, 4096, 4096);
    let (asked, outcome) = run(&target, one, &answers);
    let expected = [
        (4096, 4096),
        (5120, 3072),
        (5120, 3072),
        (5632, 2560),
        (5632, 2560),
    ];
    assert_eq!(asked, expected);
    assert_eq!(outcome.unwrap().result, Ok(()));
}

#[test]
fn the_tail_is_what_is_there_and_less_is_truncated() {
    let target = target(4096 + 700, 512);
    let tail = || transfer(&target, Operation::Read, 4096, 1024);
    let (_, outcome) = run(&target, tail(), &[Ok(700)]);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.transferred_bytes, 700);
    assert!(matches!(
        outcome.result,
        Err(Error::PastEnd { offset: 4096, .. })
    ));
    // Grown since it was opened: only what it had counts.
    let (_, outcome) = run(&target, tail(), &[Ok(1024)]);
    assert_eq!(outcome.unwrap().transferred_bytes, 700);
    for (answers, transferred) in [
        (vec![Ok(0)], 0),
        (vec![Ok(512), Ok(0)], 512),
        (vec![Ok(600), Ok(88)], 600),
    ] {
        let (_, outcome) = run(&target, tail(), &answers);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.transferred_bytes, transferred);
        assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
    }
}

#[test]
fn errors_name_the_exact_byte_and_endless_interruption_ends() {
    let target = target(1 << 20, 512);
    let one = transfer(&target, Operation::Write, 8192, 4096);
    let (_, outcome) = run(&target, one, &[Ok(1536), Err(Errno::NOSPC)]);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.transferred_bytes, 1536);
    let error = Error::failed(&target.name, 8192 + 1536, Errno::NOSPC);
    assert_eq!(outcome.result, Err(error));
    let one = transfer(&target, Operation::Read, 0, 512);
    let (asked, outcome) = run(&target, one, &vec![Err(Errno::AGAIN); 2000]);
    assert!(asked.len() <= 1001 && outcome.is_some());
    let one = transfer(&target, Operation::Write, 0, 512);
    let (_, outcome) = run(&target, one, &[Ok(0)]);
    assert_eq!(
        outcome.unwrap().result,
        Err(Error::failed(&target.name, 0, Errno::IO))
    );
}

#[test]
fn a_write_of_the_tail_is_cut_and_goes_through_the_cache() {
    let target = target(4096 + 700, 512);
    let one = transfer(&target, Operation::Write, 4096, 1024);
    assert!(one.through_cache);
    let (asked, outcome) = run(&target, one, &[Ok(100), Ok(600)]);
    assert_eq!(asked, [(4096, 700), (4196, 600)]);
    assert_eq!(outcome.unwrap().transferred_bytes, 700);
    assert!(!transfer(&target, Operation::Write, 0, 4096).through_cache);
    // What the page cache would write together with the tail goes the same way; reads do not.
    let target = self::target(8192 + 1000, 512);
    let is_tail = |operation, offset| transfer(&target, operation, offset, 512).through_cache;
    assert!(is_tail(Operation::Write, 8192) && is_tail(Operation::Write, 8704));
    assert!(!is_tail(Operation::Write, 7680) && !is_tail(Operation::Read, 8704));
}

fn flush(target: &Target) -> Transfer {
    Transfer::new(Request::flush(Issuer::Flusher, |_| ()), target)
}

#[test]
fn a_flush_is_made_until_it_is_whole_and_a_failed_one_not_again() {
    let target = target(1 << 20, 512);
    assert_eq!(flush(&target).call, Call::Flush);
    let answers = [Err(Errno::INTR), Err(Errno::CANCELED), Ok(0)];
    let (asked, outcome) = run(&target, flush(&target), &answers);
    assert_eq!((asked.len(), outcome.unwrap().result), (3, Ok(())));
    let failed = DEVICE_FLUSH_ERRORS.get();
    let (_, outcome) = run(&target, flush(&target), &[Err(Errno::IO), Ok(0)]);
    let outcome = outcome.unwrap();
    assert_eq!(
        outcome.result,
        Err(Error::failed(&target.name, 0, Errno::IO))
    );
    assert!(DEVICE_FLUSH_ERRORS.get() > failed);
    let (asked, outcome) = run(&target, flush(&target), &vec![Err(Errno::INTR); 2000]);
    assert_eq!(asked.len(), 1001);
    assert!(outcome.unwrap().result.is_err());
}

fn durable(target: &Target) -> Transfer {
    let mut request = transfer(target, Operation::Write, 4096, 4096).request;
    request.set_durable();
    Transfer::new(request, target)
}

/// The kernel reports a lost write to each open file once: neither gets the report of the other.
#[test]
fn a_durable_write_and_a_flush_get_reports_of_errors_apart() {
    use std::os::fd::AsRawFd;
    for is_direct in [false, true] {
        let mut target = target(4096 + 700, 512);
        target.direct = target.direct.take_if(|_| is_direct);
        let number = |one: &Transfer| one.descriptor(&target).as_raw_fd();
        let flushed = number(&flush(&target));
        let mut tail = transfer(&target, Operation::Write, 4096, 512).request;
        tail.set_durable();
        let tail = Transfer::new(tail, &target);
        assert_ne!(number(&tail), flushed, "{is_direct}");
        // Also the flush that comes after one that the system cannot make durable.
        let mut one = durable(&target);
        assert_ne!(number(&one), flushed, "{is_direct}");
        one.call = Call::Flush;
        assert_ne!(number(&one), flushed, "{is_direct}");
    }
}

#[test]
fn where_no_write_is_durable_a_flush_comes_after_it() {
    let target = target(1 << 20, 512);
    assert_eq!(durable(&target).call, Call::DurableWrite);
    for refusal in [Errno::OPNOTSUPP, Errno::NOSYS] {
        let mut one = durable(&target);
        let mut calls = Vec::new();
        let outcome = loop {
            one.attempt(&target);
            calls.push(one.call);
            let answer = match calls.len() {
                1 => Err(refusal),
                2 => Ok(1024),
                3 => Ok(3072),
                _ => Ok(0),
            };
            match one.advance(&target, answer) {
                Progress::Again(again) => one = again,
                Progress::Finished(_, outcome) => break outcome,
            }
        };
        let expected = [Call::DurableWrite, Call::Write, Call::Write, Call::Flush];
        assert_eq!(calls, expected);
        assert_eq!((outcome.transferred_bytes, outcome.result), (4096, Ok(())));
    }
    // The bytes came, and may be lost all the same.
    let answers = [Err(Errno::NOSYS), Ok(4096), Err(Errno::IO)];
    let (_, outcome) = run(&target, durable(&target), &answers);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.transferred_bytes, 0);
    assert_eq!(
        outcome.result,
        Err(Error::failed(&target.name, 4096, Errno::IO))
    );
    // For an ordinary write it is an error like any other.
    let plain = transfer(&target, Operation::Write, 0, 4096);
    let (_, outcome) = run(&target, plain, &[Err(Errno::NOSYS)]);
    assert_eq!(
        outcome.unwrap().result,
        Err(Error::failed(&target.name, 0, Errno::NOSYS))
    );
}

#[test]
fn an_attempt_has_few_pieces_and_whole_blocks() {
    let mut buffer = Buffer::new(100 * 3000, 512);
    let (mut rest, mut segments) = (buffer.as_segment(), Vec::new());
    for _ in 0..3000 {
        let (now, later) = rest.split_at(100);
        segments.push(now);
        rest = later;
    }
    let sum = |vectors: &[Segment]| vectors.iter().map(Segment::len).sum::<usize>();
    let vectors = part(&segments, 0, 300_000, 512);
    assert_eq!(sum(&vectors), 102_400);
    let vectors = part(&segments, 512, 300_000, 4096);
    assert_eq!(vectors[0].len(), 88);
    assert_eq!(vectors[0].start(), segments[5].split_at(12).1.start());
    assert_eq!(sum(&vectors), 102_388 / 4096 * 4096);
    assert_eq!(sum(&part(&segments, 250, 333, 1)), 83);
    assert!(part(&segments[..1], 0, 100, 512).is_empty());
}
