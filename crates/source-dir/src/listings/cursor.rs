//! The place of a listing between two entries.
//!
//! Normally the kernel's `d_off` is the cookie. File systems without lasting positions are known by
//! type, or recognised when the export is opened or at the first unsound chunk; their directories
//! are listed in an order of our own (`ordered`).

use super::kept_names::{Gathered, NameList, Ticket};
use super::ordered::{Ordered, SMALL_BYTES_MAX, Window};
use crate::entries::{BUFFER_BYTES, RawEntry, cookies_are_sound, parse};
use crate::object::{Descriptor, Node, Status, open_directory, settled_times, times_of};
use crate::system::{self, error_of};
use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Result, Timestamp};
use rustix::fs::SeekFrom;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// About 1 MiB with their read-ahead, 16 MiB more if all are of file systems without positions, or
/// of directories with thousands of names.
const LISTINGS_MAX: usize = 64;
/// The next entry of a listing.
enum Position {
    /// At the descriptor's position.
    File(Descriptor),
    /// At the entry of this number.
    Ordered(Arc<Window>, usize),
    /// At this byte.
    Kept(Arc<NameList>, usize),
}

pub(super) enum Filled {
    Entries,
    /// Entries whose positions cannot be cookies.
    Unsound,
    /// Nothing here: the next window begins behind this cookie.
    Further(u64),
    End,
}

pub(super) struct Cursor {
    position: Position,
    cookie: u64,
    bytes: Vec<u8>,
    at: usize,
    /// Times of the directory at that reading; `None`: not to be used later.
    read_when: Option<(Timestamp, Timestamp)>,
    /// All entries from the first name on, if they may be kept.
    gathered: Option<Gathered>,
}

impl Cursor {
    fn new(position: Position, cookie: u64) -> Self {
        Self {
            position,
            cookie,
            bytes: Vec::new(),
            at: 0,
            read_when: None,
            gathered: None,
        }
    }

    pub(super) fn open(directory: BorrowedFd<'_>, cookie: u64) -> Result<Self> {
        let file = open_directory(directory)?;
        if cookie != 0 {
            Error::BadCookie.when(i64::try_from(cookie).is_err())?;
            rustix::fs::seek(&file, SeekFrom::Start(cookie)).map_err(|_| Error::BadCookie)?;
        }
        let mut listing = Self::new(Position::File(Descriptor::new(file)), cookie);
        listing.bytes.reserve_exact(BUFFER_BYTES);
        Ok(listing)
    }

    pub(super) fn of_window(window: Arc<Window>, cookie: u64) -> Self {
        let next = window.behind(cookie);
        Self::new(Position::Ordered(window, next), cookie)
    }

    pub(super) fn of_names(names: Arc<NameList>, cookie: u64) -> Option<Self> {
        let at = names.behind(cookie)?;
        Some(Self::new(Position::Kept(names, at), cookie))
    }

    pub(super) fn after(self, taken: u64) -> Self {
        Self {
            cookie: taken,
            ..self
        }
    }

    pub(super) fn cookie(&self) -> u64 {
        self.cookie
    }

    pub(super) fn gather(&mut self, ticket: Option<Ticket>) {
        self.gathered = ticket.map(Gathered::new);
    }

    pub(super) fn into_gathered(self) -> Option<Gathered> {
        self.gathered
    }

    /// False when `visit` refuses an entry.
    pub(super) fn visit(
        &mut self,
        mut visit: impl FnMut(&RawEntry<'_>) -> Result<bool>,
    ) -> Result<bool> {
        while let Some((entry, next)) = parse(&self.bytes, self.at) {
            if !visit(&entry)? {
                return Ok(false);
            }
            self.at = next;
            self.cookie = entry.cookie;
        }
        self.at = self.bytes.len();
        Ok(true)
    }

    pub(super) fn fill(&mut self) -> Result<Filled> {
        if self.at < self.bytes.len() {
            return Ok(Filled::Entries);
        }
        self.bytes.clear();
        self.at = 0;
        match &mut self.position {
            Position::File(file) => {
                let file = file.file().as_fd();
                if !system::read_entries(file, &mut self.bytes).map_err(error_of)? {
                    return Ok(Filled::End);
                }
                let read = &self.bytes;
                self.gathered = self.gathered.take_if(|all| all.add(read));
                Ok(if cookies_are_sound(&self.bytes) {
                    Filled::Entries
                } else {
                    Filled::Unsound
                })
            }
            Position::Kept(names, next) => {
                let then = names.copy(*next, BUFFER_BYTES, &mut self.bytes);
                *next = then.unwrap_or(*next);
                Ok(then.map_or(Filled::End, |_| Filled::Entries))
            }
            Position::Ordered(window, next) => {
                if let Some(then) = window.copy(*next, BUFFER_BYTES, &mut self.bytes) {
                    *next = then;
                    return Ok(Filled::Entries);
                }
                let further = window.further();
                Ok(further.map_or(Filled::End, |from| Filled::Further(from.max(self.cookie))))
            }
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        matches!(self.position, Position::Kept(..))
    }

    /// Whether the read-ahead is still the directory's content.
    pub(super) fn is_current(&self, status: &Status) -> bool {
        let times = times_of(status);
        match &self.position {
            Position::File(_) => self.at >= self.bytes.len() || self.read_when == Some(times),
            Position::Ordered(window, _) => window.is_current(times),
            Position::Kept(..) => false,
        }
    }

    /// Before and after the reading.
    pub(super) fn note_times(&mut self, before: &Status, after: &Status) {
        self.read_when = settled_times(before, after);
    }

    /// Small enough to be kept for its caller, and not kept anyway.
    fn may_be_left(&self) -> bool {
        match &self.position {
            Position::File(_) => true,
            Position::Ordered(window, _) => window.bytes() <= SMALL_BYTES_MAX,
            Position::Kept(..) => false,
        }
    }
}

#[derive(Default)]
pub(crate) struct OpenListings {
    /// Oldest first.
    left: Mutex<VecDeque<(Node, Cursor)>>,
    ordered: Ordered,
}

impl OpenListings {
    pub(super) fn ordered(&self) -> &Ordered {
        &self.ordered
    }

    /// The listing that continues behind the entry of `cookie`.
    pub(super) fn take(&self, node: Node, cookie: u64) -> Option<Cursor> {
        let mut left = self.left.lock();
        let found = left
            .iter()
            .position(|(at, listing)| *at == node && listing.cookie == cookie)?;
        left.remove(found).map(|(_, listing)| listing)
    }

    pub(super) fn leave(&self, node: Node, listing: Cursor) {
        if !listing.may_be_left() {
            return;
        }
        let mut left = self.left.lock();
        left.push_back((node, listing));
        let oldest = (left.len() > LISTINGS_MAX).then(|| left.pop_front());
        drop(left);
        drop(oldest);
    }

    pub(crate) fn forget_all(&self) {
        self.left.lock().clear();
        self.ordered.forget_all();
    }

    pub(crate) fn forget(&self, node: Node) {
        self.left.lock().retain(|(at, _)| *at != node);
        self.ordered.forget(node);
    }
}
