use std::fs;

use pagewell_device::{Buffer, FileDevice, FileOptions, Issuer, LegState, Operation, Outcome};
use pagewell_device::{RamDevice, Request, Resync, read_exact};
use pagewell_layers::{Fault, Script};

use super::*;

const LENGTH: usize = 64 << 10;
const BLOCK: usize = 4096;

/// Files `a` and `b` with the same bytes.
struct Fixture {
    base: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::write(base.path().join(name), vec![7; LENGTH]).unwrap();
        }
        Self { base }
    }

    /// Files that are a mirror already.
    fn mirror() -> Self {
        let fixture = Self::new();
        fixture.resync(None);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().canonicalize().unwrap().join(name)
    }

    fn legs(&self) -> Vec<Storage> {
        ["a", "b"].map(|name| Storage::Path(self.path(name))).into()
    }

    fn devices(&self) -> Vec<Arc<dyn Device>> {
        let open = |name| {
            let options = FileOptions {
                writable: true,
                ..FileOptions::default()
            };
            let device = FileDevice::open_with(&self.path(name), options).unwrap();
            Arc::new(device) as Arc<dyn Device>
        };
        ["a", "b"].map(open).into()
    }

    fn bindings(&self) -> Vec<Option<u64>> {
        self.legs().iter().map(binding::of).collect()
    }

    fn resync(&self, from: Option<usize>) {
        let devices = self.devices();
        let records = Records::of(&self.legs(), &devices).unwrap();
        let record = &*records.record;
        let resync = Resync::plan("mirror", &devices, record, from, [5; 16]).unwrap();
        resync.run(&mut |_| ()).unwrap();
    }

    /// What the records say.
    fn assessment(&self) -> Assessment {
        let devices = self.devices();
        let records = Records::of(&self.legs(), &devices).unwrap();
        Assessment::of(&*records.record, &devices).unwrap()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}

fn wait(
    device: &dyn Device,
    make: impl FnOnce(std::sync::mpsc::Sender<Outcome>) -> Request,
) -> Outcome {
    let (sender, receiver) = std::sync::mpsc::channel();
    device.submit(make(sender));
    receiver
        .recv_timeout(std::time::Duration::from_secs(60))
        .unwrap()
}

fn write(device: &dyn Device, offset: usize, byte: u8) -> Outcome {
    wait(device, |sender| {
        let mut buffer = Buffer::new(BLOCK, BLOCK);
        buffer.fill(byte);
        let done = move |outcome, _| drop(sender.send(outcome));
        Request::owned(
            Operation::Write,
            offset as u64,
            buffer,
            Issuer::Flusher,
            done,
        )
    })
}

fn flush(device: &dyn Device) -> Outcome {
    wait(device, |sender| {
        Request::flush(Issuer::Flusher, move |outcome| drop(sender.send(outcome)))
    })
}

#[test]
fn a_leg_that_fails_at_any_write_is_stale_when_the_mirror_is_opened_again() {
    for bad in 0..2 {
        for after in 0..4 {
            let fixture = Fixture::mirror();
            let mut devices = fixture.devices();
            let script = Script::parse(&format!("write * error EIO after {after}")).unwrap();
            devices[bad] = Arc::new(Fault::new(devices[bad].clone(), script).unwrap());
            let parts = Parts {
                devices,
                ..Parts::default()
            };
            let opened = open(&fixture.legs(), parts, Want::Write).unwrap();
            assert_eq!(opened.read_only, None);
            let mirror = opened.device;
            for step in 0..4 {
                let outcome = write(&*mirror, step * BLOCK, step as u8);
                assert_eq!(outcome.result, Ok(()));
            }
            assert_eq!(flush(&*mirror).result, Ok(()));
            drop(mirror);
            let expected = fixture.bytes(["a", "b"][1 - bad]);
            assert_ne!(fixture.bytes(["a", "b"][bad]), expected);
            let assessment = fixture.assessment();
            assert_eq!(assessment.conditions[bad], Condition::Stale);
            assert_eq!(
                assessment.standings[1 - bad].unwrap().state,
                LegState::Clean
            );
            // The program that opens it next reads the good leg only.
            let storage = Storage::Mirror(fixture.legs());
            for writable in [false, true] {
                let opened = storage
                    .open_as(if writable { Want::Write } else { Want::Read })
                    .unwrap();
                assert_eq!(opened.read_only.is_none(), writable);
                for _ in 0..4 {
                    let mut found = vec![0; LENGTH];
                    read_exact(&*opened.device, 0, &mut found).unwrap();
                    assert!(found == expected);
                }
            }
            fixture.resync(None);
            assert!(fixture.bytes("a") == expected && fixture.bytes("b") == expected);
            assert_eq!(fixture.assessment().bad(), 0);
        }
    }
}

