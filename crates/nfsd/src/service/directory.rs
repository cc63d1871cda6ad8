//! READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17).
//!
//! The client's limits count XDR bytes of the result, so the size of an entry is known before it
//! is written. The cookie verifier is always zero and never compared: cookies stay valid when
//! the directory changes, and servers that refuse a listing because the directory changed break
//! clients that cannot start over.

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    Handle, ReaddirArguments, ReaddirEntry, ReaddirFailure, ReaddirOk, ReaddirPlusArguments,
    ReaddirPlusEntry, ReaddirPlusOk, ReaddirPlusReply, ReaddirReply, Status,
};
use pagewell_sunrpc::xdr::{Encode, Encoder};

use crate::service::call::{Done, Out};
use crate::service::exports::{Caller, Served, Stop, Target};

/// A longer reply is not given, whatever the client allows: it would hold a thread too long.
pub(super) const REPLY_BYTES_MAX: usize = 256 << 10;

/// Bytes after the last entry: the end of the list and the end flag.
const TAIL_BYTES: usize = 8;

/// What is left of the client's limits.
struct Remaining {
    /// Whether attributes and handles are wanted.
    with_attributes: bool,
    /// Whether an entry was taken.
    begun: bool,
    /// Bytes of the whole result.
    bytes: usize,
    /// Bytes of names, file numbers and cookies.
    directory_bytes: usize,
}

impl Remaining {
    /// Takes what an entry needs, if there is enough. The limit on directory bytes is a hint
    /// (RFC 1813 section 3.3.17): one entry may always exceed it.
    fn take(&mut self, bytes: usize, directory_bytes: usize) -> bool {
        if bytes > self.bytes || (self.begun && directory_bytes > self.directory_bytes) {
            return false;
        }
        self.bytes -= bytes;
        self.directory_bytes = self.directory_bytes.saturating_sub(directory_bytes);
        self.begun = true;
        true
    }
}

