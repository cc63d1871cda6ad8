//! One remote object: what is known of it, and what was not sent to the server yet.
//!
//! **Which attributes are the newest.** Answers overtake each other. Calls, when sent, and
//! attributes, when believed, get a moment from one clock of the mount. A call sent after the
//! moment of the attributes is newer; one on its way then only if its times say so. As the server's
//! clock may tick slowly, the larger of two files with equal times counts as newer. Times can be
//! set to the past: what was on its way when attributes were set, the length among them, is
//! ignored.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pagewell_base::sync::{Mutex, MutexGuard, RwLock};
use pagewell_cache::CachedObject;
use pagewell_fs::{
    Access, Attributes, Credentials, Error, FileId, Result, Timestamp, WccAttributes,
};
use pagewell_source_bytes::Bytes;
use pagewell_sunrpc::client::EncodedCredential;

use super::attributes::{Consistency, Length, Moment, Reported, Stamp, Verdict, newness};
use super::failures::Failures;
use super::silly::Silly;

/// Of a symbolic link that is remembered.
const LINK_BYTES_MAX: usize = 256;
/// Of each object.
const ACCESS_MAX: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Granted {
    credentials: Credentials,
    granted: Access,
    /// Of the object, when it was asked for.
    of: Rights,
    /// The end of belief: other causes (the groups of users, say) show nowhere.
    until: Instant,
}

/// What decides about access: mode, owner and group, and the changes by others, perhaps of an
/// access control list.
pub(super) type Rights = ((u32, u32, u32), u64);

#[derive(Clone, Debug)]
pub(super) struct User {
    pub credentials: Credentials,
    pub encoded: EncodedCredential,
}

impl Uncommitted {
    pub(super) fn new(verifier: [u8; 8]) -> Self {
        let differs = false;
        Self { verifier, differs }
    }
}

impl User {
    pub(super) fn is(user: Option<&Arc<Self>>, credentials: &Credentials) -> bool {
        user.is_some_and(|user| user.credentials == *credentials)
    }
}

