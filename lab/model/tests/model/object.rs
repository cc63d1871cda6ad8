//! One object of the model.

use std::collections::BTreeMap;

use pagewell_fs::{Attributes, FileType, Timestamp, WccAttributes};

/// Before any time.
pub(crate) const PAST: Timestamp = Timestamp {
    seconds: i64::MIN,
    nanoseconds: 0,
};

/// A time that the model knows, or one that the next look at the object tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Known {
    Exactly(Timestamp),
    /// Set by the file system, not before this.
    NotBefore(Timestamp),
}

impl Known {
    /// Compares with what was seen, and knows it from then on.
    fn meet(&mut self, seen: Timestamp, what: &str) {
        match *self {
            Self::Exactly(time) => assert_eq!(seen, time, "{what}"),
            Self::NotBefore(time) => assert!(seen >= time, "{what}: {seen:?} before {time:?}"),
        }
        *self = Self::Exactly(seen);
    }

    fn agrees(self, seen: Timestamp) -> bool {
        match self {
            Self::Exactly(time) => seen == time,
            Self::NotBefore(time) => seen >= time,
        }
    }

    fn earliest(self) -> Timestamp {
        match self {
            Self::Exactly(time) | Self::NotBefore(time) => time,
        }
    }
}

/// Bytes of a file: what is not there is zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) size: u64,
    bytes: BTreeMap<u64, Vec<u8>>,
}

const BLOCK: u64 = 4096;

impl Content {
    pub(crate) fn resize(&mut self, size: u64) {
        let last = size / BLOCK;
        if let Some(block) = self.bytes.get_mut(&last) {
            block[(size % BLOCK) as usize..].fill(0);
        }
        self.bytes.split_off(&(last + 1));
        self.size = size;
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for (at, byte) in (offset..).zip(data) {
            let block = self.bytes.entry(at / BLOCK);
            block.or_insert_with(|| vec![0; BLOCK as usize])[(at % BLOCK) as usize] = *byte;
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    pub(crate) fn read(&self, offset: u64, count: u32) -> Vec<u8> {
        let end = offset.saturating_add(count.into()).min(self.size);
        let mut bytes = Vec::new();
        let mut at = offset;
        while at < end {
            let start = (at % BLOCK) as usize;
            let stop = (BLOCK as usize).min(start + (end - at).min(BLOCK) as usize);
            match self.bytes.get(&(at / BLOCK)) {
                Some(block) => bytes.extend_from_slice(&block[start..stop]),
                None => bytes.resize(bytes.len() + stop - start, 0),
            }
            at += (stop - start) as u64;
        }
        bytes
    }

    /// Places worth reading: the start, each block that has bytes, the end.
    pub(crate) fn places(&self) -> Vec<u64> {
        let mut places: Vec<u64> = self.bytes.keys().map(|block| block * BLOCK).collect();
        places.extend([0, self.size.saturating_sub(100)]);
        places
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Regular(Content),
    Directory {
        parent: usize,
        entries: BTreeMap<Vec<u8>, usize>,
    },
    Symlink(Vec<u8>),
    /// Devices, sockets and pipes.
    Node(FileType, (u32, u32)),
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) body: Body,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) verifier: Option<[u8; 8]>,
    /// A verifier that attributes which were set, or a use of the file, took away.
    pub(crate) past_verifier: Option<[u8; 8]>,
    pub(crate) changed: Known,
    pub(crate) modified: Known,
    pub(crate) accessed: Known,
    /// Told by the file system at the first look, the same from then on.
    pub(crate) file_id: Option<u64>,
    /// Size of a directory, as seen since its last change.
    size_seen: Option<u64>,
}

/// What weak cache consistency data must say about an object at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    size: Option<u64>,
    changed: Known,
    modified: Known,
}

impl Before {
    pub(crate) fn check(&self, seen: &WccAttributes) {
        let size_agrees = self.size.is_none_or(|size| size == seen.size);
        let agrees =
            size_agrees && self.changed.agrees(seen.changed) && self.modified.agrees(seen.modified);
        assert!(agrees, "before is {seen:?}, not {self:?}");
    }
}

impl Object {
    pub(crate) fn new(body: Body, mode: u32, uid: u32, gid: u32, start: Timestamp) -> Self {
        let links = if matches!(body, Body::Directory { .. }) {
            2
        } else {
            1
        };
        Self {
            body,
            mode,
            uid,
            gid,
            links,
            verifier: None,
            past_verifier: None,
            changed: Known::NotBefore(start),
            modified: Known::NotBefore(start),
            accessed: Known::NotBefore(start),
            file_id: None,
            size_seen: None,
        }
    }

    pub(crate) fn file_type(&self) -> FileType {
        match self.body {
            Body::Regular(_) => FileType::Regular,
            Body::Directory { .. } => FileType::Directory,
            Body::Symlink(_) => FileType::Symlink,
            Body::Node(file_type, _) => file_type,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file_type().is_directory()
    }

    pub(crate) fn alive(&self) -> bool {
        self.links > 0
    }

    fn size(&self) -> Option<u64> {
        match &self.body {
            Body::Regular(content) => Some(content.size),
            Body::Symlink(target) => Some(target.len() as u64),
            Body::Directory { .. } => self.size_seen,
            Body::Node(..) => Some(0),
        }
    }

    /// The next look tells the times of access and of modification, whatever they are.
    pub(crate) fn forget_times(&mut self) {
        self.accessed = Known::NotBefore(PAST);
        self.modified = Known::NotBefore(PAST);
    }

    /// The attributes change, now.
    pub(crate) fn touch_changed(&mut self) {
        self.changed = Known::NotBefore(self.changed.earliest());
        self.size_seen = None;
    }

    /// The data changes, now.
    pub(crate) fn touch_modified(&mut self, start: Timestamp) {
        self.touch_changed();
        self.modified = Known::NotBefore(start);
    }

    pub(crate) fn before(&self) -> Before {
        Before {
            size: self.size(),
            changed: self.changed,
            modified: self.modified,
        }
    }

    /// Compares with what the file system says, and learns what only it can know.
    pub(crate) fn meet(&mut self, seen: &Attributes) {
        assert_eq!(seen.file_type, self.file_type(), "type");
        assert_eq!(
            seen.mode, self.mode,
            "mode {:o} not {:o}",
            seen.mode, self.mode
        );
        assert_eq!(
            (seen.uid, seen.gid),
            (self.uid, self.gid),
            "owner and group"
        );
        assert_eq!(seen.link_count, self.links, "link count");
        if let Some(size) = self.size() {
            assert_eq!(seen.size, size, "size");
        }
        if let Body::Node(_, device) = self.body {
            assert_eq!(seen.device, device, "device");
        }
        if let Some(file_id) = self.file_id {
            assert_eq!(seen.file_id, file_id, "file id");
        }
        self.file_id = Some(seen.file_id);
        self.size_seen = Some(seen.size);
        self.changed.meet(seen.changed, "changed");
        self.modified.meet(seen.modified, "modified");
        self.accessed.meet(seen.accessed, "accessed");
    }
}
