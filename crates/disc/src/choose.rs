//! The choice among the trees of an image.
//!
//! **Problem.** A disc of Windows has a UDF file system and an ISO 9660 tree with nothing but a
//! note. A disc of a live system has the same files four times: with all that POSIX has (Rock
//! Ridge), with whole names (UDF, ISO 9660:1999, Joliet), and with neither. Formats do not tell
//! which tree is meant.
//!
//! **Rule.** The tree is chosen whose root lacks least of what the others have, and of equal ones
//! the first in the order of [`TreeName`]. What it lacks is kept to be said.
//!
//! ```text
//!            root of UDF     root of ISO 9660      lacks
//! Windows    boot, sources   readme.txt            UDF 1, ISO 2:  UDF, and readme.txt is said
//! live       boot, live      boot, live, link      UDF 1, Rock Ridge 0
//! ```
//!
//! **Weakness.** Only roots are looked at, as an image of any size opens in a few reads; `pagewell
//! check` compares the rest.

use std::sync::Arc;

use pagewell_fs::{Error, FileSystem};

use crate::compare::{Lack, Listing};
use crate::options::TreeName;

/// Names of a root whose kinds and lengths are compared, too: each may cost a read, and an image is
/// to open in less than 1 MiB.
const EXAMINED_MAX: usize = 8;
/// Names that are kept of those that a tree lacks.
const NAMED_MAX: usize = 3;

/// A tree that could be served.
pub(crate) struct Candidate {
    pub name: TreeName,
    pub tree: Arc<dyn FileSystem>,
}

/// A tree of an image.
#[derive(Clone, Debug)]
pub struct TreeFound {
    /// Its kind.
    pub name: TreeName,
    /// Names in its root directory, or why that is unreadable.
    pub root_names: Result<usize, String>,
    /// What the chosen tree lacks of it: how many names and longer files, and the first of them.
    pub lacking: (usize, Vec<String>),
}

