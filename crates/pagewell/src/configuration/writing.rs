//! How buckets are changed: `[server]` of the file, and the command line.

use std::path::PathBuf;

use pagewell_monitor::metrics::Prices;
use serde_json::json;

use super::picker::{Picker, at, some, word_of};
use super::table::{At, Table, text, text_or_number, word};
use crate::bucket_arguments::BucketArguments;
use crate::writing_arguments::{OBJECT_WRITES, ObjectWrites, WritingArguments, parse_size};

#[derive(Debug, Default)]
pub(crate) struct WritingKeys {
    staging_dir: Option<At<PathBuf>>,
    staging_dir_size: Option<At<u64>>,
    object_writes: Option<At<ObjectWrites>>,
    object_prices: Option<At<Prices>>,
}

impl WritingKeys {
    pub(super) fn take(
        table: &mut Table<'_>,
        path: impl FnOnce(&str) -> Result<PathBuf, String>,
    ) -> Self {
        Self {
            staging_dir: table.take("staging_dir", text(path)),
            staging_dir_size: table.take("staging_dir_size", text_or_number(parse_size)),
            object_writes: table.take("object_writes", word(&OBJECT_WRITES)),
            object_prices: table.take("object_prices", text(Prices::parse)),
        }
    }

    /// Resolves these and what the command line has `given`.
    pub(super) fn resolve(
        keys: Option<&Self>,
        given: &BucketArguments,
        picker: &mut Picker<'_>,
    ) -> BucketArguments {
        let writing = &given.writing;
        let directory = keys.and_then(|keys| some(&keys.staging_dir));
        let directory = (
            writing.staging_dir().map(|path| Some(path.to_owned())),
            directory,
        );
        let directory = picker.pick("staging_dir", directory, None, |path| json!(path));
        let size = keys.and_then(|keys| some(&keys.staging_dir_size));
        let size = (writing.staging_dir_size().map(Some), size);
        let size = picker.pick("staging_dir_size", size, None, |bytes| json!(bytes));
        let which = keys.and_then(|keys| at(&keys.object_writes));
        let which = picker.pick(
            "object_writes",
            (writing.object_writes(), which),
            ObjectWrites::default(),
            |which| word_of(&OBJECT_WRITES, which),
        );
        let kept = keys.and_then(|keys| some(&keys.object_prices));
        let prices = (given.object_prices.clone().map(Some), kept);
        let prices = picker.pick("object_prices", prices, None, |prices| {
            json!(prices.as_ref().map(Prices::shown))
        });
        BucketArguments {
            writing: WritingArguments::new(directory, size, which),
            object_prices: prices,
        }
    }
}
