//! Deferred calls: what a server was not ready for is asked again after a pause.
//!
//! One thread, which begins with the first such call and ends with the mount. What is left then is
//! dropped, which tells the thread that waits for it.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;

type Work = Box<dyn FnOnce() + Send>;
type Sender = mpsc::Sender<(Instant, Work)>;

/// See the module's text.
#[derive(Default)]
pub(super) struct Deferred {
    sender: Mutex<Option<Sender>>,
}

impl Deferred {
    /// Does `work` after `pause`; drops it when no thread can be had.
    pub(super) fn after(&self, pause: Duration, work: impl FnOnce() + Send + 'static) {
        let mut sender = self.sender.lock();
        if sender.is_none() {
            let (new, receiver) = mpsc::channel();
            let builder = std::thread::Builder::new().name("pagewell-deferred".to_owned());
            if builder.spawn(move || run(&receiver)).is_err() {
                return;
            }
            *sender = Some(new);
        }
        if let Some(sender) = &*sender {
            // The thread is there as long as the sender is.
            let _ = sender.send((Instant::now() + pause, Box::new(work)));
        }
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.sender.lock().take();
    }
}

fn run(receiver: &mpsc::Receiver<(Instant, Work)>) {
    // By time, and in order among equals.
    let mut waiting: BTreeMap<(Instant, u64), Work> = BTreeMap::new();
    let mut count = 0;
    loop {
        while let Some(next) = waiting.first_entry() {
            if next.key().0 > Instant::now() {
                break;
            }
            next.remove()();
        }
        let received = match waiting.first_key_value() {
            Some(((when, _), _)) => {
                receiver.recv_timeout(when.saturating_duration_since(Instant::now()))
            }
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok((when, work)) => {
                count += 1;
                waiting.insert((when, count), work);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_the_order_of_its_times() {
        let deferred = Deferred::default();
        let (sender, receiver) = mpsc::channel();
        let base = Instant::now() + Duration::from_millis(20);
        for (number, pause) in [(2, 2), (0, 0), (3, 2), (1, 1)] {
            let sender = sender.clone();
            let when = base + Duration::from_millis(pause);
            let pause = when.saturating_duration_since(Instant::now());
            deferred.after(pause, move || sender.send(number).unwrap());
        }
        let mut done: Vec<i32> = receiver.iter().take(4).collect();
        done.sort_unstable();
        assert_eq!(done, [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_left_at_the_end_is_dropped() {
        let deferred = Deferred::default();
        let (sender, receiver) = mpsc::channel::<()>();
        deferred.after(Duration::from_secs(1000), move || sender.send(()).unwrap());
        deferred.end();
        assert!(receiver.recv().is_err());
    }
}
