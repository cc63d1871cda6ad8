//! The thread that reads each second.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::History;
use super::reading::Reading;

const PERIOD: Duration = Duration::from_secs(1);

/// Reads until it is dropped.
pub(crate) struct Sampler {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn start(history: Arc<History>) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("history".to_owned());
        let thread = thread.spawn(move || {
            let mut next = Instant::now();
            loop {
                history.note(&Reading::take());
                next += PERIOD;
                // Readings missed by a sleeping machine are not repeated.
                let now = Instant::now();
                if next < now {
                    next = now + PERIOD;
                }
                let wait = next.saturating_duration_since(now);
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Span;

    #[test]
    fn points_come_and_it_stops() {
        let history = Arc::new(History::new());
        let sampler = Sampler::start(Arc::clone(&history)).unwrap();
        let last_resort = Instant::now() + Duration::from_secs(60);
        while history.since(Span::Minute, 0.0).times.is_empty() {
            assert!(Instant::now() < last_resort, "no point in a minute");
            thread::sleep(Duration::from_millis(20));
        }
        drop(sampler);
        assert_eq!(Arc::strong_count(&history), 1, "its thread has ended");
    }
}