impl TreeFound {
    /// What it has and the chosen tree lacks of `source`, `iso:IMAGE`; `None` when that is nothing.
    #[must_use]
    pub fn also_has(&self, source: &str) -> Option<String> {
        let (count, first) = &self.lacking;
        let more = match count.checked_sub(first.len())? {
            _ if *count == 0 => return None,
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (title, word) = (self.name.title(), self.name.word());
        Some(format!(
            "the {title} tree also has {}{more} ({source}?tree={word} shows it)",
            first.join(", ")
        ))
    }
}

/// Compares the candidates; returns which is best, or the `wanted` one, and what is known of each.
pub(crate) fn choose(
    candidates: &[Candidate],
    wanted: Option<TreeName>,
) -> Result<(usize, Vec<TreeFound>), String> {
    let read = |candidate: &Candidate| {
        let how = (candidate.name == TreeName::Iso, EXAMINED_MAX);
        let tree = &candidate.tree;
        Listing::read(&**tree, &tree.root(), how).map_err(|error| match error {
            // The identifier was made of what descriptors say.
            Error::Stale => "it is not where the image says that it is".to_owned(),
            other => other.to_string(),
        })
    };
    let roots: Vec<Result<Listing, String>> = candidates.iter().map(read).collect();
    let loss = |ours: &Listing| -> usize {
        let others = roots.iter().flatten();
        others.map(|other| ours.against(other).lacks.len()).sum()
    };
    let all = || candidates.iter().zip(&roots).enumerate();
    let chosen = match wanted {
        Some(name) => all().find(|(_, (candidate, _))| candidate.name == name),
        None => all().min_by_key(|(_, (candidate, root))| {
            let loss = root.as_ref().map_or(usize::MAX, loss);
            (loss, candidate.name)
        }),
    };
    let (index, (_, ours)) = chosen.ok_or_else(|| missing(candidates, wanted))?;
    let ours = ours.as_ref();
    let ours = ours.map_err(|error| format!("root directory unreadable: {error}"))?;
    let found = all().map(|(_, (candidate, root))| TreeFound {
        name: candidate.name,
        root_names: root
            .as_ref()
            .map(|root| root.names.len())
            .map_err(Clone::clone),
        lacking: root
            .as_ref()
            .map_or_else(|_| (0, Vec::new()), |root| lacking(ours, root)),
    });
    Ok((index, found.collect()))
}

fn missing(candidates: &[Candidate], wanted: Option<TreeName>) -> String {
    let Some(wanted) = wanted else {
        return "no tree of files".to_owned();
    };
    let there: Vec<&str> = candidates.iter().map(|it| it.name.title()).collect();
    format!("no {} tree: it has {}", wanted.title(), there.join(", "))
}

fn lacking(ours: &Listing, root: &Listing) -> (usize, Vec<String>) {
    let lacks = ours.against(root).lacks;
    let first = lacks.iter().take(NAMED_MAX);
    let shown = first.map(|(named, lack)| {
        let name = String::from_utf8_lossy(&named.name)
            .escape_debug()
            .to_string();
        match (lack, named.shape) {
            (Lack::Bytes(here), Some((_, there))) => {
                format!("{} bytes more of {name}", there.saturating_sub(*here))
            }
            _ => name,
        }
    });
    (lacks.len(), shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::{Call, CreateMode, Credentials, SetAttributes, Stability};
    use pagewell_source_ram::RamFileSystem;

    fn candidate(name: TreeName, files: &[(&str, usize)]) -> Candidate {
        let tree = RamFileSystem::new(1 << 20).unwrap();
        let superuser = Credentials::root();
        let call = Call::new(&superuser, true);
        for (name, size) in files {
            let mode = CreateMode::Unchecked(SetAttributes::default());
            let made = tree
                .create(&call, &tree.root(), name.as_bytes(), &mode)
                .unwrap();
            let bytes = vec![1; *size];
            tree.write(&call, &made.entry.id, 0, &bytes, Stability::Unstable)
                .unwrap();
        }
        Candidate {
            name,
            tree: Arc::new(tree),
        }
    }

    fn chosen(candidates: &[Candidate]) -> (TreeName, Vec<String>) {
        let (best, found) = choose(candidates, None).unwrap();
        let also = found
            .iter()
            .filter_map(|tree| tree.also_has("iso:x"))
            .collect();
        (candidates[best].name, also)
    }

    #[test]
    fn equal_trees_are_taken_in_order() {
        use TreeName::{Iso, Iso1999, Joliet, RockRidge, Udf};
        let of = |names: &[TreeName]| {
            let all: Vec<_> = names
                .iter()
                .map(|name| candidate(*name, &[("a", 1)]))
                .collect();
            chosen(&all)
        };
        assert_eq!(
            of(&[Iso, Joliet, Udf, RockRidge, Iso1999]),
            (RockRidge, vec![])
        );
        assert_eq!(of(&[Iso, Joliet, Iso1999, Udf]), (Udf, vec![]));
        assert_eq!(of(&[Iso, Joliet, Iso1999]), (Iso1999, vec![]));
        assert_eq!(of(&[Iso, Joliet]), (Joliet, vec![]));
    }

    #[test]
    fn the_tree_that_lacks_least_is_taken_and_what_it_lacks_is_said() {
        let windows = [
            candidate(TreeName::Iso, &[("readme.txt", 9)]),
            candidate(
                TreeName::Udf,
                &[("boot", 1), ("sources", 1), ("setup.exe", 1)],
            ),
        ];
        let also = "the ISO 9660 tree also has readme.txt (iso:x?tree=iso shows it)".to_owned();
        assert_eq!(chosen(&windows), (TreeName::Udf, vec![also]));
        let empty = [
            candidate(TreeName::RockRidge, &[]),
            candidate(TreeName::Joliet, &[("one", 1)]),
        ];
        assert_eq!(chosen(&empty), (TreeName::Joliet, vec![]));
        let cut = [
            candidate(TreeName::RockRidge, &[("large", 5)]),
            candidate(TreeName::Udf, &[("large", 9)]),
        ];
        assert_eq!(chosen(&cut), (TreeName::Udf, vec![]));
        let hidden = [
            candidate(
                TreeName::RockRidge,
                &[("a", 1), ("b", 1), ("c", 1), ("e", 1), ("d", 9)],
            ),
            candidate(
                TreeName::Joliet,
                &[("v", 1), ("w", 1), ("x", 1), ("y", 1), ("d", 9)],
            ),
        ];
        let also = "the Joliet tree also has v, w, x and 1 more (iso:x?tree=joliet shows it)";
        assert_eq!(
            chosen(&hidden),
            (TreeName::RockRidge, vec![also.to_owned()])
        );
    }

    #[test]
    fn a_tree_that_is_not_there_is_an_error_that_names_the_others() {
        assert_eq!(choose(&[], None).unwrap_err(), "no tree of files");
        let all = [
            candidate(TreeName::Iso, &[]),
            candidate(TreeName::Joliet, &[("a", 1)]),
        ];
        let error = choose(&all, Some(TreeName::Udf)).unwrap_err();
        assert_eq!(error, "no UDF tree: it has ISO 9660, Joliet");
        let (wanted, found) = choose(&all, Some(TreeName::Iso)).unwrap();
        assert_eq!((wanted, found[1].lacking.0), (0, 1));
    }
}
