//! Threads that help the thread of a walk.

use std::iter::from_fn;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};

use pagewell_base::sync::Mutex;

/// Threads of a scope that run jobs in order, until this is dropped and no job is left.
pub(crate) struct Helpers<'scope, 'env, Job> {
    scope: &'scope Scope<'scope, 'env>,
    name: &'static str,
    threads: usize,
    threads_max: usize,
    jobs: Sender<Job>,
    queue: Arc<Mutex<Receiver<Job>>>,
}

impl<'scope, 'env, Job: Send + 'scope> Helpers<'scope, 'env, Job> {
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        name: &'static str,
        threads_max: usize,
    ) -> Self {
        let (jobs, queue) = channel();
        Self {
            scope,
            name,
            threads: 0,
            threads_max,
            jobs,
            queue: Arc::new(Mutex::new(queue)),
        }
    }

    /// Adds a job, if there are threads; starts one more, which runs `serve`, while there may be.
    pub(crate) fn give(
        &mut self,
        job: Job,
        serve: impl FnOnce(&mut dyn Iterator<Item = Job>) + Send + 'scope,
    ) {
        if self.threads < self.threads_max {
            let queue = Arc::clone(&self.queue);
            let started =
                Builder::new()
                    .name(self.name.to_owned())
                    .spawn_scoped(self.scope, move || {
                        serve(&mut from_fn(|| queue.lock().recv().ok()));
                    });
            match started {
                Ok(_) => self.threads += 1,
                // The others do the work.
                Err(_) => self.threads_max = self.threads,
            }
        }
        if self.threads > 0 {
            // This has the queue.
            let _ = self.jobs.send(job);
        }
    }
}
