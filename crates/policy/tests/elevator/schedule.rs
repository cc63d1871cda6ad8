//! One random schedule: settings, then inserts, promotions, dispatches and
//! completions, then everything is drained. The model watches each step.

use std::time::Duration;

use pagewell_policy::elevator::{
    Class, Counts, Depth, DispatchId, Elevator, Extent, Order, RequestId, Settings,
};

use crate::choices::Choices;
use crate::model::{Model, lifted};

/// Requests not dispatched at a time: so few that overlaps are always told exactly.
const QUEUED_MAX: usize = 12;
/// The unit of offsets and lengths: three of them make a batch need only a few dispatches.
const UNIT: u64 = 96 << 10;

pub(crate) struct Schedule {
    elevator: Elevator,
    model: Model,
    settings: Settings,
    now: Duration,
    next_id: u64,
    inserted: u64,
    travelled: u64,
    last_done: Option<DispatchId>,
    /// Units of addresses in use.
    space: u64,
    /// Whether requests may overlap.
    overlapping: bool,
}

fn depth(choices: &mut impl Choices) -> Depth {
    let maximum = 1 + choices.below(4) as u32;
    let minimum = choices.below(u64::from(maximum) + 1) as u32;
    Depth { minimum, maximum }
}

fn settings(choices: &mut impl Choices) -> Settings {
    let deadline = [None, Some(Duration::from_millis(5)), Some(Duration::ZERO)];
    Settings {
        order: if choices.below(4) == 0 {
            Order::Arrival
        } else {
            Order::CircularLook
        },
        merge: choices.below(8) > 0,
        transfer_bytes_max: UNIT * (1 + choices.below(8)),
        read_gap_bytes_max: UNIT * choices.below(3),
        read_deadline: deadline[choices.below(3) as usize],
        write_deadline: deadline[choices.below(3) as usize],
        depths: std::array::from_fn(|_| depth(choices)),
        depth_max: 1 + choices.below(5) as u32,
    }
}

impl Schedule {
    fn new(choices: &mut impl Choices) -> Self {
        let settings = settings(choices);
        Self {
            elevator: Elevator::new(settings),
            model: Model::new(settings),
            settings,
            now: Duration::from_secs(1),
            next_id: 0,
            inserted: 0,
            travelled: 0,
            last_done: None,
            space: 8 + choices.below(56),
            overlapping: choices.below(2) == 0,
        }
    }

    /// Runs one schedule of about `steps` steps and returns what the elevator counted.
    pub(crate) fn run(choices: &mut impl Choices, steps: u64) -> Counts {
        let mut schedule = Self::new(choices);
        for _ in 0..steps {
            if !choices.more() {
                break;
            }
            schedule.step(choices);
        }
        schedule.drain();
        schedule.elevator.counts()
    }

    fn step(&mut self, choices: &mut impl Choices) {
        match choices.below(16) {
            0..=6 => self.insert(choices),
            7..=10 => {
                self.dispatch();
            }
            11..=13 => self.complete(choices),
            14 => self.promote(choices),
            _ => self.now += Duration::from_millis(choices.below(4)),
        }
        assert_eq!(self.elevator.queued(), self.model.requests.len());
        assert_eq!(self.elevator.in_flight(), self.model.flying.len());
    }

    fn insert(&mut self, choices: &mut impl Choices) {
        if self.model.requests.len() >= QUEUED_MAX {
            return;
        }
        // Each request comes a little later, so that "the oldest" is one request.
        self.now += Duration::from_nanos(1);
        let id = RequestId(self.next_id);
        let class = Class::ALL[choices.below(3) as usize];
        let extent = if self.overlapping {
            Extent {
                offset: UNIT * choices.below(self.space),
                length: UNIT * (1 + choices.below(4)),
            }
        } else {
            // A place of its own, four units each; the whole of it or its beginning.
            let place = (self.next_id * 7 + choices.below(2)) % 1009;
            let length = [4, 4, 4, 1][choices.below(4) as usize];
            let place = if choices.below(2) == 0 {
                self.next_id
            } else {
                place + 5000
            };
            Extent {
                offset: UNIT * 4 * place,
                length: UNIT * length,
            }
        };
        self.next_id += 1;
        self.inserted += 1;
        let object = choices.below(8).saturating_sub(5) as u32;
        let bytes = (object, extent);
        assert!(self.elevator.insert(id, bytes, class, self.now));
        let extent = lifted(object, extent);
        self.model.insert(id, extent, class, self.now);
        let taken = self.elevator.insert(id, bytes, class, self.now);
        assert!(!taken, "a name was taken twice");
    }

    /// False when nothing may go.
    fn dispatch(&mut self) -> bool {
        let expected = self.model.expected(self.now);
        let Some(mut dispatch) = self.elevator.dispatch(self.now) else {
            assert_eq!(expected, None, "{:?}", self.model);
            return false;
        };
        dispatch.extent = lifted(dispatch.object, dispatch.extent);
        for member in &mut dispatch.members {
            member.extent = lifted(dispatch.object, member.extent);
        }
        self.travelled += dispatch.members.len() as u64;
        self.model.dispatched(&dispatch, self.now);
        true
    }

    fn complete(&mut self, choices: &mut impl Choices) {
        if !self.model.flying.is_empty() {
            let which = choices.below(self.model.flying.len() as u64);
            self.complete_one(which as usize);
        }
        if let Some(done) = self.last_done {
            assert!(!self.elevator.complete(done), "completed twice");
        }
    }

    fn complete_one(&mut self, which: usize) {
        let id = self.model.flying[which].0;
        assert!(self.model.complete(id));
        assert!(self.elevator.complete(id));
        self.last_done = Some(id);
    }

    /// Any of the last requests, dispatched or not.
    fn recent(&self, choices: &mut impl Choices) -> RequestId {
        RequestId(self.next_id.saturating_sub(choices.below(10)))
    }

    fn promote(&mut self, choices: &mut impl Choices) {
        let id = self.recent(choices);
        let class = Class::ALL[choices.below(3) as usize];
        self.elevator.promote(id, class);
        self.model.promote(id, class);
    }

    /// Everything that was inserted travels exactly once.
    fn drain(&mut self) {
        while self.elevator.queued() + self.elevator.in_flight() > 0 {
            let went = self.dispatch();
            assert!(
                went || !self.model.flying.is_empty(),
                "stuck: {:?}",
                self.model
            );
            if !went {
                self.complete_one(0);
            }
        }
        let counts = self.elevator.counts();
        assert_eq!(self.travelled, self.inserted, "lost");
        assert_eq!(counts.inserted, self.inserted);
        assert_eq!(counts.dispatched + counts.merged, self.travelled);
        assert_eq!(counts.completed, counts.dispatched);
        assert_eq!(counts.wraps, self.model.wraps);
        assert_eq!(counts.deadline_picks, self.model.picks);
        assert_eq!(counts.backward_moves, self.model.backward);
        if self.settings.order == Order::CircularLook {
            assert!(counts.backward_moves <= counts.wraps + counts.deadline_picks);
        }
    }
}
