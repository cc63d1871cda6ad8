//! READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17).
//!
//! The client's limits count XDR bytes of the result, so an entry is written and taken back if it
//! does not fit. The cookie verifier is always zero and never compared: cookies survive changes of
//! the directory, and refusing them breaks clients that cannot start over.
//!
//! READDIRPLUS may omit attributes and handles, but some clients need them. If a source lists names
//! only (a server without READDIRPLUS, exported again), each name is looked up; exports below the
//! pseudo root are not, as clients look them up themselves.

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    Handle, ReaddirArguments, ReaddirEntry, ReaddirOk, ReaddirPlusArguments, ReaddirPlusEntry,
    Status, TAIL_SIZE,
};
use pagewell_sunrpc::xdr::{Encode, Encoder, encode_item};

use crate::convert::{WireIdentity, WireTarget};
use crate::handler::{Abort, LISTING_BYTES_MAX, Nfs3Handler};
use pagewell_export::exports::Target;
use pagewell_rpcd::call::Done;

/// A present `post_op_attr` and the verifier, before the first entry.
const HEAD_BYTES: usize = 96;

/// Names looked up for one page, to bound its time.
const LOOKUPS_MAX: usize = 128;

/// The request.
struct Wanted {
    /// Starts behind this entry.
    cookie: u64,
    with_attributes: bool,
    /// Most bytes of the result.
    bytes: u32,
    /// Most bytes of names, file numbers and cookies.
    directory_bytes: u32,
}

/// A result being written, and the rest of the client's limits.
struct Page<'b> {
    bytes: &'b mut Vec<u8>,
    /// It has an entry.
    begun: bool,
    left: usize,
    directory_left: usize,
}

impl Page<'_> {
    /// Writes an entry if it fits, and returns whether it did. The limit of directory bytes is a
    /// hint (RFC 1813 section 3.3.17): one entry may always exceed it.
    fn put(&mut self, entry: &impl Encode, directory_bytes: usize) -> bool {
        let start = self.bytes.len();
        encode_item(&mut Encoder::new(self.bytes), entry);
        let bytes = self.bytes.len() - start;
        if bytes > self.left || (self.begun && directory_bytes > self.directory_left) {
            self.bytes.truncate(start);
            return false;
        }
        self.left -= bytes;
        self.directory_left = self.directory_left.saturating_sub(directory_bytes);
        self.begun = true;
        true
    }
}

pub(super) fn readdir(
    handler: &mut Nfs3Handler<'_>,
    arguments: ReaddirArguments<'_>,
) -> Result<Done, Abort> {
    let target = handler.target(arguments.directory)?;
    let wanted = Wanted {
        cookie: arguments.cookie,
        with_attributes: false,
        bytes: arguments.count,
        directory_bytes: u32::MAX,
    };
    list(handler, &target, &wanted, |entry, page| {
        let item = ReaddirEntry {
            file_id: target.export.identity.file_id(entry.file_id),
            name: entry.name,
            cookie: entry.cookie,
        };
        page.put(&item, 0)
    })
}

pub(super) fn readdirplus(
    handler: &mut Nfs3Handler<'_>,
    arguments: ReaddirPlusArguments<'_>,
) -> Result<Done, Abort> {
    let target = handler.target(arguments.directory)?;
    let served = handler.served();
    let wanted = Wanted {
        cookie: arguments.cookie,
        with_attributes: true,
        bytes: arguments.count_max,
        directory_bytes: arguments.directory_count,
    };
    list(handler, &target, &wanted, |entry, page| {
        let identity = &target.export.identity;
        let object = entry.entry.as_ref();
        let wire = object.map(|object| served.handle(target.export, &object.id));
        let item = ReaddirPlusEntry {
            file_id: identity.file_id(entry.file_id),
            name: entry.name,
            cookie: entry.cookie,
            attributes: object.map(|object| identity.attributes(&object.attributes)),
            handle: wire.as_ref().and_then(|wire| Handle::new(wire.as_bytes())),
        };
        page.put(&item, item.directory_size())
    })
}

