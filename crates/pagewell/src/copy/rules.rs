//! What a copy keeps of its original, and what it does about what is there: the options of cp(1).

/// Extended attributes that are kept; more and more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extended {
    /// None.
    #[default]
    Nothing,
    /// Access control lists, which belong to the mode.
    Lists,
    /// All that can be; what cannot is said once.
    All,
    /// All; what cannot be is a failure.
    Required,
}

/// What is kept of the original besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    /// Permission bits, set-id and sticky bits.
    pub(crate) mode: bool,
    /// Owner and group.
    pub(crate) ownership: bool,
    /// Times of access and modification.
    pub(crate) timestamps: bool,
    /// Hard links among what is copied.
    pub(crate) links: bool,
    /// Extended attributes.
    pub(crate) extended: Extended,
}

/// What happens to a file that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is overwritten.
    #[default]
    Overwrite,
    /// It stays.
    Stay,
    /// It is overwritten when it is older than the original.
    Update,
}

/// Which symbolic links of the sources are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dereference {
    /// None: they are copied.
    #[default]
    Never,
    /// Those that are named as sources.
    Given,
    /// All.
    Always,
}

/// All of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// Which symbolic links are followed.
    pub(crate) dereference: Dereference,
    /// What is kept.
    pub(crate) keep: Keep,
    /// What happens to a file that is there.
    pub(crate) existing: Existing,
    /// A file that is there and cannot be written is removed, and made anew.
    pub(crate) forces: bool,
    /// Each copy is named on standard output.
    pub(crate) verbose: bool,
    /// Bits that new files do not have, unless the mode is kept.
    pub(crate) umask: u32,
    /// A copy in a directory of this machine is on the device at the end.
    pub(crate) syncs: bool,
    /// Sources are several: one copy may not take the place of another.
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

    /// This and that.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            mode: self.mode || other.mode,
            ownership: self.ownership || other.ownership,
            timestamps: self.timestamps || other.timestamps,
            links: self.links || other.links,
            extended: self.extended.max(other.extended),
        }
    }

    /// Parses the list of `--preserve`.
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
