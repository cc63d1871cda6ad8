use std::sync::mpsc;

use super::*;

const UPDATES: u64 = 10_000;
const ORDER: [u64; 8] = [0, 5, 2, 7, 4, 1, 6, 3];
const BLOCK: u64 = 8192;

/// Memory that answers at once, or when it is told.
#[derive(Default)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    writes: Mutex<Vec<(u64, u64)>>,
    flushes: Mutex<u64>,
    held: Option<Mutex<mpsc::Sender<Ended>>>,
    fails: bool,
}

impl Store for Memory {
    const KEEPS: bool = true;

    fn load(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let bytes = self.bytes.lock().unwrap();
        for (place, byte) in (offset..).zip(target) {
            let place = usize::try_from(place).unwrap();
            *byte = bytes.get(place).copied().unwrap_or_default();
        }
        Ok(())
    }

    fn start(&self, offset: u64, source: &[u8], ended: Ended) {
        let mut bytes = self.bytes.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        if bytes.len() < start + source.len() {
            bytes.resize(start + source.len(), 0);
        }
        bytes[start..start + source.len()].copy_from_slice(source);
        drop(bytes);
        let mut writes = self.writes.lock().unwrap();
        writes.push((offset, source.len() as u64));
        drop(writes);
        match &self.held {
            _ if self.fails => ended(Err("no room".to_owned())),
            None => ended(Ok(())),
            Some(held) => held.lock().unwrap().send(ended).unwrap(),
        }
    }

    fn flush(&self) -> Result<()> {
        *self.flushes.lock().unwrap() += 1;
        Ok(())
    }
}

fn writes(buffers: &BlockBuffers<Memory>) -> u64 {
    buffers.store.writes.lock().unwrap().len() as u64
}

/// How often the program of the report has the device written, in it and after it.
fn program(rule: Rule, order: &[u64], block_size: u64, write_size: usize) -> (u64, u64) {
    let buffers = BlockBuffers::new(rule, BLOCK, 512, Memory::default());
    let (mut expected, mut source) = (vec![0; 200_000], vec![0; write_size]);
    for (update, place) in (0..UPDATES).zip(order.iter().cycle()) {
        source.fill(update.to_le_bytes()[0]);
        buffers.write(place * block_size, &source).unwrap();
        let start = usize::try_from(place * block_size).unwrap();
        expected[start..start + write_size].copy_from_slice(&source);
    }
    let in_the_loop = writes(&buffers);
    buffers.sync().unwrap();
    let mut read = vec![1; 150_000];
    buffers.read(0, &mut read).unwrap();
    assert!(read == expected[..150_000]);
    let stored = buffers.store.bytes.lock().unwrap();
    assert!(stored[..] == expected[..stored.len()]);
    assert_eq!(*buffers.store.flushes.lock().unwrap(), 1);
    drop(stored);
    (in_the_loop, writes(&buffers) - in_the_loop)
}

/// Block size, write size, and how often the device of 2000 wrote in 10,000.
const CELLS: [(u64, usize, u64); 18] = [
    (8191, 8191, 7500),
    (8191, 8192, 7500),
    (8191, 8193, 7500),
    (8192, 8191, 0),
    (8192, 8192, 8750),
    (8192, 8193, 8750),
    (8193, 8191, 8750),
    (8193, 8192, 8750),
    (8193, 8193, 8750),
    (8191, 4095, 7500),
    (8191, 4096, 7500),
    (8191, 4097, 7500),
    (8192, 4095, 0),
    (8192, 4096, 0),
    (8192, 4097, 0),
    (8193, 4095, 0),
    (8193, 4096, 0),
    (8193, 4097, 0),
];

#[test]
fn block_end_writes_as_often_as_reported_in_all_18_cells() {
    for (block_size, write_size, reported) in CELLS {
        let (in_the_loop, _) = program(Rule::BlockEnd, &ORDER, block_size, write_size);
        assert_eq!(in_the_loop, reported, "{block_size}/{write_size}");
    }
    let order: Vec<u64> = (0..16).map(|number| number * 5 % 16).collect();
    assert_eq!(program(Rule::BlockEnd, &order, BLOCK, 8192), (9375, 1));
}

#[test]
fn without_clustering_each_update_is_a_write() {
    assert_eq!(program(Rule::NoCluster, &ORDER, BLOCK, 8192), (10_000, 0));
}

#[test]
fn rules_have_names() {
    for rule in Rule::ALL {
        assert_eq!(rule.name().parse(), Ok(rule));
    }
    assert!("Delayed".parse::<Rule>().is_err());
}

/// The NFS report: 4 KiB in random order, each once, over blocks of 64 KiB were 0.88 WRITEs for
/// each, the last ranges of the blocks included: each time but the first a block has another range,
/// unless the new bytes touch it.
#[test]
fn one_range_writes_nearly_each_time_in_random_order() {
    const WRITES: u64 = 4096;
    let buffers = BlockBuffers::new(Rule::OneRange, 65_536, 1, Memory::default());
    let mut order: Vec<u64> = (0..WRITES).collect();
    let mut random = pagewell_base::mix::Random(1);
    for at in (1..order.len()).rev() {
        let other = usize::try_from(random.below(at as u64 + 1)).unwrap();
        order.swap(at, other);
    }
    for place in order {
        buffers.write(place * 4096, &[1; 4096]).unwrap();
    }
    buffers.sync().unwrap();
    let each = writes(&buffers) as f64 / WRITES as f64;
    assert!((0.86..0.90).contains(&each), "{each}");
    assert!(buffers.busy_waits() > WRITES / 2, "one at a time");
}

#[test]
fn one_range_is_written_before_another_begins() {
    let buffers = BlockBuffers::new(Rule::OneRange, BLOCK, 1, Memory::default());
    for (offset, length) in [(100, 100), (200, 50), (50, 100)] {
        buffers.write(offset, &vec![1; length]).unwrap();
    }
    assert_eq!((writes(&buffers), buffers.joined()), (0, 2));
    buffers.write(400, &[1; 10]).unwrap();
    // The end of the block is reached.
    buffers.write(410, &vec![1; 8192 - 410]).unwrap();
    let writes = buffers.store.writes.lock().unwrap();
    assert_eq!(*writes, [(50, 200), (400, 8192 - 400)]);
}

#[test]
fn a_call_waits_for_a_busy_block_and_no_other_does() {
    let (sender, held) = mpsc::channel();
    let memory = Memory {
        held: Some(Mutex::new(sender)),
        ..Memory::default()
    };
    let buffers = BlockBuffers::new(Rule::NoCluster, BLOCK, 1, memory);
    buffers.write(0, &[1; 8192]).unwrap();
    buffers.write(BLOCK, &[1; 100]).unwrap();
    assert_eq!(buffers.busy_waits(), 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| buffers.write(100, &[2; 100]));
        while buffers.busy_waits() == 0 {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished());
        held.recv().unwrap()(Ok(()));
        writer.join().unwrap().unwrap();
    });
    buffers.settle().unwrap();
}

#[test]
fn a_failure_ends_later_calls() {
    let memory = Memory {
        fails: true,
        ..Memory::default()
    };
    let buffers = BlockBuffers::new(Rule::NoCluster, BLOCK, 1, memory);
    buffers.write(0, &[1; 8192]).unwrap();
    let failed = buffers.write(BLOCK, &[1; 10]).unwrap_err().to_string();
    assert_eq!(failed, "no room");
    assert!(buffers.settle().is_err() && buffers.sync().is_err());
}
