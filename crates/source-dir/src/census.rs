//! What is in the export: all of its directories, read once for everybody that asks.
//!
//! Problem: of an object without a name in the kernel's memory nobody can tell where it is, or
//! whether it is in the export at all: not of a path hint whose object was moved, nor of the
//! kernel's handle of a file. Only reading every directory tells. One reading for each question
//! would keep the disk busy for hours, and everybody else waiting.
//!
//! Rule: a thread of its own reads all directories, depth first, and notes every inode number. What
//! is asked meanwhile is answered by the same reading. It runs only while something is asked.
//!
//! ```text
//!   directories ──> inode number ──> inside (64 numbers to a word)    "has a name in the export"
//!                        └─ wanted? ──> table of places               "and this is where"
//!                  end of the reading ──> whole for a while           "all others are not here"
//! ```
//!
//! - *Yes* is good for this life of the server: the object was in the export after the start.
//! - *No* is good for as long as it took ten times over to find out, a minute at least, so that
//!   reading takes a tenth of the time at most however many ask for what is gone.
//! - *Where* is wanted of path hints only. A caller that asks after its object was passed gets a
//!   second reading.
//! - A caller waits for [`WAIT`], then, or when [`WAITING_MAX`] others wait, is told to try later.
//!
//! Weaknesses: a local program that moves a directory while it is read may hide what is in it from
//! this reading; looking up its name mends that. Numbers of more than [`WORDS_MAX`] words (64
//! million files side by side) are not noted and count as "no". Where listings show other inode
//! numbers than stat (some union mounts) nothing is found.

use super::entries::{entries, parse};
use super::object::open_directory;
use super::path_hint::Step;
use super::status::{Inode, Node, Status};
use super::{Tree, system, unless_short};
use pagewell_base::sync::{Condvar, Mutex};
use pagewell_fs::{Error, FileId, OpenFile, Result};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How long a caller waits for an answer.
const WAIT: Duration = Duration::from_secs(2);
/// How often it looks.
const LOOK_EACH: Duration = Duration::from_millis(20);
/// Callers that may wait; each has a thread that others need, too.
const WAITING_MAX: usize = 8;
/// A reading is good for this long at least, and for [`REST_FACTOR`] times what it took.
const GOOD_FOR_MIN: Duration = Duration::from_secs(60);
const REST_FACTOR: u32 = 10;
/// Words of 64 inode numbers that are noted: some 32 MiB.
const WORDS_MAX: usize = 1 << 20;
/// Objects wanted at a time.
const WANTED_MAX: usize = 1 << 16;
/// Levels of directories, each with a descriptor; no path can have more.
const DEPTH_MAX: usize = 2048;
/// What one getdents64 may return.
const BUFFER_BYTES: usize = 16 << 10;

/// The answers so far.
#[derive(Default)]
pub(super) struct Census {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By device: word of 64 inode numbers, and which of them were seen.
    inside: HashMap<u64, HashMap<u64, u64>>,
    words: usize,
    /// Number of the reading that runs, or ran last.
    reading: u64,
    runs: bool,
    good_until: Option<Instant>,
    /// By inode number.
    wanted: HashMap<u64, Wanted>,
    waiting: usize,
}

#[cfg(test)]
impl Census {
    /// Readings until now.
    pub(super) fn readings(&self) -> u64 {
        self.state.lock().reading
    }
}

/// An object whose place is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    id: FileId,
    inode: Inode,
    /// The reading that ran when it was first asked for.
    since: u64,
}

fn has(words: &HashMap<u64, u64>, inode: u64) -> bool {
    let bits = words.get(&(inode >> 6)).copied().unwrap_or(0);
    bits >> (inode & 63) & 1 != 0
}

/// Whether any device has the number.
fn is_listed(inside: &HashMap<u64, HashMap<u64, u64>>, inode: u64) -> bool {
    inside.values().any(|words| has(words, inode))
}

