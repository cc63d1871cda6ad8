//! Legs that are taken away, brought back and replaced by others while a mirror is not open.

use std::sync::{Arc, Mutex};

use pagewell_base::mix::mix;

use super::super::{
    Assessment, Condition, MemoryRecord, Mirror, MirrorError, MirrorRecord, Resync,
};
use super::super::{RecordError, Standing};
use crate::testing::{flush, read, write};
use crate::{Device, RamDevice};

const LENGTH: u64 = 4096;

/// A disk: another one has another number.
#[derive(Clone)]
struct Disk {
    number: u64,
    ram: Arc<RamDevice>,
    /// Every write that it has, in order. Nothing when it never was a leg, or is one no more.
    history: Option<Vec<u8>>,
}

impl Disk {
    fn new(number: u64, history: Option<Vec<u8>>) -> Self {
        let ram = Arc::new(RamDevice::new(&format!("disk {number}"), LENGTH));
        Self {
            number,
            ram,
            history,
        }
    }
}

/// Two places for disks, and the records that stay there.
struct Shelf {
    places: [Option<Disk>; 2],
    aside: Vec<(usize, Disk)>,
    record: Arc<MemoryRecord>,
    /// What is there now, and whether the record of an empty place is out of reach.
    now: Mutex<[Option<u64>; 2]>,
    hidden: [bool; 2],
    next: u64,
}

struct Record {
    record: Arc<MemoryRecord>,
    now: [Option<u64>; 2],
    hidden: [bool; 2],
}

impl MirrorRecord for Record {
    fn load(&self, leg: usize) -> Result<Option<Standing>, RecordError> {
        let is_hidden = self.now[leg].is_none() && self.hidden[leg];
        let found = self.record.load(leg)?;
        Ok(found.filter(|_| !is_hidden))
    }

    fn store(&self, leg: usize, standing: &Standing) -> Result<(), RecordError> {
        assert_eq!(self.now[leg], Some(standing.binding), "leg {leg}");
        self.record.store(leg, standing)
    }

    fn binding(&self, leg: usize) -> Option<u64> {
        self.now[leg]
    }
}

impl Shelf {
    fn new() -> Self {
        let shelf = Self {
            places: [1, 2].map(|number| Some(Disk::new(number, Some(Vec::new())))),
            aside: Vec::new(),
            record: Arc::new(MemoryRecord::new(2)),
            now: Mutex::new([Some(1), Some(2)]),
            hidden: [false; 2],
            next: 3,
        };
        shelf.resync(None).unwrap();
        shelf
    }

    fn record(&self) -> Record {
        Record {
            record: self.record.clone(),
            now: *self.now.lock().unwrap(),
            hidden: self.hidden,
        }
    }

    fn devices(&self) -> Vec<Arc<dyn Device>> {
        let device = |place: &Option<Disk>| match place {
            Some(disk) => disk.ram.clone() as Arc<dyn Device>,
            None => Arc::new(RamDevice::new("nothing", LENGTH)),
        };
        self.places.iter().map(device).collect()
    }

    fn open(&self, writable: bool) -> Result<(Mirror, Assessment), MirrorError> {
        let record = Arc::new(self.record());
        Mirror::open("mirror", self.devices(), record, writable)
    }

    fn resync(&self, from: Option<usize>) -> Result<(), MirrorError> {
        let (devices, record) = (self.devices(), self.record());
        let identity = [mix(self.next) as u8; 16];
        Resync::plan("mirror", &devices, &record, from, identity)?.run(&mut |_| ())?;
        Ok(())
    }

    fn put(&mut self, place: usize, disk: Option<Disk>) {
        self.now.lock().unwrap()[place] = disk.as_ref().map(|disk| disk.number);
        if let Some(old) = std::mem::replace(&mut self.places[place], disk) {
            self.aside.push((place, old));
        }
    }

    /// What each leg has that is one.
    fn histories(&self) -> [Option<Vec<u8>>; 2] {
        [0, 1].map(|place| self.places[place].as_ref()?.history.clone())
    }

    fn bytes(&self, place: usize) -> Option<u8> {
        let disk = self.places[place].as_ref()?;
        Some(read(&*disk.ram, 0, 512).1[0])
    }
}

fn is_prefix(one: &[u8], other: &[u8]) -> bool {
    other.starts_with(one)
}

/// Which leg is right, known from all that was done; nothing when two contradict.
fn newest(histories: &[Option<Vec<u8>>; 2]) -> Option<usize> {
    match histories {
        [Some(one), Some(other)] if is_prefix(other, one) => Some(0),
        [Some(one), Some(other)] if is_prefix(one, other) => Some(1),
        [Some(_), None] => Some(0),
        [None, Some(_)] => Some(1),
        _ => None,
    }
}

