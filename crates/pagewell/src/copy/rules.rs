//! What a copy keeps of its original, and what it does with existing files: the options of cp(1).

/// Which extended attributes to keep, in rising order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extended {
    #[default]
    Nothing,
    /// Access control lists, which belong to the mode.
    Lists,
    /// All; one notice of what cannot be kept.
    All,
    /// All; what cannot be kept is a failure.
    Required,
}

/// What to keep of the original besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    /// Permission bits, set-id and sticky bits.
    pub(crate) mode: bool,
    pub(crate) ownership: bool,
    /// Times of access and modification.
    pub(crate) timestamps: bool,
    /// Hard links among what is copied.
    pub(crate) links: bool,
    pub(crate) extended: Extended,
}

/// What becomes of an existing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    #[default]
    Overwrite,
    Stay,
    /// It is overwritten if older than the original.
    Update,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dereference {
    /// Copied as links.
    #[default]
    Never,
    /// Those that are named as sources.
    Given,
    /// All.
    Always,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) dereference: Dereference,
    pub(crate) keep: Keep,
    pub(crate) existing: Existing,
    /// Remove an existing file that cannot be written, and make it anew.
    pub(crate) forces: bool,
    /// Name each copy on standard output.
    pub(crate) verbose: bool,
    /// Bits that new files lack, unless the mode is kept.
    pub(crate) umask: u32,
    /// Bring a copy in a directory of this machine to the device at the end.
    pub(crate) syncs: bool,
    /// Several sources: one copy may not take the place of another.
    pub(crate) several: bool,
}

impl Keep {
    /// What `-p` keeps.
    pub(crate) const USUAL: Self = Self {
        mode: true,
        ownership: true,
        timestamps: true,
        links: false,
        extended: Extended::Lists,
    };
    /// What `-a` keeps.
    pub(crate) const ALL: Self = Self {
        links: true,
        extended: Extended::All,
        ..Self::USUAL
    };

    /// All that either keeps.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            mode: self.mode || other.mode,
            ownership: self.ownership || other.ownership,
            timestamps: self.timestamps || other.timestamps,
            links: self.links || other.links,
            extended: self.extended.max(other.extended),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut keep = Self::default();
        for word in text.split(',') {
            match word {
                "mode" => {
                    keep.mode = true;
                    keep.extended = keep.extended.max(Extended::Lists);
                }
                "ownership" => keep.ownership = true,
                "timestamps" => keep.timestamps = true,
                "links" => keep.links = true,
                "xattr" => keep.extended = Extended::Required,
                "all" => keep = keep.and(Self::ALL),
                _ => {
                    let wanted = "mode, ownership, timestamps, links, xattr and all";
                    return Err(format!("a list of {wanted} is wanted"));
                }
            }
        }
        Ok(keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_those_of_gnu_cp() {
        assert_eq!(Keep::parse("mode,ownership,timestamps"), Ok(Keep::USUAL));
        assert_eq!(Keep::parse("all"), Ok(Keep::ALL));
        let links = Keep::parse("links").unwrap();
        assert_eq!(links.and(Keep::USUAL).extended, Extended::Lists);
        assert!(links.and(Keep::USUAL).links && !Keep::USUAL.links);
        let required = Keep::parse("all,xattr").unwrap();
        assert_eq!(required.extended, Extended::Required);
        for wrong in ["", "times", "mode,", "all,context"] {
            assert!(Keep::parse(wrong).is_err(), "{wrong}");
        }
    }
}