#[test]
fn what_was_never_compared_can_only_be_read() {
    let fixture = Fixture::new();
    let opened = Storage::Mirror(fixture.legs())
        .open_as(Want::Write)
        .unwrap();
    let reason = opened.read_only.clone().unwrap();
    assert!(
        reason.contains("'pagewell mirror resync' compares"),
        "{reason}"
    );
    let mut found = vec![0; LENGTH];
    read_exact(&*opened.device, 0, &mut found).unwrap();
    assert_eq!(found, vec![7; LENGTH]);
    assert!(write(&*opened.device, 0, 1).result.is_err());
    drop(opened);
    assert_eq!(fs::read_dir(fixture.base.path()).unwrap().count(), 2);
}

#[test]
fn where_no_record_can_be_kept_nothing_is_written() {
    let fixture = Fixture::mirror();
    // In the way of the file that a record is first written to.
    fs::create_dir(fixture.path("b.pagewell-mirror.new")).unwrap();
    let opened = Storage::Mirror(fixture.legs())
        .open_as(Want::Write)
        .unwrap();
    let reason = opened.read_only.clone().unwrap();
    assert!(reason.contains("b.pagewell-mirror"), "{reason}");
    assert!(write(&*opened.device, 0, 1).result.is_err());
    assert!(fixture.bytes("a") == vec![7; LENGTH]);
    drop(opened);
    // It happens while it is written to: the leg goes, the mirror stays.
    fs::remove_dir(fixture.path("b.pagewell-mirror.new")).unwrap();
    let opened = Storage::Mirror(fixture.legs())
        .open_as(Want::Write)
        .unwrap();
    fs::create_dir(fixture.path("b.pagewell-mirror.new")).unwrap();
    assert_eq!(write(&*opened.device, 0, 1).result, Ok(()));
    drop(opened);
    let conditions = fixture.assessment().conditions;
    assert_eq!(conditions, [Condition::Current, Condition::Stale]);
    // Of the last leg: the write fails.
    let opened = Storage::Mirror(fixture.legs())
        .open_as(Want::Write)
        .unwrap();
    fs::create_dir(fixture.path("a.pagewell-mirror.new")).unwrap();
    let error = write(&*opened.device, 0, 2).result.unwrap_err().to_string();
    assert!(error.contains("a.pagewell-mirror"), "{error}");
    assert_eq!(fixture.bytes("a")[0], 1);
}

#[test]
fn memory_lasts_in_no_mirror() {
    let fixture = Fixture::new();
    let zeros = Storage::parse(b"mirror:ram:64k,ram:64k").unwrap();
    let opened = zeros.open_as(Want::Write).unwrap();
    assert_eq!(opened.read_only, None);
    assert_eq!(write(&*opened.device, 0, 1).result, Ok(()));
    drop(opened);
    let mut legs = fixture.legs();
    legs[1] = Storage::Ram(LENGTH as u64);
    let opened = Storage::Mirror(legs).open_as(Want::Write).unwrap();
    assert!(
        opened
            .read_only
            .unwrap()
            .contains("memory ends with the program")
    );
    let same = [&fixture.legs()[..1], &fixture.legs()[..1]].concat();
    let records = Records::of(&same, &[]).unwrap();
    let error = records.check_lasting("mirror").unwrap_err().to_string();
    assert!(error.contains("two legs would have the record"), "{error}");
}