fn mode_and_owner(attributes: &Attributes) -> (u32, u32, u32) {
    (attributes.mode, attributes.uid, attributes.gid)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uncommitted {
    /// That of the first.
    pub verifier: [u8; 8],
    /// A later one was different: the server has forgotten what was before.
    pub differs: bool,
}

/// A state of a file, and the number of our changes then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    pub state: WccAttributes,
    pub file_id: u64,
    own_changes: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    believed: Option<(Attributes, Instant)>,
    /// When they were believed, and when their call was sent.
    at: Moment,
    sent: Moment,
    /// The user that made it here, and the owner from the server.
    maker: Option<(u32, u32)>,
    /// When its attributes were set: older reports are ignored.
    set_at: Moment,
    /// When a change of ours was answered without attributes: what was on its way then may be of
    /// before or after.
    unreported_at: Moment,
    consistency: Consistency,
    /// Changes by other clients.
    changes: u64,
    /// As a file: another client may have changed it beside us.
    is_in_question: bool,
    /// [`Self::changes`] when the cached data was right.
    data_changes: u64,
    /// [`Self::changes`] at the last open.
    changes_at_open: Option<u64>,
    /// Changes of names in it by us, begun or ended.
    own_changes: u64,
    length: Length,
    /// READs that met an unknown end, without attributes.
    unexpected_ends: u64,
    /// Data was read or written, and may be cached.
    has_data: bool,
    /// Reads of its data on their way.
    readers: u32,
    uncommitted: Option<Uncommitted>,
    failures: Failures,
    /// Writes that the server has refused for good.
    losses: u64,
    /// The last reader: see [`Self::reads_for`].
    reader: Option<Arc<User>>,
    /// Wrote all of it that may not be safe at the server.
    writer: Option<Arc<User>>,
    access: Vec<Granted>,
    /// As a symbolic link: its target, and its time of change then.
    link: Option<Box<(Timestamp, Box<[u8]>)>>,
    opens: u32,
    /// Its last name is gone: unwritten data is no loss.
    is_removed: bool,
    silly: Option<Box<Silly>>,
    cookie_verifier: [u8; 8],
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Node {
    id: FileId,
    number: u64,
    data: RwLock<()>,
    state: Mutex<State>,
    bytes: OnceLock<Bytes>,
}

impl Node {
    pub(super) fn new(id: FileId, number: u64) -> Self {
        Self {
            id,
            number,
            data: RwLock::new(()),
            state: Mutex::default(),
            bytes: OnceLock::new(),
        }
    }

    pub(super) fn id(&self) -> &FileId {
        &self.id
    }

    /// Unique, also among nodes of one handle at different times.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Held while its data is changed: see [`super::data`].
    pub(super) fn data(&self) -> &RwLock<()> {
        &self.data
    }

    /// Its data in the page cache, once read or written.
    pub(super) fn object(&self) -> Option<&CachedObject> {
        self.bytes.get().map(Bytes::object)
    }

    /// Its data in the page cache; `open` opens it once.
    pub(super) fn bytes(&self, open: impl FnOnce() -> Bytes) -> &Bytes {
        self.bytes.get_or_init(open)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether nothing depends on it: no data in memory, and none unsafe at the server.
    pub(super) fn may_be_forgotten(&self) -> bool {
        let has_pages = self.object().is_some_and(CachedObject::has_pages);
        !has_pages && !self.lock().is_uncommitted()
    }

    /// Takes attributes from a call that changed nothing. Those of another object make the handle
    /// stale.
    pub(super) fn look(&self, reported: &Reported) -> Result<()> {
        let mut state = self.lock();
        if state.is_another(reported) {
            return Err(Error::Stale);
        }
        if state.take(reported) {
            let verdict = state.consistency.look(reported.attributes.wcc());
            state.judge(verdict);
        }
        Ok(())
    }

    /// A call that changes it is sent.
    pub(super) fn begin_change(&self) -> Stamp {
        let mut state = self.lock();
        state.own_changes += 1;
        state.consistency.begin();
        state.stamp()
    }

    /// The call was answered now, with these states as far as reported. Returns the attributes
    /// after it, if reported and nothing newer is known, or stale as in [`Self::look`]; and the
    /// stamp.
    pub(super) fn end_change(
        &self,
        before: Option<WccAttributes>,
        reported: Option<&Reported>,
        now: Moment,
    ) -> (Result<Option<Attributes>>, Stamp) {
        let mut state = self.lock();
        state.own_changes += 1;
        let mut is_true = false;
        if let Some(reported) = reported {
            if state.is_another(reported) {
                state.consistency.end(None, None);
                return (Err(Error::Stale), state.stamp());
            }
            is_true = state.take(reported) && reported.sent > state.unreported_at;
        } else {
            state.unreported_at = now;
            state.doubt();
        }
        let after = reported.map(|reported| reported.attributes.wcc());
        let verdict = state.consistency.end(before, after);
        state.judge(verdict);
        let after = state.known().filter(|_| is_true);
        (Ok(after), state.stamp())
    }

    pub(super) fn end_unanswered(&self, now: Moment) {
        let _ = self.end_change(None, None, now);
    }

    /// We have made, moved or removed a name of it.
    pub(super) fn excuse(&self) {
        let mut state = self.lock();
        state.consistency.excuse();
        state.doubt();
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.lock().stamp()
    }
}

impl State {
    fn stamp(&self) -> Stamp {
        Stamp {
            changes: self.changes,
            own_changes: self.own_changes,
        }
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn length(&self) -> &Length {
        &self.length
    }

    pub(super) fn length_mut(&mut self) -> &mut Length {
        &mut self.length
    }

    pub(super) fn cookie_verifier(&self) -> [u8; 8] {
        self.cookie_verifier
    }

    pub(super) fn set_cookie_verifier(&mut self, verifier: [u8; 8]) {
        self.cookie_verifier = verifier;
    }

    fn is_another(&self, reported: &Reported) -> bool {
        let reported = &reported.attributes;
        self.believed
            .is_some_and(|(known, _)| known.file_type != reported.file_type)
    }

    /// Believes attributes if they are the newest, and returns whether.
    fn take(&mut self, reported: &Reported) -> bool {
        if let Some((known, _)) = &self.believed {
            let newer = newness(&reported.attributes.wcc()) > newness(&known.wcc());
            if reported.sent <= self.set_at {
                // It may be news all the same.
                if newer {
                    self.doubt();
                }
                return false;
            }
            if reported.sent <= self.at && !newer {
                if mode_and_owner(known) != mode_and_owner(&reported.attributes) {
                    // Within one tick the order is unknown.
                    self.doubt();
                }
                return false;
            }
        }
        let is_of_now = reported.sent > self.unreported_at;
        let until = if is_of_now {
            reported.until
        } else {
            Instant::now()
        };
        self.believed = Some((reported.attributes, until));
        self.at = reported.answered;
        self.sent = reported.sent;
        self.length.reported(reported.attributes.size);
        true
    }

    fn judge(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Ours => {}
            Verdict::Unknown if !self.is_directory() => self.is_in_question = true,
            Verdict::Theirs | Verdict::Unknown => self.changed_by_others(),
        }
    }

    pub(super) fn changed_by_others(&mut self) {
        self.changes += 1;
    }

    pub(super) fn is_directory(&self) -> bool {
        let known = self.believed.as_ref();
        known.is_some_and(|(known, _)| known.file_type.is_directory())
    }

    /// Counts what another client may have changed as changed. Not at once, as a program's writes
    /// would slow down its reads, but when a program opens the file, or belief has ended.
    pub(super) fn end_question(&mut self) {
        if std::mem::take(&mut self.is_in_question) {
            self.changed_by_others();
        }
    }

    /// Whether the author of a change is unknown yet.
    pub(super) fn is_undecided(&self) -> bool {
        self.consistency.is_undecided()
    }

    /// What is known of it, believed or not. It lacks the times of unanswered writes: then, and
    /// without belief, a front must not keep it.
    pub(super) fn known(&self) -> Option<Attributes> {
        let (mut attributes, until) = self.believed?;
        let lacks_writes =
            self.length.is_dirty() || self.uncommitted.is_some_and(|one| one.differs);
        attributes.may_be_kept =
            !lacks_writes && !self.consistency.is_changing() && Instant::now() < until;
        attributes.size = self.length.get();
        if self.silly.is_some() {
            // Its name is not one that a program gave it.
            attributes.link_count = attributes.link_count.saturating_sub(1);
        }
        Some(attributes)
    }

    /// The newest known state, where no call of ours may have made another since, and all of the
    /// file is safe at the server.
    pub(super) fn quiet(&self) -> Option<Quiet> {
        let (known, _) = self.believed?;
        let is_of_now = self.sent > self.unreported_at.max(self.set_at);
        let is_reported = is_of_now && !self.consistency.is_changing();
        (is_reported && !self.is_uncommitted()).then(|| Quiet {
            state: known.wcc(),
            file_id: known.file_id,
            own_changes: self.own_changes,
        })
    }

    /// Whether no call of ours was to change it since.
    pub(super) fn is_quiet_since(&self, quiet: &Quiet) -> bool {
        self.own_changes == quiet.own_changes
    }

    /// What is left of an open directory without a name.
    pub(super) fn remains(&self) -> Option<Attributes> {
        let (attributes, _) = self.believed.filter(|_| self.is_removed)?;
        attributes.file_type.is_directory().then_some(Attributes {
            link_count: 0,
            may_be_kept: false,
            ..attributes
        })
    }

    pub(super) fn believed(&self) -> Option<Attributes> {
        let (_, until) = self.believed?;
        (Instant::now() < until).then(|| self.known()).flatten()
    }

    /// Ends belief.
    pub(super) fn doubt(&mut self) {
        if let Some((_, until)) = &mut self.believed {
            *until = Instant::now();
        }
    }

    /// Attributes of it were set at the server, and reported with the answer or not.
    pub(super) fn was_set(&mut self, now: Moment, is_reported: bool) {
        self.set_at = now;
        if !is_reported {
            self.doubt();
        }
    }

    pub(super) fn cut(&mut self, size: u64, now: Moment) {
        self.set_at = now;
        self.length.cut(size);
        if let Some((attributes, _)) = &mut self.believed {
            attributes.size = size;
        }
    }

    /// A program has opened it. Whether only we have changed it since the last open.
    pub(super) fn open(&mut self) -> bool {
        self.opens += 1;
        self.changes_at_open.replace(self.changes) == Some(self.changes)
    }

    /// A program has closed it. Returns the hidden name at the last close.
    pub(super) fn close(&mut self) -> Option<Box<Silly>> {
        self.opens = self.opens.saturating_sub(1);
        let is_last = self.opens == 0;
        // As a directory without a name.
        self.is_removed &= !(is_last && self.is_directory());
        self.silly.take_if(|_| is_last)
    }

    pub(super) fn opens(&self) -> u32 {
        self.opens
    }

    /// Its name is gone. An open directory stays, empty.
    pub(super) fn outlive(&mut self) {
        self.is_removed |= self.is_directory() && self.opens > 0;
    }

    /// Its last name is gone: unwritten data is dropped.
    pub(super) fn was_removed(&mut self) {
        self.is_removed = true;
        self.uncommitted = None;
    }

    /// Whether its last name was moved because it is open.
    pub(super) fn is_hidden(&self) -> bool {
        self.silly.is_some()
    }

    /// Its last name was moved to a hidden one.
    pub(super) fn hide(&mut self, silly: Box<Silly>) {
        self.silly = Some(silly);
    }

    pub(super) fn take_hidden(&mut self) -> Option<Box<Silly>> {
        self.silly.take()
    }

    /// Counts a read by this user, for which data is read from here on. Returns earlier
    /// [`Self::unexpected_ends`].
    pub(super) fn begin_read(
        &mut self,
        credentials: &Credentials,
        user: impl FnOnce() -> Arc<User>,
    ) -> u64 {
        self.use_data();
        self.readers += 1;
        if !User::is(self.reader.as_ref(), credentials) {
            self.reader = Some(user());
        }
        self.unexpected_ends
    }

    pub(super) fn end_read(&mut self) {
        self.readers = self.readers.saturating_sub(1);
    }

    pub(super) fn unexpected_ends(&self) -> u64 {
        self.unexpected_ends
    }

    pub(super) fn met_unexpected_end(&mut self) {
        self.unexpected_ends += 1;
        self.doubt();
    }

    /// Whether data may be read again for a write, after this many refused users.
    pub(super) fn may_read_for_a_write(&self, refusals: usize) -> bool {
        self.readers == 0 && self.writer.is_some() && self.reads_for(refusals).is_some()
    }

    /// Whether all data that may not be safe was written by this user, which writes now.
    pub(super) fn begin_write(
        &mut self,
        credentials: &Credentials,
        user: impl FnOnce() -> Arc<User>,
    ) -> bool {
        self.use_data();
        let writer = self.writer.get_or_insert_with(user);
        User::is(Some(writer), credentials)
    }

    pub(super) fn writer(&self) -> Option<&Arc<User>> {
        self.writer.as_ref()
    }

    pub(super) fn set_writer(&mut self, writer: Arc<User>) {
        self.writer = Some(writer);
    }

    /// The server has taken an unstable write with this verifier, the first of whose request had
    /// `first`.
    pub(super) fn took_unstable(&mut self, first: [u8; 8], verifier: [u8; 8]) {
        let known = self.uncommitted.get_or_insert(Uncommitted::new(verifier));
        known.differs |= first != verifier || known.verifier != verifier;
    }

    pub(super) fn take_uncommitted(&mut self) -> Option<Uncommitted> {
        self.uncommitted.take()
    }

    /// Notes that the server has refused a write for good. Whether that is a loss.
    pub(super) fn write_failed(&mut self, error: Error) -> bool {
        if self.is_removed {
            return false;
        }
        self.losses += 1;
        let writer = self.writer.as_ref();
        let user = writer.map_or_else(Credentials::root, |writer| writer.credentials.clone());
        self.failures.note(user, error);
        self.doubt();
        true
    }

    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    pub(super) fn failures(&self) -> &Failures {
        &self.failures
    }

    pub(super) fn failures_mut(&mut self) -> &mut Failures {
        &mut self.failures
    }

    pub(super) fn forgot_refused(&mut self) {
        if self.failures.left_cache() {
            self.changes += 1;
            self.data_changes = self.changes;
            self.doubt();
        }
    }

    /// Whether some of its data may not be safe at the server yet.
    pub(super) fn is_uncommitted(&self) -> bool {
        self.length.is_uncommitted() || self.uncommitted.is_some()
    }

    /// The user that data is read for after this many refusals: the last reader, the writer (for
    /// writes of parts of pages), then (`None`) the process.
    pub(super) fn reads_for(&self, refusals: usize) -> Option<&Arc<User>> {
        let users = [&self.reader, &self.writer];
        users.into_iter().flatten().nth(refusals)
    }

    /// What is cached from now on is of the state that is known now.
    fn use_data(&mut self) {
        if !std::mem::replace(&mut self.has_data, true) {
            self.data_changes = self.changes;
        }
    }

    /// Data cached after this many changes was discarded.
    pub(super) fn threw_away(&mut self, changes: u64) {
        self.data_changes = changes;
    }

    /// Whether another client has changed what is cached.
    pub(super) fn is_outdated(&self) -> bool {
        self.has_data && self.data_changes != self.changes
    }

    /// The target of a symbolic link, if believed.
    pub(super) fn link(&self) -> Option<(Vec<u8>, Attributes)> {
        let believed = self.believed()?;
        let (changed, target) = self.link.as_deref()?;
        (*changed == believed.changed).then(|| (target.to_vec(), believed))
    }

    pub(super) fn keep_link(&mut self, target: &[u8], attributes: &Attributes) {
        if target.len() <= LINK_BYTES_MAX {
            self.link = Some(Box::new((attributes.changed, target.into())));
        }
    }

    /// The handle is another link's.
    pub(super) fn forget_link(&mut self) {
        self.link = None;
    }

    pub(super) fn made(&mut self, credentials: &Credentials, attributes: &Attributes) {
        self.maker = Some((credentials.uid, attributes.uid));
    }

    /// Whether a user made it here, and so owns it even where the server knows the user by another
    /// number (root squash).
    pub(super) fn is_made_by(&self, credentials: &Credentials, attributes: &Attributes) -> bool {
        self.maker == Some((credentials.uid, attributes.uid))
    }

    /// What a user may do, if that was asked and is believed.
    pub(super) fn granted(&self, credentials: &Credentials) -> Option<Access> {
        self.believed()?;
        let of = self.rights()?;
        let mut known = self.access.iter();
        let found = known.find(|one| one.credentials == *credentials && one.of == of)?;
        (Instant::now() < found.until).then_some(found.granted)
    }

    pub(super) fn rights(&self) -> Option<Rights> {
        let (attributes, _) = self.believed.as_ref()?;
        Some((mode_and_owner(attributes), self.changes))
    }

    /// Remembers all that a user may do, asked when the object had these rights; believed as long
    /// as attributes.
    pub(super) fn grant(&mut self, credentials: &Credentials, granted: Access, of: Option<Rights>) {
        let (Some(of), Some((_, until))) = (of, self.believed) else {
            return;
        };
        self.access.retain(|one| one.credentials != *credentials);
        if self.access.len() == ACCESS_MAX {
            self.access.remove(0);
        }
        // Most objects have one user.
        self.access.reserve_exact(1);
        self.access.push(Granted {
            credentials: credentials.clone(),
            granted,
            of,
            until,
        });
    }
}

#[cfg(test)]
mod tests;
