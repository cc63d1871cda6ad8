//! Records of what is to be uploaded, and of what is kept for people.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use pagewell_counters::names::{STAGING_CONFLICTS, STAGING_JOURNALED};

use super::{Fate, Inner, StagedFile, State};
use crate::error::{Error, Result};
use crate::folder::Kind;
use crate::kept;
use crate::places::{Part, Places};
use crate::record::Record;
use crate::stored::{RECORD_BYTES_MAX, State as StoredState, Stored};
use crate::sums::{Sum, checksum, chunks};

impl StagedFile {
    /// Makes the dirty bytes durable, then the record, in place of an earlier one. A replay then
    /// finds exactly these bytes, whatever is written or cut later. Waits for the disk.
    ///
    /// # Errors
    /// The earlier record holds, or this one where only its name is not durable. After
    /// [`Error::Doubtful`], or a failed flush, no call succeeds: upload the bytes, or write them to
    /// another file.
    pub fn journal(&self, record: &Record) -> Result<()> {
        let turn = self.0.take_turn();
        let inner = &self.0;
        if let Some(reason) = record.fault() {
            return Err(inner.wrong(reason));
        }
        let state = inner.state.lock();
        if state.is_closed {
            return Err(Error::Closed { name: inner.name() });
        }
        if state.is_doubtful {
            return Err(Error::Doubtful { name: inner.name() });
        }
        let parts = inner.parts_of(&state, record)?;
        drop(state);
        let sums = inner.sums_of(&parts).map_err(inner.failed())?;
        inner.sync()?;
        let stored = Stored {
            number: inner.number,
            origin: inner.folder.origin().to_owned(),
            state: StoredState::Journaled,
            record: record.clone(),
            parts,
            sums,
        };
        let (is_there, written) = inner.write_record(&stored);
        if is_there {
            inner.promise(&stored.parts);
        }
        written?;
        STAGING_JOURNALED.add(1);
        inner.trim();
        drop(turn);
        Ok(())
    }

    /// Keeps the dirty bytes for people, durable, never replayed; an earlier record is gone.
    /// Returns the data file, with these bytes at their places and holes elsewhere; the text beside
    /// it says which, and the reason. Later writes fail. Waits for the disk.
    ///
    /// # Errors
    /// The earlier record holds, or this one where only its name is not durable.
    pub fn keep(&self, record: &Record, reason: &str) -> Result<PathBuf> {
        let turn = self.0.take_turn();
        let inner = &self.0;
        if let Some(reason) = record.fault() {
            return Err(inner.wrong(reason));
        }
        let state = inner.state.lock();
        if state.is_closed {
            return Err(Error::Closed { name: inner.name() });
        }
        let dirty = record.dirty.iter();
        let within = dirty.flat_map(|(start, end)| state.places.within(*start, *end));
        let parts: Vec<Part> = within.collect();
        drop(state);
        let bytes = Places::promised(&parts).bytes();
        let missing = record.dirty_spans().bytes() - bytes;
        let missing = match missing {
            0 => String::new(),
            missing => format!("; {missing} bytes of it are missing"),
        };
        // Better than nothing.
        let doubt = match inner.sync() {
            Ok(()) => String::new(),
            Err(error) => format!("; the disk was in doubt: {error}"),
        };
        let stored = Stored {
            number: inner.number,
            origin: inner.folder.origin().to_owned(),
            state: StoredState::Kept(format!("{reason}{missing}{doubt}")),
            record: record.clone(),
            parts,
            sums: Vec::new(),
        };
        let (is_there, written) = inner.write_record(&stored);
        if is_there {
            inner.leave();
        }
        written?;
        let mut state = inner.state.lock();
        state.is_closed = true;
        let total = std::mem::take(&mut state.places).bytes();
        drop(state);
        STAGING_CONFLICTS.add(1);
        inner.folder.descriptors().forget(inner.number);
        let path = kept::settle(&inner.folder, &stored).unwrap_or_else(|error| {
            // Durable, under their names. The next process tries again.
            tracing::warn!("{}: is not in one file: {error}", inner.name());
            inner.folder.file(inner.number, Kind::Record)
        });
        inner.folder.release(total.saturating_sub(bytes));
        inner.folder.add_kept(path.clone(), bytes);
        drop(turn);
        Ok(path)
    }
}

