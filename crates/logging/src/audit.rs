//! The file of the audit log.
//!
//! A queue of [`LINES_MAX`] leads to a writing thread. On errors or a full queue lines are lost:
//! the log says so once, and their number on recovery, as does the file. A file that was moved away
//! (logrotate(8)) is created anew.
//!
//! Weakness: a change may be answered before its line is on disk.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Lines in the queue.
const LINES_MAX: usize = 1024;
/// Lines of one write.
const TOGETHER_MAX: usize = 128;
/// Longest wait for the queue at exit.
const FINISH_WAIT: Duration = Duration::from_secs(5);
/// At exit, between two looks at a full queue.
const FULL_PAUSE: Duration = Duration::from_millis(10);

enum Message {
    Line(Vec<u8>),
    /// Answered once all earlier lines are written.
    Finish(SyncSender<()>),
}

/// The queue to the file.
#[derive(Debug)]
pub(crate) struct AuditFile {
    queue: SyncSender<Message>,
    overflowed: Arc<AtomicU64>,
}

impl AuditFile {
    /// Opens the file and starts its thread.
    pub(crate) fn start(path: &Path) -> std::io::Result<Self> {
        let mut writer = Writer::open(path).map_err(|error| {
            let text = format!("audit log {}: {error}", path.display());
            std::io::Error::new(error.kind(), text)
        })?;
        let (queue, lines) = sync_channel(LINES_MAX);
        let overflowed = Arc::new(AtomicU64::new(0));
        let lost = overflowed.clone();
        std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(&mut writer, &lines, &lost))?;
        Ok(Self { queue, overflowed })
    }

    /// Queues a line.
    pub(crate) fn write(&self, line: Vec<u8>) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Line(line)) {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a bounded time for the queue.
    pub(crate) fn finish(&self) {
        let began = Instant::now();
        let (done, is_done) = sync_channel(1);
        let mut message = Message::Finish(done);
        while let Err(TrySendError::Full(refused)) = self.queue.try_send(message) {
            if began.elapsed() >= FINISH_WAIT {
                return;
            }
            message = refused;
            std::thread::sleep(FULL_PAUSE);
        }
        let _ = is_done.recv_timeout(FINISH_WAIT.saturating_sub(began.elapsed()));
    }
}

fn write_all(writer: &mut Writer, lines: &Receiver<Message>, overflowed: &AtomicU64) {
    while let Ok(first) = lines.recv() {
        let (mut bytes, mut count, mut asked) = (Vec::new(), 0, Vec::new());
        let more = lines.try_iter().take(TOGETHER_MAX);
        for message in std::iter::once(first).chain(more) {
            match message {
                Message::Line(line) => {
                    bytes.extend_from_slice(&line);
                    count += 1;
                }
                Message::Finish(done) => asked.push(done),
            }
        }
        if let Some(news) = writer.put(&bytes, count, overflowed.swap(0, Ordering::Relaxed)) {
            tracing::error!(path = %writer.path.display(), "{news}");
        }
        for done in asked {
            let _ = done.try_send(());
        }
    }
}

/// The file, and the number of lost lines.
struct Writer {
    path: PathBuf,
    file: File,
    lost: u64,
    is_failing: bool,
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o640).open(path)
}

impl Writer {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            file: open(path)?,
            path: path.to_owned(),
            lost: 0,
            is_failing: false,
        })
    }

    /// Writes `count` lines, after `overflowed` lost ones. Returns news for the log.
    fn put(&mut self, lines: &[u8], count: u64, overflowed: u64) -> Option<String> {
        self.lost += overflowed;
        let path = self.path.display().to_string();
        match self.append(lines) {
            Ok(()) => {
                let lost = std::mem::take(&mut self.lost);
                self.is_failing = false;
                (lost > 0).then(|| format!("audit log {path}: {lost} changes are missing in it"))
            }
            Err(error) => {
                self.lost += count;
                let was_failing = std::mem::replace(&mut self.is_failing, true);
                (!was_failing).then(|| {
                    format!("audit log {path}: {error}: changes are not recorded until it works")
                })
            }
        }
    }

    /// Appends all lines or nothing.
    fn append(&mut self, lines: &[u8]) -> std::io::Result<()> {
        let is_same = |path: &Path, file: &File| {
            let (at, open) = (std::fs::metadata(path).ok()?, file.metadata().ok()?);
            Some((at.dev(), at.ino()) == (open.dev(), open.ino()))
        };
        if is_same(&self.path, &self.file) != Some(true) {
            self.file = open(&self.path)?;
        }
        let before = self.file.metadata()?.len();
        let mut all = Vec::new();
        if self.lost > 0 {
            all.extend_from_slice(format!("{{\"lost\":{}}}\n", self.lost).as_bytes());
        }
        all.extend_from_slice(lines);
        self.file.write_all(&all).inspect_err(|_| {
            // No partial lines.
            let _ = self.file.set_len(before);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_once_and_what_is_missing_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let mut writer = Writer::open(&path).unwrap();
        let news = writer.put(b"one\ntwo\n", 2, 0).unwrap();
        assert!(news.contains("No space left on device"), "{news}");
        assert_eq!(writer.put(b"three\n", 1, 4), None);
        std::fs::remove_file(&path).unwrap();
        let news = writer.put(b"four\n", 1, 0).unwrap();
        assert!(news.ends_with("7 changes are missing in it"), "{news}");
        assert_eq!(writer.put(b"five\n", 1, 0), None);
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, "{\"lost\":7}\nfour\nfive\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let file = AuditFile::start(&path).unwrap();
        file.write(b"one\n".to_vec());
        file.finish();
        let old = directory.path().join("audit.1");
        std::fs::rename(&path, &old).unwrap();
        file.write(b"two\n".to_vec());
        file.finish();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "one\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn the_end_waits_for_a_full_queue() {
        let (queue, lines) = sync_channel(1);
        let overflowed = Arc::default();
        let file = AuditFile { queue, overflowed };
        file.write(b"one\n".to_vec());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let mut writer = Writer::open(&path).unwrap();
        let late = std::thread::spawn(move || {
            std::thread::sleep(FULL_PAUSE * 5);
            write_all(&mut writer, &lines, &AtomicU64::new(0));
        });
        file.finish();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        drop(file);
        late.join().unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = AuditFile::start(Path::new("/nonexistent/audit")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("audit log /nonexistent/audit: ")
        );
    }
}
