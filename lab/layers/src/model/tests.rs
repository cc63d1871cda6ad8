use std::sync::{LazyLock, mpsc};

use super::*;
use pagewell_device::testing::{Faulty, flush, pattern, write, write_durable};
use pagewell_device::{Buffer, Issuer, Operation, Outcome, RamDevice, read_exact};

const LENGTH: u64 = 1 << 30;

/// What the disk begins with.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(4 << 20));

fn disk() -> RamDevice {
    let disk = RamDevice::new("disk", LENGTH);
    assert_eq!(write(&disk, 0, &BYTES).result, Ok(()));
    disk
}

fn is_right(offset: u64, bytes: &[u8]) -> bool {
    BYTES[usize::try_from(offset).unwrap()..].starts_with(bytes)
}

fn model(text: &str) -> Model {
    let parameters = Parameters::parse(text).unwrap();
    Model::new(Arc::new(disk()), parameters).unwrap()
}

fn read(
    device: &dyn Device,
    offset: u64,
    length: usize,
    sender: &mpsc::Sender<(u64, Outcome, Buffer)>,
) {
    let sender = sender.clone();
    device.submit(Request::owned(
        Operation::Read,
        offset,
        Buffer::new(length, 512),
        Issuer::Reader,
        move |outcome, buffer| drop(sender.send((offset, outcome, buffer))),
    ));
}

#[test]
fn bytes_come_in_order_and_not_before_their_time() {
    let model = model("dvd,speed=100");
    assert_eq!(model.name(), "model:dvd:disk");
    let geometry = model.geometry();
    assert!(geometry.rotational);
    assert_eq!(
        (geometry.queue_depth, geometry.transfer_bytes_max),
        (1, 131_072)
    );
    let (sender, receiver) = mpsc::channel();
    let start = Instant::now();
    let offsets = [0, 16_384, 1 << 20, 32_768];
    for offset in offsets {
        read(&model, offset, 16_384, &sender);
    }
    // Served as they came: two contiguous, two with a seek.
    let times = [2270, 4540, 73_810, 143_080].map(Duration::from_micros);
    for (expected, time) in offsets.iter().zip(times) {
        let (offset, outcome, buffer) = receiver.recv().unwrap();
        assert!(start.elapsed() >= time / 100);
        assert_eq!((offset, outcome.result), (*expected, Ok(())));
        assert!(is_right(offset, &buffer));
    }
    // Between the requests no time passes on the model's clock but what they came late.
    assert!((model.totals().busy.as_secs_f64() - 0.143_08).abs() < 1e-9);
    assert_eq!(model.totals().seeks, 2);
}

#[test]
fn long_requests_are_cut_and_each_piece_pays() {
    let model = model("dvd,speed=1000,transfer=64k");
    let mut target = vec![0; 150_000];
    assert_eq!(read_exact(&model, 4096, &mut target), Ok(()));
    assert!(is_right(4096, &target));
    let totals = model.totals();
    assert_eq!(
        (totals.requests, totals.bytes, totals.seeks),
        (3, 150_000, 1)
    );
    assert!(pieces(131_072, 65_536).eq([65_536, 65_536]));
}

#[test]
fn the_longest_transfer_is_a_multiple_of_a_block() {
    struct Blocks(RamDevice);
    impl Device for Blocks {
        fn name(&self) -> &'static str {
            "blocks"
        }
        fn length_bytes(&self) -> u64 {
            self.0.length_bytes()
        }
        fn geometry(&self) -> Geometry {
            Geometry {
                logical_block_bytes: 4096,
                ..Geometry::MEMORY
            }
        }
        fn submit(&self, request: Request) {
            assert_eq!(request.len() % 4096, 0);
            self.0.submit(request);
        }
    }
    for (transfer, expected) in [("10000", 8192), ("512", 4096)] {
        let text = format!("nvme,transfer={transfer}");
        let blocks = Arc::new(Blocks(disk()));
        let model = Model::new(blocks, Parameters::parse(&text).unwrap()).unwrap();
        assert_eq!(model.geometry().transfer_bytes_max, expected);
        assert_eq!(read_exact(&model, 1, &mut [0; 30_000]), Ok(()));
    }
}

#[test]
fn errors_below_come_through() {
    let model = model("ssd,speed=1000");
    let (sender, receiver) = mpsc::channel();
    read(&model, LENGTH - 512, 1024, &sender);
    let (_, outcome, _) = receiver.recv().unwrap();
    let text = outcome.result.unwrap_err().to_string();
    assert!(
        text.contains("disk") && text.contains("1073741312"),
        "{text}"
    );
}

#[test]
fn nothing_is_lost_when_it_is_dropped() {
    let model = model("dvd,speed=0.001");
    let (sender, receiver) = mpsc::channel();
    for index in 1..=10 {
        read(&model, index << 20, 512, &sender);
    }
    assert!(receiver.try_recv().is_err());
    drop(model);
    for index in 1..=10 {
        let (offset, outcome, _) = receiver.try_recv().unwrap();
        assert_eq!((offset, outcome.result), (index << 20, Ok(())));
    }
}

#[test]
fn many_threads_share_one_clock() {
    let model = model("nvme,speed=1000");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let model = &model;
            scope.spawn(move || {
                let mut target = [0; 4096];
                for index in 0..200 {
                    let offset = (thread * 200 + index) * 4096;
                    assert_eq!(read_exact(model, offset, &mut target), Ok(()));
                    assert!(is_right(offset, &target));
                }
            });
        }
    });
    assert_eq!(model.totals().requests, 800);
    assert_eq!(model.totals().bytes, 800 * 4096);
}

#[test]
fn writes_and_flushes_take_their_time_and_stay_what_they_are() {
    let beneath = Arc::new(Faulty::new("ram", LENGTH));
    // Every request 1 ms; nothing else takes any.
    let parameters = Parameters::parse("ssd,fixed=1ms,rate=1024g").unwrap();
    let model = Model::new(beneath.clone(), parameters).unwrap();
    let start = Instant::now();
    assert_eq!(write_durable(&model, 4096, &[7; 4096]).result, Ok(()));
    assert_eq!(flush(&model).result, Ok(()));
    assert_eq!(flush(&model).result, Ok(()));
    assert!(start.elapsed() >= Duration::from_millis(3));
    assert_eq!((model.totals().requests, model.totals().flushes), (1, 2));
    let seen = || beneath.seen.lock().unwrap().clone();
    let flushes = seen()
        .iter()
        .filter(|seen| seen.0 == Operation::Flush)
        .count();
    assert_eq!((beneath.durable.load(Ordering::Relaxed), flushes), (1, 2));
    let mut bytes = [0; 4096];
    read_exact(&model, 4096, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 4096]);
    // Cut into pieces, each of them durable.
    let longest = model.geometry().transfer_bytes_max as usize;
    let outcome = write_durable(&model, 0, &vec![8; longest + 512]);
    assert_eq!(outcome.result, Ok(()));
    assert_eq!(beneath.durable.load(Ordering::Relaxed), 3);
}