#[test]
fn a_device_without_a_lasting_name_makes_a_mirror_read_only() {
    let fixture = Fixture::new();
    let places = [
        Place::File(fixture.path("a.pagewell-mirror")),
        Place::Nameless("/dev/loop0".into()),
    ];
    let devices = fixture.devices();
    let records = Records::in_places(&places, vec![Some(1); 2], &devices).unwrap();
    let reason = records.check_lasting("mirror").unwrap_err().to_string();
    assert!(reason.contains("/dev/loop0 may be another"), "{reason}");
    assert!(reason.contains("/dev/disk/by-id"), "{reason}");
    assert_eq!(records.file(0), None);
    // The record of another mirror tells that the leg may be stale.
    fs::write(fixture.path("a.pagewell-mirror"), "x").unwrap();
    let error = Records::in_places(&places, vec![Some(1); 2], &devices)
        .err()
        .unwrap();
    assert!(error.to_string().contains("another mirror"), "{error}");
}

#[test]
fn a_leg_alone_is_not_written_to() {
    let fixture = Fixture::mirror();
    let other = fixture.path("c");
    fs::write(&other, "x").unwrap();
    let alone = |text: String| why_not_alone(&Storage::parse(text.as_bytes()).unwrap());
    let (a, c) = (fixture.path("a"), other);
    let (a, c) = (a.display(), c.display());
    for text in [
        format!("{a}"),
        format!("model:nvme:{a}"),
        format!("stripe:4k:{c},{a}"),
    ] {
        let reason = alone(text).unwrap();
        assert!(reason.contains("is a leg of a mirror"), "{reason}");
        assert!(reason.contains("a.pagewell-mirror"), "{reason}");
    }
    for text in [
        format!("{c}"),
        format!("mirror:{a},{c}"),
        "ram:4k".to_owned(),
    ] {
        assert_eq!(alone(text), None);
    }
}

#[test]
fn each_leg_that_is_not_read_is_named_with_the_reason() {
    let legs = ["a", "b", "c", "d"];
    let legs = legs.map(|name| Arc::new(RamDevice::new(name, 1)) as Arc<dyn Device>);
    let assessment = Assessment {
        conditions: vec![
            Condition::Current,
            Condition::Doubtful,
            Condition::Stale,
            Condition::Unfinished,
        ],
        standings: vec![None; 4],
        generation: 4,
    };
    let lines = warnings("mirror:x", &legs, &assessment);
    assert_eq!(lines.len(), 3);
    for (line, parts) in lines.iter().zip([
        ["mirror:x: b is not used", "not closed"],
        ["mirror:x: c is not used", "missed writes"],
        ["mirror:x: d is not used", "not completely resynchronised"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        assert!(line.contains("pagewell mirror resync"), "{line}");
    }
}

/// The last that uses a mirror may be a thread of a device, which the end of the program would cut
/// off before the legs are marked clean.
#[test]
fn the_end_waits_until_the_legs_are_marked_clean() {
    static OPEN: closing::Open = closing::Open::new();
    let fixture = Fixture::mirror();
    let files = vec![
        fixture.path("a.pagewell-mirror"),
        fixture.path("b.pagewell-mirror"),
    ];
    let record = Arc::new(Sidecars::counted(files.clone(), fixture.bindings(), &OPEN));
    let (mirror, _) = Mirror::open("mirror", fixture.devices(), record, true).unwrap();
    assert_eq!(write(&mirror, 0, 1).result, Ok(()));
    assert_eq!(flush(&mirror).result, Ok(()));
    let states = || {
        let record = Sidecars::new(files.clone(), Vec::new());
        [0, 1].map(|leg| record.load(leg).unwrap().unwrap().state)
    };
    assert_eq!(states(), [LegState::InUse; 2]);
    assert!(!OPEN.wait(std::time::Duration::ZERO));
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let last = std::thread::spawn(move || {
        let _ = gone.recv();
        drop(mirror);
    });
    drop(go);
    assert!(OPEN.wait(std::time::Duration::from_secs(60)));
    assert_eq!(states(), [LegState::Clean; 2]);
    last.join().unwrap();
}
