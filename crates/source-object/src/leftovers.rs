//! What processes that died have left in a store: parts of objects that were never made, and
//! directories that were moved in part.
//!
//! The staging folder knows the parts. The store itself knows a move, which another gateway may be
//! at work on: going on with it beside that one is safe.

use std::collections::BTreeSet;

use pagewell_base::sync::Mutex;
use pagewell_fs::{Call, Credentials};
use pagewell_object_client::{Metadata, Upload};
use pagewell_staging::NotedUpload;

use super::moves::unfinished;
use super::writer::Writer;

pub(super) struct Leftovers(Mutex<State>);

struct State {
    uploads: Vec<NotedUpload>,
    /// Moves that this process has begun before it looked for others, from and to; then `None`.
    own_moves: Option<BTreeSet<(String, String)>>,
}

impl Leftovers {
    pub(super) fn new(uploads: Vec<NotedUpload>) -> Self {
        Self(Mutex::new(State {
            uploads,
            own_moves: Some(BTreeSet::new()),
        }))
    }

    /// A move that is no leftover.
    pub(super) fn note_move(&self, from: &str, to: &str) {
        if let Some(own_moves) = &mut self.0.lock().own_moves {
            own_moves.insert((from.to_owned(), to.to_owned()));
        }
    }

    /// Clears up what there is, once the store is one that may be changed.
    pub(super) fn clear(&self, writer: &Writer) {
        let credentials = Credentials::root();
        let call = Call::new(&credentials, false);
        if writer.rights(&call).is_err() {
            return;
        }
        let mut state = self.0.lock();
        let uploads = std::mem::take(&mut state.uploads);
        let is_done = state.own_moves.is_none();
        drop(state);
        for upload in uploads {
            abort(writer, upload);
        }
        if !is_done {
            self.finish_moves(writer);
        }
    }

    fn finish_moves(&self, writer: &Writer) {
        let remote = writer.tree().data().remote();
        let place = remote.describe();
        let found = unfinished(&**remote, writer.tree().root().key());
        // Those that begin from here on were not found.
        let own_moves = self.0.lock().own_moves.take().unwrap_or_default();
        let moves = match found {
            Ok(moves) => moves.into_iter().map(|intent| (intent.from, intent.to)),
            Err(error) => return tracing::warn!("{place}: unfinished renames: {error}"),
        };
        let credentials = Credentials::root();
        for (from, to) in moves.filter(|found| !own_moves.contains(found)) {
            tracing::info!("{place}: goes on to rename {from} to {to}");
            let call = Call::new(&credentials, true);
            if let Err(error) = writer.move_directory(&call, &from, &to) {
                tracing::warn!("{place}: {from} is not wholly renamed to {to}: {error}");
            }
        }
    }
}

fn abort(writer: &Writer, noted: NotedUpload) {
    let remote = writer.tree().data().remote();
    let Some(store) = remote.as_writable() else {
        return;
    };
    let upload = Upload {
        key: noted.key,
        id: noted.upload_id,
        token: String::new(),
        metadata: Metadata::new(),
    };
    match store.abort(&upload) {
        Ok(()) => writer
            .sender()
            .staging()
            .forget_upload(&upload.key, &upload.id),
        // The next start tries again.
        Err(error) => {
            let (place, key) = (remote.describe(), &upload.key);
            tracing::warn!("{place}: {key}: parts of an upload stay in the store: {error}");
        }
    }
}