impl State {
    fn has(&self, node: Node) -> bool {
        let words = self.inside.get(&node.device);
        words.is_some_and(|words| has(words, node.inode))
    }

    fn note(&mut self, device: u64, inode: u64) {
        let words = self.inside.entry(device).or_default();
        let fits = self.words < WORDS_MAX || words.contains_key(&(inode >> 6));
        if fits {
            let before = words.len();
            *words.entry(inode >> 6).or_default() |= 1 << (inode & 63);
            self.words += words.len() - before;
        }
    }

    fn is_whole(&self) -> bool {
        self.good_until.is_some_and(|until| Instant::now() < until)
    }
}

impl Tree {
    /// Whether an object has a name in the export, as far as a census can tell.
    pub(super) fn is_listed(&self, node: Node, may_wait: bool) -> Result<bool> {
        let ask = |state: &mut State| {
            let listed = state.has(node);
            (listed || state.is_whole()).then_some(listed)
        };
        self.ask(may_wait, ask)
    }

    /// Finds the place of an object and puts it into the table of places; false when it is not in
    /// the export.
    pub(super) fn find_listed(&self, id: &FileId, inode: Inode) -> Result<bool> {
        let mut asked = false;
        self.ask(true, |state| {
            let wanted = state.wanted.get(&inode.number);
            let pending = wanted.is_some_and(|wanted| wanted.inode == inode);
            if asked && !pending {
                return Some(!self.is_missing(inode));
            }
            let knows_all = state.is_whole() && state.words < WORDS_MAX;
            if knows_all && !is_listed(&state.inside, inode.number) {
                self.set_missing(inode);
                return Some(false);
            }
            if !pending && state.wanted.len() < WANTED_MAX {
                let wanted = Wanted {
                    id: *id,
                    inode,
                    since: state.reading,
                };
                state.wanted.insert(inode.number, wanted);
                asked = true;
            }
            None
        })
    }

    /// Asks until there is an answer, and has the export read meanwhile.
    fn ask(
        &self,
        may_wait: bool,
        mut answer: impl FnMut(&mut State) -> Option<bool>,
    ) -> Result<bool> {
        let census = &self.census;
        let mut state = census.state.lock();
        if let Some(found) = answer(&mut state) {
            return Ok(found);
        }
        Error::WouldBlock.unless(may_wait)?;
        self.start_reading(&mut state);
        Error::TryLater.when(state.waiting >= WAITING_MAX)?;
        state.waiting += 1;
        let until = Instant::now() + WAIT;
        let mut found = None;
        while found.is_none() && Instant::now() < until {
            state = census.changed.wait_timeout(state, LOOK_EACH);
            found = answer(&mut state);
        }
        state.waiting -= 1;
        found.ok_or(Error::TryLater)
    }

    fn start_reading(&self, state: &mut State) {
        if state.runs {
            return;
        }
        let tree = self.myself.get().cloned().unwrap_or_default();
        let started = std::thread::Builder::new()
            .name("dir-census".to_owned())
            .spawn(move || run(&tree));
        state.runs = started.is_ok();
        state.reading += u64::from(state.runs);
    }

    /// One reading is over. Returns whether another one is needed.
    fn end_reading(&self, whole: bool, began: Instant) -> bool {
        let mut state = self.census.state.lock();
        if whole {
            let good_for = GOOD_FOR_MIN.max(began.elapsed().saturating_mul(REST_FACTOR));
            state.good_until = Instant::now().checked_add(good_for);
        }
        let reading = state.reading;
        let State { wanted, inside, .. } = &mut *state;
        // a caller that came after this reading had begun may have come after its object was passed
        wanted.retain(|number, wanted| {
            let again = whole && wanted.since == reading && is_listed(inside, *number);
            if whole && !again {
                self.set_missing(wanted.inode);
            }
            again
        });
        state.runs = !state.wanted.is_empty();
        state.reading += u64::from(state.runs);
        self.census.changed.notify_all();
        state.runs
    }
}

