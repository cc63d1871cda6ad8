//! Small objects as a whole, by HEAD and a fetch, for a thread that waits.

use std::sync::Arc;

use bytes::Bytes;
use pagewell_base::sync::{Condvar, Mutex};

use crate::error::Result;
use crate::remote::{ObjectInfo, Remote, Sink};

pub(crate) fn whole<R: Remote + ?Sized>(
    remote: &R,
    key: &str,
    bytes_max: u64,
) -> Result<(ObjectInfo, Option<Bytes>)> {
    let info = remote.head(key)?;
    let length_bytes = info.version.length_bytes;
    if length_bytes > bytes_max {
        return Ok((info, None));
    }
    let ended = Arc::new(Ended::default());
    let collecting = Collecting {
        bytes: Vec::new(),
        ended: Arc::clone(&ended),
    };
    remote.fetch(key, &info.version, 0..length_bytes, Box::new(collecting));
    let bytes = ended.wait()?;
    Ok((info, Some(Bytes::from(bytes))))
}

/// How a fetch ended, and what wakes the thread that waits.
#[derive(Default)]
struct Ended {
    result: Mutex<Option<Result<Vec<u8>>>>,
    has_come: Condvar,
}

impl Ended {
    fn wait(&self) -> Result<Vec<u8>> {
        let mut result = self.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => result = self.has_come.wait(result),
            }
        }
    }
}

struct Collecting {
    bytes: Vec<u8>,
    ended: Arc<Ended>,
}

impl Sink for Collecting {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn end(self: Box<Self>, result: Result<()>) {
        let Self { bytes, ended } = *self;
        *ended.result.lock() = Some(result.map(|()| bytes));
        ended.has_come.notify_one();
    }
}
