//! One thread that runs jobs at their times.
//!
//! It sleeps until shortly before the earliest time and spins for the rest: a sleep ends some tens
//! of microseconds late, as the core has to wake up. Dropping a timer runs all jobs.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct TimerState {
    /// By time, then by arrival.
    jobs: BTreeMap<(Instant, u64), Job>,
    sequence: u64,
    stopped: bool,
}

struct TimerShared {
    state: Mutex<TimerState>,
    changed: Condvar,
    /// A job came, or the end, during a spin.
    news: AtomicBool,
    spin: Duration,
    panicked: fn(),
}

/// See the module.
pub struct Timer {
    shared: Arc<TimerShared>,
    thread: Option<JoinHandle<()>>,
}

/// Adds jobs to a timer, even after its end.
#[derive(Clone)]
pub struct TimerHandle(Arc<TimerShared>);

impl Timer {
    /// Spins for the last `spin` before each time; calls `panicked` after a panic of a job. Fails
    /// without a thread.
    pub fn new(name: &str, spin: Duration, panicked: fn()) -> std::io::Result<Self> {
        let shared = Arc::new(TimerShared {
            state: Mutex::default(),
            changed: Condvar::new(),
            news: AtomicBool::new(false),
            spin,
            panicked,
        });
        let worker = shared.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// For adding jobs.
    pub fn handle(&self) -> TimerHandle {
        TimerHandle(self.shared.clone())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.handle().stop();
        if let Some(thread) = self.thread.take() {
            // The last owner may be a job of this thread.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl TimerHandle {
    /// Runs `job` at `due`; `None`: at the end or a release. After the end, at once, on this
    /// thread.
    pub fn at(&self, due: Option<Instant>, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        if state.stopped {
            drop(state);
            job();
            return;
        }
        let key = (due.unwrap_or_else(never), state.sequence);
        state.sequence += 1;
        state.jobs.insert(key, Box::new(job));
        let is_first = state.jobs.keys().next() == Some(&key);
        drop(state);
        if is_first {
            self.0.wake();
        }
    }

    /// Runs all jobs at once, on the timer's thread, which ends.
    pub fn stop(&self) {
        self.0.state.lock().stopped = true;
        self.0.wake();
    }

    /// How many jobs wait.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().jobs.len()
    }

    /// Runs all jobs now, on the timer's thread.
    pub fn release(&self) {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let jobs = std::mem::take(&mut state.jobs);
        // New numbers keep their order.
        let jobs = jobs.into_values().zip(state.sequence..);
        state.jobs = jobs.map(|(job, number)| ((now, number), job)).collect();
        state.sequence += state.jobs.len() as u64;
        drop(state);
        self.0.wake();
    }
}

/// A month from now, if the clock goes so long.
fn never() -> Instant {
    let now = Instant::now();
    now.checked_add(Duration::from_hours(31 * 24))
        .unwrap_or(now)
}

impl TimerShared {
    fn wake(&self) {
        self.news.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn run(&self) {
        // The kernel may else end a sleep 50 us late to save power. It cannot fail.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while let Some(job) = self.next() {
            // A panic must not end the thread of other jobs.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                (self.panicked)();
            }
        }
    }

    /// Waits for the next job; none: the timer has ended.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            self.news.store(false, Ordering::Relaxed);
            let Some((due, _)) = state.jobs.keys().next().copied() else {
                if state.stopped {
                    return None;
                }
                state = self.changed.wait(state);
                continue;
            };
            let rest = due.saturating_duration_since(Instant::now());
            if rest.is_zero() || state.stopped {
                return state.jobs.pop_first().map(|(_, job)| job);
            }
            if rest > self.spin {
                let sleep = rest - self.spin;
                state = self.changed.wait_timeout(state, sleep);
            } else {
                drop(state);
                while Instant::now() < due && !self.news.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                state = self.state.lock();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_are_done_in_order_and_not_early() {
        let timer = Timer::new("timer", Duration::from_micros(50), || {}).unwrap();
        let (sender, receiver) = mpsc::channel();
        let (let_go, gone) = mpsc::channel::<()>();
        let start = Instant::now();
        // Keeps the thread until all are there, however long that takes.
        timer.handle().at(Some(start), move || {
            let _ = gone.recv();
        });
        for (name, after) in [('c', 9), ('a', 2), ('b', 5), ('d', 9)] {
            let due = start + Duration::from_millis(after);
            let sender = sender.clone();
            timer.handle().at(Some(due), move || {
                sender.send((name, Instant::now() >= due)).unwrap();
            });
        }
        drop(let_go);
        let done: Vec<_> = (0..4).map(|_| receiver.recv().unwrap()).collect();
        assert_eq!(done, [('a', true), ('b', true), ('c', true), ('d', true)]);
    }

    #[test]
    fn release_and_drop_do_what_is_left() {
        let timer = Timer::new("timer", Duration::ZERO, || {}).unwrap();
        let handle = timer.handle();
        let (sender, receiver) = mpsc::channel();
        let add = |number: i32, due| {
            let sender = sender.clone();
            handle.at(due, move || sender.send(number).unwrap());
        };
        let later = Instant::now() + Duration::from_secs(1000);
        add(2, None);
        add(1, Some(later));
        assert_eq!(handle.waiting(), 2);
        handle.release();
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(2)));
        add(3, None);
        drop(timer);
        assert_eq!(receiver.try_recv(), Ok(3));
        add(4, None);
        assert_eq!(receiver.try_recv(), Ok(4));
    }

    #[test]
    fn a_job_may_own_its_timer() {
        let timer = Arc::new(Timer::new("timer", Duration::ZERO, || {}).unwrap());
        let (sender, receiver) = mpsc::channel();
        let handle = timer.handle();
        let (let_go, gone) = mpsc::channel::<()>();
        let owner = timer.clone();
        handle.at(Some(Instant::now()), move || {
            let _ = gone.recv();
            drop(owner);
            sender.send(()).unwrap();
        });
        drop(timer);
        drop(let_go);
        assert_eq!(receiver.recv(), Ok(()));
    }
}