/// Writes `value` where the mirror can be opened for that.
fn write_one(shelf: &mut Shelf, value: u8, what: &str) {
    let Ok((mirror, assessment)) = shelf.open(true) else {
        return;
    };
    assert_eq!(write(&mirror, 0, &[value; 512]).result, Ok(()), "{what}");
    assert_eq!(flush(&mirror).result, Ok(()), "{what}");
    drop(mirror);
    for (place, condition) in assessment.conditions.iter().enumerate() {
        if condition.is_good() {
            let disk = shelf.places[place].as_mut().unwrap();
            disk.history.as_mut().expect(what).push(value);
        }
    }
}

/// What may be read, and what is never copied without being asked.
fn check(shelf: &Shelf, what: &str) {
    let histories = shelf.histories();
    let is_whole = histories.iter().all(Option::is_some);
    match (newest(&histories), shelf.open(false)) {
        (Some(right), Ok((mirror, _))) => {
            let value = histories[right].as_ref().unwrap().last().copied();
            for _ in 0..4 {
                assert_eq!(read(&mirror, 0, 512).1[0], value.unwrap_or(0), "{what}");
            }
        }
        (None, Ok(_)) => panic!("{what}: nobody can tell which leg is right"),
        (Some(_), Err(error)) => assert!(!is_whole, "{what}: {error}"),
        (None, Err(_)) => {}
    }
}

fn resync(shelf: &mut Shelf, from: Option<usize>, what: &str) -> bool {
    let before = (shelf.histories(), [0, 1].map(|place| shelf.bytes(place)));
    let Ok(()) = shelf.resync(from) else {
        let now = (shelf.histories(), [0, 1].map(|place| shelf.bytes(place)));
        assert_eq!(before, now, "{what}: refused, and changed");
        return false;
    };
    let right = from.or_else(|| newest(&before.0)).expect(what);
    let is_whole = before.0.iter().all(Option::is_some);
    assert!(
        is_whole || from.is_some(),
        "{what}: copied over a disk that was no leg"
    );
    let history = before.0[right].clone().unwrap_or(vec![0xEE]);
    for place in 0..2 {
        assert_eq!(shelf.bytes(place), before.1[right], "{what}: leg {place}");
        shelf.places[place].as_mut().unwrap().history = Some(history.clone());
    }
    if from.is_some() {
        // The records may be those of a new mirror now.
        shelf.aside.clear();
    }
    true
}

#[test]
fn no_leg_that_is_another_disk_or_missed_writes_is_read_or_copied_from() {
    let (mut degraded, mut split, mut asked, mut resynchronised) = (0, 0, 0, 0);
    for seed in 0..400u64 {
        let mut random = (0u64..).map(|step| mix(seed << 20 | step));
        let mut below = |count: u64| random.next().unwrap() % count;
        let mut shelf = Shelf::new();
        for step in 0..30u8 {
            let what = format!("seed {seed}, step {step}");
            let place = below(2) as usize;
            match below(8) {
                0 => {
                    shelf.hidden[place] = below(2) == 0;
                    shelf.put(place, None);
                }
                1 => {
                    shelf.next += 1;
                    let mut disk = Disk::new(shelf.next, None);
                    // It comes with bytes of its own.
                    assert_eq!(write(&*disk.ram, 0, &[0xEE; 512]).result, Ok(()));
                    disk.number = shelf.next;
                    shelf.put(place, Some(disk));
                }
                2 | 3 => {
                    if let Some(at) = shelf.aside.iter().position(|(from, _)| *from == place) {
                        let (_, disk) = shelf.aside.swap_remove(at);
                        shelf.put(place, Some(disk));
                    }
                }
                4 => resynchronised += u32::from(resync(&mut shelf, None, &what)),
                5 if below(4) == 0 && shelf.places.iter().all(Option::is_some) => {
                    asked += u32::from(resync(&mut shelf, Some(place), &what));
                }
                _ => {
                    degraded += u32::from(shelf.places.iter().any(Option::is_none));
                    write_one(&mut shelf, step + 1, &what);
                }
            }
            check(&shelf, &what);
            let conditions = shelf.open(false).map(|(_, found)| found.conditions);
            let histories = shelf.histories();
            let is_whole = histories.iter().all(Option::is_some);
            split += u32::from(is_whole && newest(&histories).is_none());
            let is_split = |all: Vec<Condition>| all.contains(&Condition::Split);
            assert!(!conditions.is_ok_and(is_split), "{what}: nothing is good");
        }
    }
    let counts = [degraded, split, asked, resynchronised];
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}
