//! The changing state of an open image: its times, and with them its change data.
//!
//! **Problem.** Written bytes stay in memory for a while, so the times of the file below do not
//! show when the image was written; and a client may get the earlier attributes (`wcc_data`, RFC
//! 1813 section 2.6) only when no other change came between.
//!
//! **Rule.** This part keeps the times from the opening on. Each change moves them forward, by at
//! least a nanosecond, *after* the bytes are in memory: a reader of the new time finds the new
//! bytes. Changes are counted; one that ends with the count of its beginning was alone.
//!
//! **Known weakness.** Times set by clients end with the program; the next one shows those of the
//! file below, which the writes moved.

use pagewell_base::sync::Mutex;
use pagewell_fs::{Attributes, Change, Error, Result, SetAttributes, SetTime, Timestamp};

#[derive(Debug)]
struct FileState {
    /// The file, with its times.
    file: Attributes,
    changes: u64,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Changes {
    state: Mutex<FileState>,
    /// The verifier before any loss.
    pub(super) verifier: u64,
}

/// A begun change, with the count of changes before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun(u64);

impl Changes {
    pub(super) fn new(file: Attributes) -> Self {
        Self {
            state: Mutex::new(FileState { file, changes: 0 }),
            verifier: pagewell_fs::verifier::fresh(),
        }
    }

    pub(super) fn file(&self) -> Attributes {
        self.state.lock().file
    }

    /// Must precede the first changed byte.
    pub(super) fn begin(&self) -> Begun {
        Begun(self.state.lock().changes)
    }

    /// Ends a change of bytes.
    pub(super) fn wrote(&self, begun: Begun) -> Change {
        let change = |file: &mut Attributes, now| file.modified = now;
        self.state.lock().apply(begun, change)
    }

    /// Sets times, unless the file has changed after `guard`.
    pub(super) fn set(
        &self,
        begun: Begun,
        request: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let mut state = self.state.lock();
        Error::NotSync.when(guard.is_some_and(|guard| guard != state.file.changed))?;
        Ok(state.apply(begun, |file, now| {
            let value = |how: SetTime| match how {
                SetTime::ToServerTime => now,
                SetTime::To(time) => time,
            };
            file.accessed = request.accessed.map_or(file.accessed, value);
            file.modified = request.modified.map_or(file.modified, value);
        }))
    }
}

impl FileState {
    fn apply(&mut self, begun: Begun, change: impl FnOnce(&mut Attributes, Timestamp)) -> Change {
        let before = (self.changes == begun.0).then(|| self.file.wcc());
        let now = Timestamp::now().max(self.file.changed.next());
        change(&mut self.file, now);
        self.file.changed = now;
        self.changes += 1;
        Change {
            before,
            after: Some(self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::FileType;

    const START: Timestamp = Timestamp {
        seconds: 5,
        nanoseconds: 999_999_999,
    };

    fn changes(changed: Timestamp) -> Changes {
        Changes::new(Attributes {
            file_type: FileType::Regular,
            mode: 0o600,
            link_count: 1,
            uid: 0,
            gid: 0,
            size: 1,
            used: 1,
            device: (0, 0),
            filesystem_id: 0,
            file_id: 2,
            accessed: START,
            modified: START,
            changed,
            may_be_kept: true,
        })
    }

    #[test]
    fn every_change_is_later_than_the_one_before() {
        // A clock that was set back must not make a change look like none.
        let future = Timestamp {
            seconds: 1 << 40,
            nanoseconds: 999_999_998,
        };
        let changes = changes(future);
        let mut last = future;
        for _ in 0..3 {
            let change = changes.wrote(changes.begin());
            let now = change.after.unwrap().changed;
            assert!(now > last, "{now:?} {last:?}");
            assert_eq!(change.after.unwrap().modified, now);
            last = now;
        }
        assert_eq!(changes.file().accessed, START);
    }

    #[test]
    fn only_one_that_was_alone_knows_what_was_before() {
        let changes = changes(START);
        let (first, second) = (changes.begin(), changes.begin());
        let alone = changes.wrote(first);
        assert_eq!(alone.before.unwrap().changed, START);
        let overlapped = changes.wrote(second);
        assert_eq!(overlapped.before, None);
        let next = changes.wrote(changes.begin());
        let (before, after) = (next.before.unwrap(), overlapped.after.unwrap());
        assert_eq!(before, after.wcc());
    }

    #[test]
    fn times_are_set_as_asked() {
        let changes = changes(START);
        let to = Timestamp {
            seconds: -7,
            nanoseconds: 3,
        };
        let request = SetAttributes {
            modified: Some(SetTime::To(to)),
            ..SetAttributes::default()
        };
        let change = changes.set(changes.begin(), &request, Some(START));
        let after = change.unwrap().after.unwrap();
        assert_eq!((after.modified, after.accessed), (to, START));
        assert!(after.changed > START);
        let request = SetAttributes {
            accessed: Some(SetTime::ToServerTime),
            ..SetAttributes::default()
        };
        changes.set(changes.begin(), &request, None).unwrap();
        let file = changes.file();
        assert_eq!((file.accessed, file.modified), (file.changed, to));
    }

    #[test]
    fn a_write_that_comes_between_guard_and_times_is_noticed() {
        let changes = changes(START);
        let request = SetAttributes {
            modified: Some(SetTime::To(START)),
            ..SetAttributes::default()
        };
        let (set, written) = (changes.begin(), changes.begin());
        let written = changes.wrote(written).after.unwrap();
        let refused = changes.set(set, &request, Some(START));
        assert_eq!(refused.err(), Some(Error::NotSync));
        assert_eq!(changes.file().modified, written.modified);
    }
}
