use super::*;
use std::sync::atomic::Ordering;

use crate::testing::{
    Faulty, PATIENCE, flush, flush_request, pattern, read, request, write, write_durable,
};
use crate::{Buffer, Error, Operation, RamDevice, read_exact};
use proptest::prelude::*;

fn stripe_of(lengths: &[u64], chunk_bytes: u64) -> (Stripe, Vec<Arc<Faulty>>) {
    let children: Vec<Arc<Faulty>> = lengths
        .iter()
        .enumerate()
        .map(|(index, length)| Arc::new(Faulty::new(&format!("child {index}"), *length)))
        .collect();
    let devices = children
        .iter()
        .cloned()
        .map(|child| child as Arc<dyn Device>);
    (
        Stripe::new("stripe", devices.collect(), chunk_bytes).unwrap(),
        children,
    )
}

#[test]
fn a_megabyte_over_eight_disks_is_eight_requests() {
    let (stripe, children) = stripe_of(&[1 << 20; 8], 64 << 10);
    assert_eq!(stripe.length_bytes(), 8 << 20);
    assert_eq!(stripe.geometry().queue_depth, 8 * 64);
    let merged = STRIPE_PIECES_MERGED.get();
    assert_eq!(read(&stripe, 1 << 20, 1 << 20).0.result, Ok(()));
    assert!(STRIPE_PIECES_MERGED.get() >= merged + 8);
    for child in &children {
        let seen = child.seen.lock().unwrap();
        assert_eq!(*seen, [(Operation::Read, 128 << 10, 128 << 10, 2)]);
    }
    // One that lies in one chunk goes to one device as it is.
    assert_eq!(read(&stripe, 70 << 10, 10 << 10).0.result, Ok(()));
    let seen = children[1].seen.lock().unwrap();
    assert_eq!(seen.last(), Some(&(Operation::Read, 6 << 10, 10 << 10, 1)));
}

#[test]
fn many_requests_arrive_as_if_one_by_one() {
    let (stripe, _) = stripe_of(&[10_000; 3], 100);
    let bytes = pattern(30_000);
    assert_eq!(write(&stripe, 0, &bytes).result, Ok(()));
    let mut receivers = Vec::new();
    let mut requests = Vec::new();
    for (offset, length) in [
        (0usize, 1usize),
        (99, 2),
        (50, 5000),
        (29_999, 1),
        (30_000, 1),
    ] {
        let (one, receiver) = request(Operation::Read, offset as u64, Buffer::new(length, 1));
        requests.push(one);
        receivers.push((offset, length, receiver));
    }
    stripe.submit_many(requests);
    for (offset, length, receiver) in receivers {
        let (outcome, buffer) = receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(outcome.result.is_ok(), offset < 30_000);
        if offset < 30_000 {
            assert_eq!(buffer[..], bytes[offset..offset + length]);
        }
    }
}

#[test]
fn a_flush_goes_to_all_and_fails_with_one() {
    let (stripe, children) = stripe_of(&[10_000, 10_000, 10_000], 1000);
    children.iter().for_each(|child| child.hold());
    let (one, outcome) = flush_request();
    let (two, also) = flush_request();
    stripe.submit(one);
    stripe.submit_many(vec![two]);
    for child in &children {
        assert_eq!(child.held(), 2);
        assert!(outcome.try_recv().is_err());
        child.release();
    }
    assert_eq!(outcome.try_recv().unwrap().result, Ok(()));
    assert_eq!(also.try_recv().unwrap().result, Ok(()));
    children[1]
        .bad
        .lock()
        .unwrap()
        .push((Operation::Flush, 0..1));
    let error = flush(&stripe).result.unwrap_err().to_string();
    assert!(error.contains(children[1].name()), "{error}");
}

