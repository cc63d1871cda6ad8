//! The end of a service: written data goes to the devices or counts as lost.

use std::time::Duration;

use pagewell_fs::{FileSystem, Finish};

/// Written data that did not reach its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its name.
    pub export: String,
    /// Bytes lost, or the error of the last write.
    pub result: Result<u64, pagewell_fs::Error>,
}

/// Brings the data of these file systems, with their exports' names, to the devices.
pub fn finish_all<'e>(
    exports: impl IntoIterator<Item = (&'e str, &'e dyn FileSystem)>,
    patience: Duration,
) -> Vec<Loss> {
    std::thread::scope(|scope| {
        let all: Vec<_> = exports
            .into_iter()
            .map(|(name, filesystem)| {
                let finish = move || filesystem.finish(Finish::Within(patience));
                (name, scope.spawn(finish))
            })
            .collect();
        let losses = all.into_iter().map(|(name, thread)| Loss {
            export: name.to_owned(),
            result: thread.join().unwrap_or_else(|_| {
                let reason = "writing ended in a defect".to_owned();
                Err(pagewell_fs::Error::Io(reason))
            }),
        });
        losses.filter(|loss| loss.result != Ok(0)).collect()
    })
}
