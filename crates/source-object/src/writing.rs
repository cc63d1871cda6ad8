//! What is needed to change a bucket, beside the bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_object_client::Handling;
use pagewell_staging::Opened;

use super::guard::Guard;
use super::identifier::KeyHasher;
use super::leftovers::Leftovers;
use super::sending::Sender;
use super::tree::Tree;
use super::upload::{Budget, Sizes, Uploader};
use super::writer::Writer;

/// Letters of a bucket's name in that of its folder.
const NAME_BYTES_MAX: usize = 64;

/// What those who open a bucket to change it decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writing {
    /// Where bytes are kept that the store does not have yet: a folder with one for each source.
    pub staging_dir: PathBuf,
    /// What these may take, for each source.
    pub staging_bytes_max: u64,
    /// Where the answers of stores are kept; `None`: each process asks.
    pub kept_probes: Option<PathBuf>,
    /// A store in which changes can get lost is changed, too.
    pub unguarded: bool,
    /// A new file is in the store when its creation is answered, and so is a new length: what a
    /// server of NFS promises.
    pub creates_at_once: bool,
}

impl Writing {
    /// The folder of what is below `prefix` of the bucket `place`. It is the same in each process,
    /// which so finds what one before it has left.
    pub(super) fn folder_of(&self, place: &str, prefix: &str) -> PathBuf {
        self.staging_dir.join(folder_name(place, prefix))
    }

    /// Begins to change the bucket, and goes on with what an earlier process has left.
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

/// The name of the bucket, for people, and a hash.
fn folder_name(place: &str, prefix: &str) -> PathBuf {
    let hash = KeyHasher::new(place).of(prefix).bytes();
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let bucket = place.strip_prefix("s3://").unwrap_or(place);
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_".contains(*letter);
    let name: String = bucket
        .chars()
        .take_while(plain)
        .take(NAME_BYTES_MAX)
        .collect();
    Path::new(&format!("{name}-{hash}")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_a_folder_with_the_name_of_its_bucket() {
        let place = "s3://photos.2026 at http://127.0.0.1:1";
        let folder = folder_name(place, "a/");
        assert!(folder.to_str().unwrap().starts_with("photos-"));
        assert_eq!(folder, folder_name(place, "a/"));
        assert_ne!(folder, folder_name(place, ""));
        assert_ne!(
            folder,
            folder_name("s3://photos.2026 at http://127.0.0.1:2", "a/")
        );
        let odd = folder_name("s3://../x", "../y");
        assert_eq!(odd.components().count(), 1);
    }
}
