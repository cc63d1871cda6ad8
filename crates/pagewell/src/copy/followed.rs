//! Copies what symbolic links below a directory lead to.
//!
//! It is copied as if it were another source, to the name of the link, in the order of the walk:
//! all that came before is done by then. A directory there is a walk of its own, within that of the
//! directory with the link. Such walks can lead in circles, and a few links can make a tree that
//! nobody has the time to copy: so no directory is entered again below itself, or inside more than
//! [`LINKS_MAX`] others that were reached by links, or by links more than [`VISITS_MAX`] times.

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

/// The directories that are being copied.
#[derive(Default)]
pub(super) struct Followed {
    /// From the outermost.
    pub(super) above: Vec<(u64, u64)>,
    /// Those that were reached by links.
    links: usize,
    visits: HashMap<(u64, u64), u32>,
}

impl Followed {
    /// Why what a link leads to is not copied: a directory that is not entered.
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

    /// Whether a directory was reached from inside itself, by a link.
    pub(super) fn leads_back_to(&self, entry: &Entry) -> bool {
        self.links > 0 && self.above.contains(&identity(entry))
    }
}

impl Copier {
    /// Whether not the object itself is copied, but what it leads to.
    pub(super) fn follows(&self, entry: &Entry) -> bool {
        entry.attributes.file_type == FileType::Symlink
            && self.hand.terms.rules.dereference == Dereference::Always
    }

    /// Copies what the link with this path below a place leads to.
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
