//! Paths of directories that wait to be looked at, each a name and the directory above: whole paths
//! would take the product of an image's depth and directories.

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// The directory above, nothing for the root's children, and the name.
    entries: Vec<(Option<usize>, Vec<u8>)>,
}

impl Paths {
    /// Adds a directory below another, or below the root.
    pub(crate) fn add(&mut self, above: Option<usize>, name: &[u8]) -> usize {
        self.entries.push((above, name.to_vec()));
        self.entries.len() - 1
    }

    /// The path of a name in a directory, or of the directory where the name is empty.
    pub(crate) fn of(&self, directory: Option<usize>, name: &[u8]) -> Vec<u8> {
        let mut names = if name.is_empty() { vec![] } else { vec![name] };
        let mut next = directory;
        // Each is behind the one above it, so this ends.
        while let Some((above, name)) = next.and_then(|index| self.entries.get(index)) {
            names.push(name);
            next = *above;
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_the_root() {
        let mut paths = Paths::default();
        let a = paths.add(None, b"a");
        let b = paths.add(Some(a), b"b");
        assert_eq!(paths.of(Some(b), b"c"), b"/a/b/c");
        assert_eq!(paths.of(Some(b), b""), b"/a/b");
        assert_eq!(paths.of(None, b"c"), b"/c");
        assert_eq!(paths.of(None, b""), b"/");
    }
}