impl Inner {
    fn wrong(&self, reason: &'static str) -> Error {
        let name = self.name();
        Error::Record { name, reason }
    }

    /// For `map_err`.
    fn failed(&self) -> impl FnOnce(io::Error) -> Error + use<> {
        Error::of(&self.folder.file(self.number, Kind::Data(0)))
    }

    /// Where a record's dirty bytes are.
    fn parts_of(&self, state: &State, record: &Record) -> Result<Vec<Part>> {
        let mut parts = Vec::with_capacity(record.dirty.len());
        for (start, end) in record.dirty_spans().iter() {
            if !state.places.covers(start, end) {
                let name = self.name();
                let mut stored = state.places.spans_within(start, end).into_iter();
                let first = stored.next().unwrap_or((end, end));
                let span = match first.0 == start {
                    true => (first.1, stored.next().map_or(end, |next| next.0)),
                    false => (start, first.0),
                };
                return Err(Error::NotStored { name, span });
            }
            parts.extend(state.places.within(start, end));
        }
        Ok(parts)
    }

    /// The sums of parts; the files are read for unknown ones.
    fn sums_of(&self, parts: &[Part]) -> io::Result<Vec<Sum>> {
        let mut sums = Vec::new();
        for (chunk, parts) in chunks(parts) {
            let known = self.state.lock().sums.find(chunk, &parts);
            let checksum = match known {
                Some(checksum) => checksum,
                None => {
                    let read = |part: &Part, bytes: &mut [u8]| {
                        self.data(part.home)?.read_exact_at(bytes, part.span.0)
                    };
                    let checksum = checksum(&parts, read)?;
                    self.state.lock().sums.keep(chunk, &parts, checksum);
                    checksum
                }
            };
            sums.push(Sum { chunk, checksum });
        }
        Ok(sums)
    }

    /// Makes the data files durable, and their new names if an earlier record must hold until the
    /// next.
    fn sync(&self) -> Result<()> {
        let files = self.state.lock().files;
        for (home, _) in files
            .iter()
            .enumerate()
            .filter(|(_, file)| file.is_unsynced)
        {
            let synced = self.data(home).and_then(|file| file.sync_data());
            let mut state = self.state.lock();
            if let Err(error) = synced {
                state.is_doubtful = true;
                drop(state);
                return Err(self.failed()(error));
            }
            if let Some(file) = state.files.get_mut(home) {
                file.is_unsynced = false;
            }
        }
        let state = self.state.lock();
        let is_needed = state.has_new_name && matches!(state.fate, Fate::Journaled(_));
        drop(state);
        match is_needed {
            true => self.folder.sync().map_err(self.failed()),
            false => Ok(()),
        }
    }

    /// Whether the next process may find the record, which then must keep its bytes, and whether it
    /// is durable.
    fn write_record(&self, stored: &Stored) -> (bool, Result<()>) {
        let text = stored.encode();
        if text.len() as u64 > RECORD_BYTES_MAX {
            return (
                false,
                Err(self.wrong("is too long: too many places have changed")),
            );
        }
        let written = self.folder.write_record(self.number, &text);
        let mut state = self.state.lock();
        match written {
            Ok(()) => {
                state.has_new_name = false;
                (true, Ok(()))
            }
            Err((error, may_be_either)) => {
                state.is_doubtful |= may_be_either;
                drop(state);
                let path = self.folder.file(self.number, Kind::Record);
                (may_be_either, Err(Error::of(&path)(error)))
            }
        }
    }

    /// A record promises these parts.
    fn promise(&self, parts: &[Part]) {
        let bytes = Places::promised(parts).bytes();
        let mut state = self.state.lock();
        state.places.promise(parts);
        let before = match state.fate {
            Fate::Journaled(bytes) => Some(bytes),
            _ => None,
        };
        state.fate = Fate::Journaled(bytes);
        drop(state);
        self.folder.count_journaled(before, Some(bytes));
    }

    /// The bytes are for people.
    fn leave(&self) {
        let before = std::mem::replace(&mut self.state.lock().fate, Fate::Left);
        if let Fate::Journaled(bytes) = before {
            self.folder.count_journaled(Some(bytes), None);
        }
    }
}
