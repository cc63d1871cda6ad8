//! The injected round trip: replies wait here until they are due.
//!
//! It makes a near server look far away, for measurements. A reply is held until the delay has
//! passed since its call was sent; calls in flight overlap, as on a long line. What it does not
//! imitate: bandwidth, loss, and that a far server learns of a call later.

use super::lock;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

type Work = Box<dyn FnOnce() + Send>;

/// Replies that are not due yet, the first to be due on top.
pub(super) struct DelayLine {
    delay: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: BinaryHeap<Waiting>,
    arrived: u64,
    stopped: bool,
}

struct Waiting {
    due: Instant,
    arrival: u64,
    work: Work,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    /// The heap has its greatest on top, so the earliest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.arrival).cmp(&(self.due, self.arrival))
    }
}

impl DelayLine {
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) const fn delay(&self) -> Duration {
        self.delay
    }

    /// Does `work` on the thread of [`DelayLine::run`] at `due`; at once and here when the line
    /// has been stopped.
    pub(super) fn deliver(&self, due: Instant, work: Work) {
        let mut state = lock(&self.state);
        if state.stopped {
            drop(state);
            return work();
        }
        let arrival = state.arrived;
        state.arrived += 1;
        state.waiting.push(Waiting { due, arrival, work });
        let first = state.waiting.peek().map(|first| first.arrival);
        drop(state);
        if first == Some(arrival) {
            self.changed.notify_one();
        }
    }

    /// Delivers until the line is stopped, then all that is left.
    pub(super) fn run(&self) {
        loop {
            let mut state = lock(&self.state);
            let work = loop {
                let now = Instant::now();
                let due = state.waiting.peek().map(|first| first.due);
                state = match due {
                    Some(due) if due > now && !state.stopped => {
                        let wait = self.changed.wait_timeout(state, due - now);
                        wait.unwrap_or_else(std::sync::PoisonError::into_inner).0
                    }
                    Some(_) => break state.waiting.pop(),
                    None if state.stopped => return,
                    None => {
                        let wait = self.changed.wait(state);
                        wait.unwrap_or_else(std::sync::PoisonError::into_inner)
                    }
                };
            };
            drop(state);
            if let Some(waiting) = work {
                (waiting.work)();
            }
        }
    }

    pub(super) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    #[test]
    fn what_is_due_first_comes_first_and_nothing_before_its_time() {
        let line = Arc::new(DelayLine::new(Duration::from_millis(1)));
        let (sender, receiver) = mpsc::channel();
        let start = Instant::now();
        for after in [30u64, 10, 20, 10] {
            let sender = sender.clone();
            let due = start + Duration::from_millis(after);
            let work = move || sender.send((after, Instant::now() >= due)).unwrap();
            line.deliver(due, Box::new(work));
        }
        let running = line.clone();
        let thread = std::thread::spawn(move || running.run());
        let order: Vec<_> = receiver.iter().take(4).collect();
        assert_eq!(order, [(10, true), (10, true), (20, true), (30, true)]);
        line.stop();
        thread.join().unwrap();
    }

    #[test]
    fn a_stop_delivers_what_is_left() {
        let line = DelayLine::new(Duration::from_millis(1));
        let (sender, receiver) = mpsc::channel();
        let far = Instant::now() + Duration::from_secs(3600);
        for number in 0..3 {
            let sender = sender.clone();
            line.deliver(far, Box::new(move || sender.send(number).unwrap()));
        }
        line.stop();
        line.run();
        line.deliver(far, Box::new(move || sender.send(3).unwrap()));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
