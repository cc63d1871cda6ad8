//! What a mover of a directory wants: written before the first copy and deleted behind the last, so
//! that each intent in a bucket names a move that is not at its end.

use pagewell_object_client::{Bytes, Condition, Error as RemoteError, ListQuery, Metadata, Remote};

use super::failure::Failure;
use super::file::Mover;
use crate::identifier::hash_of;

/// Below the root of the export.
const FOLDER: &str = ".pagewell/moves/";
const BYTES_MAX: u64 = 2_100;
const COUNT_MAX: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    pub from: String,
    pub to: String,
}

impl Intent {
    fn key(&self, root: &str) -> String {
        let bytes = hash_of(&self.text()).bytes();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{root}{FOLDER}{digits}")
    }

    /// The length of `from` in a line, and both.
    fn text(&self) -> String {
        let Self { from, to } = self;
        format!("{}\n{from}{to}", from.len())
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (length, keys) = std::str::from_utf8(text).ok()?.split_once('\n')?;
        let (from, to) = keys.split_at_checked(length.parse().ok()?)?;
        Some(Self {
            from: from.to_owned(),
            to: to.to_owned(),
        })
    }

    pub(super) fn is_there(&self, mover: &Mover<'_>, root: &str) -> Result<bool, Failure> {
        match mover.remote.head(&self.key(root)) {
            Ok(_) => Ok(true),
            Err(RemoteError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn begin(&self, mover: &Mover<'_>, root: &str) -> Result<(), Failure> {
        let body = Bytes::from(self.text());
        let key = self.key(root);
        let written = mover
            .store()?
            .put(&key, body, &Condition::Absent, &Metadata::new());
        match written {
            Ok(_) | Err(RemoteError::Exists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn end(&self, mover: &Mover<'_>, root: &str) -> Result<(), Failure> {
        let key = self.key(root);
        Ok(mover.store()?.delete(&key, &Condition::Always)?)
    }
}

/// Moves of directories that are not at their end: another gateway is at work, or has died. The
/// same move by this one is safe in both cases.
///
/// # Errors
/// What a request can meet.
pub(crate) fn unfinished(remote: &dyn Remote, root: &str) -> Result<Vec<Intent>, RemoteError> {
    let prefix = format!("{root}{FOLDER}");
    let query = ListQuery {
        prefix: &prefix,
        delimiter: false,
        token: None,
        page_entries_max: COUNT_MAX,
    };
    let mut found = Vec::new();
    for listed in remote.list(&query)?.objects {
        if found.len() >= COUNT_MAX as usize {
            break;
        }
        match remote.get(&listed.key, BYTES_MAX) {
            Ok((_, Some(text))) => {
                let intent = Intent::parse(&text);
                found.extend(intent.filter(|intent| intent.key(root) == listed.key));
            }
            Ok((_, None)) | Err(RemoteError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