#[test]
fn a_durable_write_is_durable_on_every_device() {
    let (stripe, children) = stripe_of(&[10_000, 10_000], 1000);
    assert_eq!(write_durable(&stripe, 500, &[1; 4000]).result, Ok(()));
    assert_eq!(write_durable(&stripe, 500, &[1; 100]).result, Ok(()));
    assert_eq!(write(&stripe, 500, &[1; 4000]).result, Ok(()));
    let durable = children
        .iter()
        .map(|child| child.durable.load(Ordering::Relaxed));
    assert_eq!(durable.collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let device = |length| Arc::new(RamDevice::new("ram", length)) as Arc<dyn Device>;
    let make = |children, chunk| Stripe::new("stripe", children, chunk).err();
    assert!(matches!(
        make(vec![], 512),
        Some(CombineError::Count { count: 0, .. })
    ));
    let many = (0..65).map(|_| device(4096)).collect();
    assert!(matches!(
        make(many, 512),
        Some(CombineError::Count { count: 65, .. })
    ));
    assert!(matches!(
        make(vec![device(4096)], 0),
        Some(CombineError::Chunk { .. })
    ));
    assert!(matches!(
        make(vec![device(511)], 512),
        Some(CombineError::Length { .. })
    ));
    let huge = vec![device(u64::MAX), device(u64::MAX)];
    assert!(matches!(make(huge, 512), Some(CombineError::Length { .. })));
    let mut blocks = Faulty::new("blocks", 8192);
    blocks.geometry.logical_block_bytes = 4096;
    let refused = make(vec![device(8192), Arc::new(blocks)], 6144);
    let text = refused.unwrap().to_string();
    assert!(text.contains("6144") && text.contains("4096"), "{text}");
    // The smallest counts, in whole chunks.
    let (stripe, _) = stripe_of(&[1000, 799, 5000], 100);
    assert_eq!(stripe.length_bytes(), 2100);
    let past = read(&stripe, 2050, 100).0;
    assert!(matches!(past.result, Err(Error::PastEnd { .. })));
    assert!(read(&stripe, u64::MAX, 100).0.result.is_err());
}

proptest! {
    /// Against one run of bytes, with one bad range: what came is right, and it ends at the first
    /// byte of the stripe that is bad. Devices answer in any order.
    #[test]
    fn it_is_a_run_of_bytes_up_to_the_first_bad_one(
        count in 1usize..6,
        chunk in 1u64..200,
        rows in 1u64..12,
        writes in proptest::collection::vec((0usize..10_000, 1usize..3000), 0..8),
        reads in proptest::collection::vec((0usize..10_000, 1usize..3000), 1..8),
        bad in (0usize..6, 0u64..2000, 1u64..50),
        hold in any::<bool>(),
    ) {
        let (stripe, children) = stripe_of(&vec![chunk * rows; count], chunk);
        let length = usize::try_from(stripe.length_bytes()).unwrap();
        let mut model = vec![0; length];
        let bytes = pattern(20_000);
        for (offset, size) in writes {
            let (offset, size) = (offset % length, size.min(length - offset % length));
            let source = &bytes[offset + size..offset + 2 * size];
            prop_assert_eq!(write(&stripe, offset as u64, source).result, Ok(()));
            model[offset..offset + size].copy_from_slice(source);
        }
        let bad = (bad.0 % count, bad.1, bad.2);
        let range = bad.1..bad.1 + bad.2;
        children[bad.0].bad.lock().unwrap().push((Operation::Read, range.clone()));
        let is_bad = |at: &usize| {
            let (piece, inside) = (*at as u64 / chunk, *at as u64 % chunk);
            let own = piece / count as u64 * chunk + inside;
            piece % count as u64 == bad.0 as u64 && range.contains(&own)
        };
        for (offset, size) in reads {
            let (offset, size) = (offset % length, size.min(length - offset % length));
            if hold {
                children.iter().for_each(|child| child.hold());
            }
            let (one, receiver) = request(Operation::Read, offset as u64, Buffer::new(size, 1));
            stripe.submit(one);
            children.iter().rev().for_each(|child| child.release());
            let (outcome, buffer) = receiver.recv_timeout(PATIENCE).unwrap();
            let first_bad = (offset..offset + size).find(is_bad);
            let came = first_bad.unwrap_or(offset + size) - offset;
            prop_assert_eq!(outcome.transferred_bytes, came);
            prop_assert!(buffer[..came] == model[offset..offset + came]);
            if first_bad.is_some() {
                let error = outcome.result.unwrap_err().to_string();
                let child = format!("child {}", bad.0);
                prop_assert!(error.contains(&child), "{}", error);
            }
        }
        children[bad.0].bad.lock().unwrap().clear();
        let mut whole = vec![0; length];
        read_exact(&stripe, 0, &mut whole).unwrap();
        prop_assert!(whole == model);
    }
}
