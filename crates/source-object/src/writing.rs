//! What is needed to change a bucket, beside the bucket.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use pagewell_base::sync::Mutex;
use pagewell_fs::source::OpenError;
use pagewell_object_client::Handling;
use pagewell_staging::{Journaled, Opened, Staging};

use super::guard::Guard;
use super::identifier::KeyHasher;
use super::leftovers::Leftovers;
use super::sending::Sender;
use super::tree::Tree;
use super::upload::{Budget, Sizes, Uploader};
use super::writer::Writer;

/// Letters of a bucket's name in that of its folder.
const NAME_BYTES_MAX: usize = 64;
/// Processes of one machine that change what is below one prefix at a time.
const FOLDERS_MAX: u32 = 64;

/// The folders of this process. A lock does not show whether it is at work, or about to end.
static OPEN: Mutex<Vec<(PathBuf, Weak<Staging>)>> = Mutex::new(Vec::new());

/// What is needed to change a bucket, beside the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writing {
    /// Where bytes are kept that the store does not have yet: one folder for each source.
    pub staging_dir: PathBuf,
    /// The most that one of these may take.
    pub staging_bytes_max: u64,
    /// Where the answers of stores are kept; `None`: each process asks.
    pub kept_probes: Option<PathBuf>,
    /// A store in which changes can get lost is changed, too.
    pub unguarded: bool,
    /// A new file, and a new length, is in the store before the reply: the promise of an NFS
    /// server.
    pub creates_at_once: bool,
}

impl Writing {
    /// Opens the staging folder of what is below `prefix` of the bucket `place`: the first of a row
    /// that no other process has open. The row is the same in each process, which so finds and
    /// takes what dead ones have left.
    pub(super) fn stage(&self, place: &str, prefix: &str) -> Result<Opened, OpenError> {
        let origin = format!("{place}, below '{prefix}'");
        let bytes_max = self.staging_bytes_max;
        let mut own: Option<Opened> = None;
        for number in 1..=FOLDERS_MAX {
            let folder = self.staging_dir.join(folder_name(place, prefix, number));
            let Some(own) = &mut own else {
                // Another export may have it: to wait for that would be in vain.
                let opened = match is_open_here(&folder) {
                    true => Staging::open_left(&folder, &origin, bytes_max),
                    false => Staging::open(&folder, &origin, bytes_max),
                };
                match opened {
                    Err(error) if error.is_in_use() && number < FOLDERS_MAX => {}
                    opened => own = Some(opened?),
                }
                continue;
            };
            if !folder.exists() {
                break;
            }
            match Staging::open_left(&folder, &origin, bytes_max) {
                Ok(left) => adopt(own, left.journaled),
                Err(error) if error.is_in_use() => {}
                Err(error) => tracing::warn!("{error}: what is in it is not sent"),
            }
        }
        let own = own.ok_or_else(|| OpenError::in_use(&self.staging_dir.display().to_string()))?;
        let mut open = OPEN.lock();
        open.retain(|(_, one)| one.strong_count() > 0);
        let path = own.staging.path().to_owned();
        open.push((path, Arc::downgrade(&own.staging)));
        drop(open);
        Ok(own)
    }

    pub(super) fn start(
        &self,
        url: &str,
        tree: &Arc<Tree>,
        handling: &Handling,
        opened: Opened,
    ) -> Arc<Writer> {
        let guard = Guard::new(url, self.kept_probes.as_deref(), self.unguarded);
        let uploader = Uploader::new(Sizes::default(), Budget::default(), true);
        let sender = Sender::new(tree, &opened.staging, uploader);
        let how = (handling.clone(), self.creates_at_once);
        let with = (sender, Leftovers::new(opened.uploads));
        let writer = Writer::start(tree, guard, with, how);
        writer.resume(opened.journaled);
        writer
    }
}

fn is_open_here(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else {
        return false;
    };
    let open = OPEN.lock();
    let mut open = open.iter().filter(|(_, one)| one.strong_count() > 0);
    open.any(|(path, _)| *path == folder)
}

/// Takes over what another process has left, except files that this one has changed, too: they wait
/// for the next start.
fn adopt(own: &mut Opened, left: Vec<Journaled>) {
    for journaled in left {
        let key = &journaled.record.key;
        if own.journaled.iter().all(|one| one.record.key != *key) {
            own.journaled.push(journaled);
        } else {
            tracing::warn!("{key}: was staged twice, and is sent once: again at the next start");
        }
    }
}

fn folder_name(place: &str, prefix: &str, number: u32) -> PathBuf {
    let hash = KeyHasher::new(place).of(prefix).bytes();
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let bucket = place.split_once("://").map_or(place, |(_, bucket)| bucket);
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_".contains(*letter);
    let name: String = bucket
        .chars()
        .take_while(plain)
        .take(NAME_BYTES_MAX)
        .collect();
    let number = match number {
        1 => String::new(),
        number => format!("-{number}"),
    };
    Path::new(&format!("{name}-{hash}{number}")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::SystemTime;

    use pagewell_object_client::Metadata;
    use pagewell_staging::Record;

    const PLACE: &str = "s3://photos.2026 at http://127.0.0.1:1";

    fn writing(folder: &Path) -> Writing {
        Writing {
            staging_dir: folder.to_owned(),
            staging_bytes_max: 1 << 20,
            kept_probes: None,
            unguarded: false,
            creates_at_once: false,
        }
    }

    fn journal(opened: &Opened, key: &str) {
        let record = Record {
            key: key.to_owned(),
            base: None,
            base_bytes: 0,
            length_bytes: 0,
            dirty: Vec::new(),
            metadata: Metadata::new(),
            token: "token".to_owned(),
            journaled_at: SystemTime::now(),
        };
        opened.staging.create(key).journal(&record).unwrap();
    }

    fn keys(opened: &Opened) -> Vec<&str> {
        let journaled = opened.journaled.iter();
        journaled.map(|one| &*one.record.key).collect()
    }

    #[test]
    fn each_source_has_a_folder_with_the_name_of_its_bucket() {
        let folder = folder_name(PLACE, "a/", 1);
        assert!(folder.to_str().unwrap().starts_with("photos-"));
        assert_eq!(folder, folder_name(PLACE, "a/", 1));
        for (place, prefix, number) in [
            (PLACE, "", 1),
            ("s3://photos.2026 at http://127.0.0.1:2", "a/", 1),
            (PLACE, "a/", 2),
        ] {
            assert_ne!(folder, folder_name(place, prefix, number));
        }
        let odd = folder_name("s3://../x", "../y", 1);
        assert_eq!(odd.components().count(), 1);
    }

    #[test]
    fn those_at_work_have_a_folder_each_and_what_was_left_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let writing = writing(folder.path());
        let stage = || writing.stage(PLACE, "").unwrap();
        let (one, two) = (stage(), stage());
        assert_ne!(one.staging.path(), two.staging.path());
        let paths = [&one, &two].map(|opened| opened.staging.path().to_owned());
        assert!(paths.iter().all(|path| is_open_here(path)), "no wait");
        journal(&one, "one");
        journal(&two, "two");
        journal(&two, "one");
        drop((one, two));
        assert!(!paths.iter().any(|path| is_open_here(path)));
        let all = stage();
        assert_eq!(keys(&all), ["one", "two"]);
        drop(all);
        let other = writing.stage(PLACE, "a/").unwrap();
        assert!(keys(&other).is_empty());
    }
}
