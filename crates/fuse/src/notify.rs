//! Notices to the kernel from a thread of their own, as the kernel may wait for pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use pagewell_base::sync::{Condvar, Mutex};

/// Notices that wait, each once.
#[derive(Default)]
pub(crate) struct NoticeQueue<T> {
    state: Mutex<State<T>>,
    change: Condvar,
}

#[derive(Default)]
struct State<T> {
    notices: BTreeSet<T>,
    stopping: bool,
}

impl<T: Ord + Send + 'static> NoticeQueue<T> {
    /// Starts the thread, which calls `send` with each notice.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: &str,
        send: impl Fn(T) + Send + 'static,
    ) -> std::io::Result<()> {
        let queue = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let run = move || {
            while let Some(notice) = queue.next() {
                send(notice);
            }
        };
        thread.spawn(run).map(drop)
    }

    pub(crate) fn add(&self, notice: T) {
        if self.state.lock().notices.insert(notice) {
            self.change.notify_one();
        }
    }

    /// Waits for the next; none comes once the mount ends.
    fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        while !state.stopping {
            // Removed before it is sent: a request from here on is another notice.
            if let Some(notice) = state.notices.pop_first() {
                return Some(notice);
            }
            state = self.change.wait(state);
        }
        None
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.change.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_notice_comes_once_and_none_after_the_end() {
        let queue = NoticeQueue::default();
        for notice in [7, 3, 7] {
            queue.add(notice);
        }
        assert_eq!((queue.next(), queue.next()), (Some(3), Some(7)));
        queue.add(7);
        assert_eq!(queue.next(), Some(7));
        queue.add(9);
        queue.stop();
        assert_eq!(queue.next(), None);
    }
}
