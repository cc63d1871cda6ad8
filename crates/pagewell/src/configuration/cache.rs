//! The page cache and its folder: `[server]` of the file, and the command line.

use std::path::PathBuf;

use pagewell_base::size;
use serde_json::json;

use super::picker::{Picker, some};
use super::table::{At, Table, text, text_or_number};
use crate::engine::EngineArguments;

#[derive(Debug, Default)]
pub(crate) struct CacheKeys {
    cache: Option<At<u64>>,
    cache_dir: Option<At<PathBuf>>,
    cache_dir_size: Option<At<u64>>,
}

impl CacheKeys {
    pub(super) fn take(
        table: &mut Table<'_>,
        path: impl FnOnce(&str) -> Result<PathBuf, String>,
    ) -> Self {
        Self {
            cache: table.take("cache", text_or_number(size::parse_positive)),
            cache_dir: table.take("cache_dir", text(path)),
            cache_dir_size: table.take("cache_dir_size", text_or_number(size::parse_positive)),
        }
    }

    /// Resolves these and what the command line has `given`.
    pub(super) fn resolve(
        keys: Option<&Self>,
        given: &EngineArguments,
        picker: &mut Picker<'_>,
    ) -> EngineArguments {
        let cache = keys.and_then(|keys| some(&keys.cache));
        let cache = (given.cache_bytes().map(Some), cache);
        let cache = picker.pick("cache", cache, None, |bytes| json!(bytes));
        let folder = keys.and_then(|keys| some(&keys.cache_dir));
        let folder = (given.cache_dir().map(|path| Some(path.to_owned())), folder);
        let folder = picker.pick("cache_dir", folder, None, |path| json!(path));
        let size = keys.and_then(|keys| some(&keys.cache_dir_size));
        let size = (given.cache_dir_size().map(Some), size);
        let size = picker.pick("cache_dir_size", size, None, |bytes| json!(bytes));
        EngineArguments::new(cache, folder, size)
    }
}
