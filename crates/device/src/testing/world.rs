//! Legs and records that outlive a mirror, and a program that can die at any step.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use rustix::io::Errno;

use super::PATIENCE;
use crate::{
    Assessment, Device, Error, Geometry, MemoryRecord, Mirror, MirrorError, MirrorRecord,
    Operation, RamDevice, RecordError, Request, Resync, ResyncReport, Standing,
};

/// A step at which nobody dies.
pub const NEVER: i64 = i64::MAX / 2;

/// What is on the disks.
pub struct World {
    pub rams: Vec<Arc<RamDevice>>,
    pub record: Arc<MemoryRecord>,
    pub life: Arc<Life>,
}

/// What a program, and the devices while it runs, may still do.
pub struct Life {
    /// Steps until everything fails: each write, flush and record is one.
    pub steps: AtomicI64,
    /// The leg whose writes and flushes fail from its so manieth one on.
    pub bad_leg: AtomicUsize,
    pub bad_from: AtomicI64,
    /// Records of these legs are refused.
    pub unrecorded: Mutex<Vec<usize>>,
    /// A refused record is stored all the same.
    pub refusals_lie: bool,
    /// Records wait as long as it is true.
    pub gate: Mutex<bool>,
    pub opened: Condvar,
    /// Leg and offset of every read.
    pub reads: Mutex<Vec<(usize, u64)>>,
}

impl Life {
    pub fn new(steps: i64, refusals_lie: bool) -> Arc<Self> {
        Arc::new(Self {
            steps: AtomicI64::new(steps),
            bad_leg: AtomicUsize::new(usize::MAX),
            bad_from: AtomicI64::new(NEVER),
            unrecorded: Mutex::default(),
            refusals_lie,
            gate: Mutex::new(false),
            opened: Condvar::new(),
            reads: Mutex::default(),
        })
    }

    fn step(&self) -> bool {
        self.steps.fetch_sub(1, Ordering::SeqCst) > 0
    }

    pub fn open_gate(&self) {
        *self.gate.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

/// A leg as long as its program lives.
struct Mortal {
    index: usize,
    ram: Arc<RamDevice>,
    life: Arc<Life>,
}

impl Device for Mortal {
    fn name(&self) -> &str {
        self.ram.name()
    }

    fn length_bytes(&self) -> u64 {
        self.ram.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    fn submit(&self, request: Request) {
        let error = Error::failed(self.name(), request.offset(), Errno::NODEV);
        let life = &self.life;
        if request.operation() == Operation::Read {
            let mut reads = life.reads.lock().unwrap();
            reads.push((self.index, request.offset()));
        } else {
            let is_bad = life.bad_leg.load(Ordering::SeqCst) == self.index
                && life.bad_from.fetch_sub(1, Ordering::SeqCst) <= 0;
            if !life.step() || is_bad {
                return request.fail(0, error);
            }
        }
        self.ram.submit(request);
    }
}

struct MortalRecord {
    record: Arc<MemoryRecord>,
    life: Arc<Life>,
}

impl MirrorRecord for MortalRecord {
    fn load(&self, leg: usize) -> Result<Option<Standing>, RecordError> {
        self.record.load(leg)
    }

    fn store(&self, leg: usize, standing: &Standing) -> Result<(), RecordError> {
        let mut gate = self.life.gate.lock().unwrap();
        while *gate {
            let (next, timeout) = self.life.opened.wait_timeout(gate, PATIENCE).unwrap();
            assert!(!timeout.timed_out());
            gate = next;
        }
        drop(gate);
        let refused = self.life.unrecorded.lock().unwrap().contains(&leg);
        if self.life.step() && !refused {
            return self.record.store(leg, standing);
        }
        if self.life.refusals_lie {
            self.record.store(leg, standing)?;
        }
        Err(RecordError::Failed {
            place: format!("record {leg}"),
            errno: Errno::NOSPC,
        })
    }
}

impl World {
    /// Equal legs that are a mirror already.
    pub fn new(count: usize, length_bytes: u64) -> Self {
        let ram = |index| Arc::new(RamDevice::new(&format!("leg {index}"), length_bytes));
        Self {
            rams: (0..count).map(ram).collect(),
            record: Arc::new(MemoryRecord::of_equal(count, length_bytes)),
            life: Life::new(NEVER, false),
        }
    }

    /// A new life for the next program.
    pub fn live(&mut self, steps: i64, refusals_lie: bool) -> Arc<Life> {
        self.life = Life::new(steps, refusals_lie);
        self.life.clone()
    }

    pub fn legs(&self) -> Vec<Arc<dyn Device>> {
        let leg = |(index, ram): (usize, &Arc<RamDevice>)| {
            Arc::new(Mortal {
                index,
                ram: ram.clone(),
                life: self.life.clone(),
            }) as Arc<dyn Device>
        };
        self.rams.iter().enumerate().map(leg).collect()
    }

    fn mortal_record(&self) -> MortalRecord {
        MortalRecord {
            record: self.record.clone(),
            life: self.life.clone(),
        }
    }

    pub fn open(&self, writable: bool) -> Result<(Mirror, Assessment), MirrorError> {
        self.open_over(self.legs(), writable)
    }

    /// The same over other legs.
    pub fn open_over(
        &self,
        legs: Vec<Arc<dyn Device>>,
        writable: bool,
    ) -> Result<(Mirror, Assessment), MirrorError> {
        Mirror::open("mirror", legs, Arc::new(self.mortal_record()), writable)
    }

    pub fn writable(&self) -> Mirror {
        self.open(true).unwrap().0
    }

    /// What the records say now.
    pub fn assessment(&self) -> Assessment {
        self.open(false).unwrap().1
    }

    pub fn resync(&self, from: Option<usize>) -> Result<ResyncReport, MirrorError> {
        let (legs, record) = (self.legs(), self.mortal_record());
        let resync = Resync::plan("mirror", &legs, &record, from, [9; 16])?;
        let (mut told, total) = (0, resync.bytes());
        let report = resync.run(&mut |bytes| told += bytes)?;
        assert_eq!((told, report.compared_bytes), (total, total));
        Ok(report)
    }

    pub fn standing(&self, leg: usize) -> Standing {
        self.record.load(leg).unwrap().unwrap()
    }

    /// All bytes of a leg.
    pub fn bytes(&self, leg: usize) -> Vec<u8> {
        let ram = &*self.rams[leg];
        let mut bytes = vec![0; usize::try_from(ram.length_bytes()).unwrap()];
        crate::read_exact(ram, 0, &mut bytes).unwrap();
        bytes
    }
}