/// A directory that is being read.
struct Level {
    file: OpenFile,
    device: u64,
    step: Step,
    bytes: Vec<u8>,
    at: usize,
}

impl Level {
    /// Opens a directory; `None` when it is none, or cannot be read.
    fn open(tree: &Tree, directory: impl AsFd, name: &[u8]) -> Result<Option<Self>> {
        let status = Status::of(&directory)?;
        if !status.attributes.file_type.is_directory() {
            return Ok(None);
        }
        let opened = tree.with_room(true, || open_directory(directory.as_fd()));
        let Some(file) = unless_short(opened)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            file,
            device: status.node.device,
            step: Step {
                inode: tree.inode_of(&directory, &status)?,
                name: name.into(),
            },
            bytes: Vec::with_capacity(BUFFER_BYTES),
            at: 0,
        }))
    }

    /// Reads on; false at the end of the directory, or of what can be read of it.
    fn fill(&mut self) -> bool {
        self.bytes.clear();
        self.at = 0;
        system::read_entries(self.file.as_fd(), &mut self.bytes).unwrap_or(false)
    }

    /// The next name in what was read that may be a directory's.
    fn next_directory(&mut self) -> Option<Box<[u8]>> {
        while let Some((entry, next)) = parse(&self.bytes, self.at) {
            self.at = next;
            if entry.may_be_directory && !entry.is_dots() {
                return Some(entry.name.into());
            }
        }
        None
    }
}

/// Reads the export until nothing is wanted any more; ends early with the tree.
fn run(tree: &Weak<Tree>) {
    loop {
        let began = Instant::now();
        let whole = read_all(tree).is_ok();
        let Some(tree) = tree.upgrade() else { return };
        if !tree.end_reading(whole, began) {
            return;
        }
    }
}

fn read_all(tree: &Weak<Tree>) -> Result<()> {
    let still = || tree.upgrade().ok_or(Error::Stale);
    let mut levels = Vec::new();
    let top = still()?;
    top.acting.become_server()?;
    levels.extend(Level::open(&top, &*top.root, b"")?);
    drop(top);
    while let Some(level) = levels.last_mut() {
        let tree = still()?;
        if let Some(name) = level.next_directory() {
            if let Some(below) = tree.enter(level, &name)?
                && levels.len() < DEPTH_MAX
            {
                levels.push(below);
            }
        } else if level.fill() {
            tree.note_entries(&levels)?;
        } else {
            levels.pop();
        }
    }
    Ok(())
}

impl Tree {
    fn enter(&self, level: &Level, name: &[u8]) -> Result<Option<Level>> {
        match self.child_if_any(level.file.as_fd(), name, true)? {
            Some(opened) => Level::open(self, &opened, name),
            None => Ok(None), // gone meanwhile, a mount point, not ours to search
        }
    }

    /// Notes what was just read of the last directory.
    fn note_entries(&self, levels: &[Level]) -> Result<()> {
        let Some(level) = levels.last() else {
            return Ok(());
        };
        let mut found = Vec::new();
        let mut state = self.census.state.lock();
        for (entry, _) in entries(&level.bytes).filter(|(entry, _)| !entry.is_dots()) {
            state.note(level.device, entry.inode);
            if let Some(wanted) = state.wanted.get(&entry.inode) {
                found.push((Box::<[u8]>::from(entry.name), *wanted));
            }
        }
        drop(state);
        for (name, Wanted { id, inode, .. }) in found {
            let opened = self.child_if_any(level.file.as_fd(), &name, true)?;
            let found = opened.map(|opened| self.inode_of(&opened, &Status::of(&opened)?));
            if found == Some(Ok(inode)) {
                let above = levels.iter().skip(1).map(|level| &level.step);
                self.note_path(above, Step { inode, name }, id);
                self.census.state.lock().wanted.remove(&inode.number);
                self.census.changed.notify_all();
            }
        }
        Ok(())
    }
}