/// Writes one entry, with its object if asked for, when it fits; says whether it did.
trait WriteEntry:
    FnMut(Option<&fs::Entry>, &fs::DirectoryEntry<'_>, &mut Remaining, &mut Vec<u8>) -> bool
{
}

impl<F> WriteEntry for F where
    F: FnMut(Option<&fs::Entry>, &fs::DirectoryEntry<'_>, &mut Remaining, &mut Vec<u8>) -> bool
{
}

impl Served {
    pub(super) fn readdir(
        &self,
        caller: &Caller,
        arguments: ReaddirArguments<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let target = self.target(caller, arguments.directory)?;
        let bytes = self.page_bytes(arguments.count);
        let remaining = Remaining {
            with_attributes: false,
            begun: false,
            bytes,
            directory_bytes: usize::MAX,
        };
        let listed = self.list(
            &target,
            arguments.cookie,
            remaining,
            out,
            |_, entry, remaining, bytes| {
                let item = ReaddirEntry {
                    file_id: target.export.identity.file_id(entry.file_id),
                    name: entry.name,
                    cookie: entry.cookie,
                };
                let taken = remaining.take(item.item_size(), 0);
                if taken {
                    item.encode_item(&mut Encoder::new(bytes));
                }
                taken
            },
        );
        match listed {
            Ok(done) => Ok(done),
            Err(error) => {
                let body = || ReaddirFailure {
                    directory_attributes: target.attributes_now(),
                };
                let reply: ReaddirReply<'_> = failed_listing(&target, &error, body)?;
                out.put(reply)
            }
        }
    }

    pub(super) fn readdirplus(
        &self,
        caller: &Caller,
        arguments: ReaddirPlusArguments<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let target = self.target(caller, arguments.directory)?;
        let bytes = self.page_bytes(arguments.count_max);
        let directory_bytes = arguments.directory_count as usize;
        let remaining = Remaining {
            with_attributes: true,
            begun: false,
            bytes,
            directory_bytes,
        };
        let listed = self.list(
            &target,
            arguments.cookie,
            remaining,
            out,
            |plus, entry, remaining, bytes| {
                let identity = &target.export.identity;
                let wire = plus.map(|object| self.handle(target.export, &object.id));
                let item = ReaddirPlusEntry {
                    file_id: identity.file_id(entry.file_id),
                    name: entry.name,
                    cookie: entry.cookie,
                    attributes: plus.map(|object| identity.attributes(&object.attributes)),
                    handle: wire.as_ref().and_then(|wire| Handle::new(wire.as_bytes())),
                };
                let taken = remaining.take(item.item_size(), item.directory_size());
                if taken {
                    item.encode_item(&mut Encoder::new(bytes));
                }
                taken
            },
        );
        match listed {
            Ok(done) => Ok(done),
            Err(error) => {
                let body = || ReaddirFailure {
                    directory_attributes: target.attributes_now(),
                };
                let reply: ReaddirPlusReply<'_> = failed_listing(&target, &error, body)?;
                out.put(reply)
            }
        }
    }

    /// How long a page may be that a client gives `count` bytes: the less memory there is for
    /// replies, the shorter.
    fn page_bytes(&self, count: u32) -> usize {
        let wanted = (count as usize).min(REPLY_BYTES_MAX);
        self.unsent.page_bytes(wanted)
    }

    /// Lists into the reply; `write` writes one entry if it fits. The two results differ
    /// only in their entries.
    fn list(
        &self,
        target: &Target<'_>,
        cookie: u64,
        remaining: Remaining,
        out: &mut Out<'_>,
        write: impl WriteEntry,
    ) -> Result<Done, ListError> {
        let bytes = out.batch.bytes();
        let start = bytes.len();
        let result = list_into(target, cookie, remaining, bytes, write);
        if result.is_err() {
            bytes.truncate(start);
        }
        result.map(|()| Done {
            failed: false,
            sent_bytes: None,
        })
    }
}

fn list_into(
    target: &Target<'_>,
    cookie: u64,
    mut remaining: Remaining,
    bytes: &mut Vec<u8>,
    mut write: impl WriteEntry,
) -> Result<(), ListError> {
    let plus = remaining.with_attributes;
    Status::Ok.encode(&mut Encoder::new(bytes));
    // The attributes are known after the listing; their bytes are kept free.
    let attributes_at = bytes.len();
    bytes.resize(attributes_at + HEAD_BYTES, 0);
    remaining.bytes = remaining
        .bytes
        .checked_sub(HEAD_BYTES + TAIL_BYTES)
        .ok_or(ListError::TooSmall)?;
    let narrow = target.export.config.cookies_32bit;
    let cookies = &target.export.narrow_cookies;
    let cookie = if narrow {
        let wide = cookies.widen(&target.id, cookie);
        wide.ok_or(ListError::Failed(fs::Error::BadCookie))?
    } else {
        cookie
    };
    let mut refused = false;
    let mut too_many = None;
    let mut visit = |entry: &fs::DirectoryEntry<'_>| {
        let shown = if narrow {
            match cookies.narrow(&target.id, entry.cookie) {
                Ok(number) => number,
                Err(reason) => {
                    too_many = Some(reason);
                    return false;
                }
            }
        } else {
            entry.cookie
        };
        let entry = fs::DirectoryEntry {
            cookie: shown,
            ..*entry
        };
        let fits = write(entry.entry.as_ref(), &entry, &mut remaining, bytes);
        refused |= !fits;
        fits
    };
    let filesystem = target.filesystem();
    let page = filesystem.read_directory(&target.call(), &target.id, cookie, plus, &mut visit)?;
    if !remaining.begun && refused {
        return Err(ListError::TooSmall);
    }
    if let Some(reason) = too_many.filter(|_| !remaining.begun) {
        return Err(ListError::Failed(fs::Error::Io(reason.to_string())));
    }
    ReaddirPlusOk::encode_tail(&mut Encoder::new(bytes), page.end);
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let attributes = target.export.identity.attributes(&page.attributes);
    ReaddirOk::encode_head(&mut Encoder::new(&mut head), &Some(attributes), &[0; 8]);
    bytes[attributes_at..attributes_at + HEAD_BYTES].copy_from_slice(&head);
    Ok(())
}

/// Before the first entry: a present `post_op_attr` and the verifier.
const HEAD_BYTES: usize = 96;

enum ListError {
    TooSmall,
    Failed(fs::Error),
}

impl From<fs::Error> for ListError {
    fn from(error: fs::Error) -> Self {
        Self::Failed(error)
    }
}

fn failed_listing<T, F>(
    target: &Target<'_>,
    error: &ListError,
    body: impl FnOnce() -> F,
) -> Result<pagewell_sunrpc::nfs3::Reply<T, F>, Stop> {
    match error {
        ListError::TooSmall => Err(Stop::Status(Status::TooSmall)),
        ListError::Failed(error) => target.failed(error, body),
    }
}