/// Lists into the reply; `write` puts an entry into the page if it fits. Pages shorten with the
/// memory for replies.
fn list(
    handler: &mut Nfs3Handler<'_>,
    target: &Target<'_>,
    wanted: &Wanted,
    write: impl FnMut(&fs::DirectoryEntry<'_>, &mut Page<'_>) -> bool,
) -> Result<Done, Abort> {
    let unsent = &handler.served().totals.unsent;
    let bytes = handler.bytes();
    let start = bytes.len();
    let page = Page {
        bytes,
        begun: false,
        left: unsent.page_bytes((wanted.bytes as usize).min(LISTING_BYTES_MAX)),
        directory_left: wanted.directory_bytes as usize,
    };
    let listed = list_into(target, wanted, page, write);
    if listed == Ok(true) {
        return Ok(Done::default());
    }
    handler.bytes().truncate(start);
    match listed {
        Ok(_) => Err(Abort::Status(Status::TooSmall)),
        Err(error) => handler.fail(target, error, |_| target.attributes_now()),
    }
}

/// Looks up a name that was listed alone. `None`: it is gone, or hidden from this caller.
fn look_up(target: &Target<'_>, name: &[u8]) -> fs::Result<Option<fs::Entry>> {
    let found = target.filesystem().lookup(&target.call(), &target.id, name);
    match found {
        Err(reason @ fs::Error::WouldBlock) => Err(reason),
        found => Ok(found.ok()),
    }
}

/// Narrows an entry's cookie if the export asks for it.
fn narrowed(target: &Target<'_>, entry: &mut fs::DirectoryEntry<'_>) -> fs::Result<()> {
    if target.export.config.cookies_32bit {
        entry.cookie = target
            .export
            .narrow_cookies()
            .narrow(&target.id, entry.cookie)?;
    }
    Ok(())
}

/// Writes the result. False: the client's limits are too small.
fn list_into(
    target: &Target<'_>,
    wanted: &Wanted,
    mut page: Page<'_>,
    mut write: impl FnMut(&fs::DirectoryEntry<'_>, &mut Page<'_>) -> bool,
) -> fs::Result<bool> {
    Status::Ok.encode(&mut Encoder::new(page.bytes));
    // The attributes come after the listing: leave a gap.
    let attributes_at = page.bytes.len();
    page.bytes.resize(attributes_at + HEAD_BYTES, 0);
    let Some(left) = page.left.checked_sub(HEAD_BYTES + TAIL_SIZE) else {
        return Ok(false);
    };
    page.left = left;
    let cookie = if target.export.config.cookies_32bit {
        let wide = target
            .export
            .narrow_cookies()
            .widen(&target.id, wanted.cookie);
        wide.ok_or(fs::Error::BadCookie)?
    } else {
        wanted.cookie
    };
    let mut refused = false;
    let mut stopped = None;
    let mut lookups = 0;
    let mut visit = |entry: &fs::DirectoryEntry<'_>| {
        let mut entry = *entry;
        if wanted.with_attributes && entry.entry.is_none() && target.pseudo_tree.is_none() {
            if lookups == LOOKUPS_MAX {
                return false;
            }
            lookups += 1;
            match look_up(target, entry.name) {
                Ok(found) => entry.entry = found,
                Err(reason) => {
                    stopped = Some(reason);
                    return false;
                }
            }
        }
        if let Err(reason) = narrowed(target, &mut entry) {
            stopped = Some(reason);
            return false;
        }
        let fits = write(&entry, &mut page);
        refused |= !fits;
        fits
    };
    let listed = target.filesystem().read_directory(
        &target.call(),
        &target.id,
        cookie,
        wanted.with_attributes,
        &mut visit,
    )?;
    if !page.begun && refused {
        return Ok(false);
    }
    let is_whole = |reason: &fs::Error| page.begun && *reason != fs::Error::WouldBlock;
    if let Some(reason) = stopped.filter(|reason| !is_whole(reason)) {
        return Err(reason);
    }
    ReaddirOk::encode_tail(&mut Encoder::new(page.bytes), listed.end);
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let attributes = target.export.identity.attributes(&listed.attributes);
    ReaddirOk::encode_head(&mut Encoder::new(&mut head), &Some(attributes), &[0; 8]);
    page.bytes[attributes_at..attributes_at + HEAD_BYTES].copy_from_slice(&head);
    Ok(true)
}
