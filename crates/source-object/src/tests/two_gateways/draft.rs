//! What a gateway has done with a file since the store said last that it has all.

use std::sync::Arc;

/// A change of a file.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// It was made, without bytes.
    Begin,
    Write(u64, Arc<[u8]>),
    Cut(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub what: What,
    /// Its place among all edits of a history.
    pub serial: u64,
    /// `false`: it may have had no effect.
    pub is_certain: bool,
}

/// Changes of one file.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Tells it from all others.
    pub number: u64,
    /// How many versions the gateway had seen when it began.
    pub known: usize,
    pub edits: Vec<Edit>,
    /// Some may have been given up, and no caller has learnt of it.
    pub is_doubtful: bool,
}

/// Contents that a draft may have, at most.
const CONTENTS_MAX: usize = 64;

impl Draft {
    /// The file was made here, or may have been.
    pub(super) fn may_be_new(&self) -> bool {
        let first = self.edits.first();
        first.is_some_and(|edit| matches!(edit.what, What::Begin))
    }

    /// The file was made here.
    pub(super) fn is_new(&self) -> bool {
        self.may_be_new() && self.edits.first().is_some_and(|edit| edit.is_certain)
    }

    pub(super) fn is_certain(&self) -> bool {
        self.edits.iter().any(|edit| edit.is_certain)
    }

    /// What a file with these bytes may become.
    pub(super) fn applied(&self, base: &[u8]) -> Vec<Vec<u8>> {
        let mut contents = vec![base.to_vec()];
        for edit in &self.edits {
            let mut changed = contents.clone();
            for content in &mut changed {
                apply(&edit.what, content);
            }
            if edit.is_certain {
                contents = changed;
                continue;
            }
            changed.retain(|one| !contents.contains(one));
            contents.extend(changed);
            contents.truncate(CONTENTS_MAX);
        }
        contents
    }

    /// The bytes that were written, at their places; `with_all`: by edits that are not certain,
    /// too.
    pub(super) fn written(&self, with_all: bool) -> Vec<Option<u8>> {
        let mut written = Vec::new();
        for edit in self.edits.iter().filter(|edit| with_all || edit.is_certain) {
            match &edit.what {
                What::Begin => written.clear(),
                What::Cut(size) => written.resize(*size as usize, None),
                What::Write(offset, data) => {
                    let (start, end) = (*offset as usize, *offset as usize + data.len());
                    written.resize(written.len().max(end), None);
                    let target = written[start..end].iter_mut();
                    target
                        .zip(data.iter())
                        .for_each(|(to, from)| *to = Some(*from));
                }
            }
        }
        written
    }
}

fn apply(what: &What, content: &mut Vec<u8>) {
    match what {
        What::Begin => content.clear(),
        What::Cut(size) => content.resize(*size as usize, 0),
        What::Write(offset, data) => {
            let (start, end) = (*offset as usize, *offset as usize + data.len());
            content.resize(content.len().max(end), 0);
            content[start..end].copy_from_slice(data);
        }
    }
}
