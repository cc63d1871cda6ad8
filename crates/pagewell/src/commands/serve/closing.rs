//! Sources not served any more: a thread closes each, after its last call, when what was written is
//! on its device.

use std::sync::Arc;
use std::thread::JoinHandle;

use pagewell_base::sync::Mutex;
use pagewell_nfsd::{Loss, Retired};

use crate::commands::serving::ANSWER_WAIT;
use crate::escape;
use crate::failure::report;

/// Sources that close at a time; with more of them a reload waits for one.
const CLOSING_MAX: usize = 64;

#[derive(Clone, Default)]
pub(super) struct Closing(Arc<Mutex<Vec<JoinHandle<Option<Loss>>>>>);

impl Closing {
    pub(super) fn begin(&self, retired: Retired) {
        let mut all = self.0.lock();
        // The threads that have ended reported their losses.
        all.retain(|thread| !thread.is_finished());
        let oldest = (all.len() >= CLOSING_MAX).then(|| all.remove(0));
        drop(all);
        if let Some(oldest) = oldest {
            let _ = oldest.join();
        }
        let thread = std::thread::Builder::new().name("closing".to_owned());
        let finish = move || {
            let loss = retired.finish(ANSWER_WAIT);
            if let Some(loss) = &loss {
                say_loss(loss);
            }
            loss
        };
        match thread.spawn(finish) {
            Ok(thread) => self.0.lock().push(thread),
            Err(error) => report(&format!("cannot start a thread to close a source: {error}")),
        }
    }

    /// Waits for all. Returns whether one in the list has lost something.
    pub(super) fn wait(&self) -> bool {
        let all = std::mem::take(&mut *self.0.lock());
        let losses = all.into_iter().map(|thread| thread.join().ok().flatten());
        losses.flatten().count() > 0
    }
}

/// Reports what of an export is not on its device.
pub(super) fn say_loss(loss: &Loss) {
    let export = escape::text(loss.export.as_bytes());
    report(&match &loss.result {
        Ok(bytes) => {
            format!(
                "{export}: the source does not answer: {bytes} bytes that were written are lost"
            )
        }
        Err(error) => format!("{export}: written data is not on the device: {error}"),
    });
}
