//! Copies what symbolic links below a directory lead to.
//!
//! Each is copied as another source, to the name of the link, in the order of the walk. A directory
//! there is a walk within that of the directory with the link. Such walks can lead in circles, and
//! few links can make an endless tree: so no directory is entered below itself, inside more than
//! [`LINKS_MAX`] others that links led to, or by links more than [`VISITS_MAX`] times.

use std::collections::HashMap;

use pagewell_fs::{Entry, FileType};

use super::Copier;
use super::object::Target;
use super::rules::Dereference;
use super::terms::identity;
use crate::escape;
use crate::location::Place;

/// As many links as the kernel follows for one path (path_resolution(7)).
const LINKS_MAX: usize = 40;

const VISITS_MAX: u32 = 256;

/// The directories in the work of the copy.
#[derive(Default)]
pub(super) struct Followed {
    /// From the outermost.
    pub(super) above: Vec<(u64, u64)>,
    /// Those that links led to.
    links: usize,
    visits: HashMap<(u64, u64), u32>,
}

impl Followed {
    /// Why a directory that a link leads to is not entered.
    fn obstacle(&mut self, entry: &Entry) -> Option<&'static str> {
        if !entry.attributes.file_type.is_directory() {
            return None;
        }
        if self.above.contains(&identity(entry)) {
            return Some("leads to a directory that it is in");
        }
        if self.links >= LINKS_MAX {
            return Some("too many symbolic links");
        }
        let visits = self.visits.entry(identity(entry)).or_insert(0);
        *visits += 1;
        (*visits > VISITS_MAX).then_some("the same directory appears in too many places")
    }

    /// Whether a directory was reached by a link from inside itself.
    pub(super) fn leads_back_to(&self, entry: &Entry) -> bool {
        self.links > 0 && self.above.contains(&identity(entry))
    }
}

impl Copier {
    /// Whether to copy what an object leads to instead.
    pub(super) fn follows(&self, entry: &Entry) -> bool {
        entry.attributes.file_type == FileType::Symlink
            && self.hand.terms.rules.dereference == Dereference::Always
    }

    /// Copies what the link at `path` below a place leads to.
    pub(super) fn follow(&mut self, place: &Place, path: &[u8], to: &Target) {
        let failed = match place.behind_link(path) {
            Err(error) => format!("{error:#}"),
            Ok((behind, entry)) => match self.followed.obstacle(&entry) {
                Some(reason) => reason.to_owned(),
                None => {
                    self.followed.links += 1;
                    self.object_at(&behind, &entry, to);
                    self.followed.links -= 1;
                    return;
                }
            },
        };
        let shown = escape::text(&place.label_of(path));
        self.fail(&format!("{shown}: {failed}"));
    }
}
