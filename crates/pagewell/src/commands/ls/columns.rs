//! The columns of `ls -l` and `ls -i`.

use pagewell_fs::Attributes;

use super::LsArguments;
use crate::listing;
use crate::time_text::seconds_text;
use pagewell_base::size;

/// What stands before the names, and how wide it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Columns {
    long: bool,
    inode: bool,
    human: bool,
    file_id: usize,
    links: usize,
    uid: usize,
    gid: usize,
    size: usize,
}

impl Columns {
    /// The columns that are asked for, wide enough for all of these.
    pub(super) fn of<'a>(
        arguments: &LsArguments,
        all: impl Iterator<Item = &'a Attributes>,
    ) -> Self {
        let mut widths = Self {
            long: arguments.long,
            inode: arguments.inode,
            human: arguments.human_readable,
            ..Self::default()
        };
        for attributes in all {
            widths.file_id = widths.file_id.max(digits(attributes.file_id));
            widths.links = widths.links.max(digits(attributes.link_count.into()));
            widths.uid = widths.uid.max(digits(attributes.uid.into()));
            widths.gid = widths.gid.max(digits(attributes.gid.into()));
            widths.size = widths.size.max(widths.size_text(attributes).len());
        }
        widths
    }

    /// Whether there are any.
    pub(super) fn are_any(self) -> bool {
        self.long || self.inode
    }

    /// All of them, and the space behind.
    pub(super) fn text(self, attributes: &Attributes) -> String {
        let Self {
            file_id,
            links,
            uid,
            gid,
            size,
            ..
        } = self;
        let mut text = String::new();
        if self.inode {
            text += &format!("{:>file_id$} ", attributes.file_id);
        }
        if self.long {
            text += &format!(
                "{} {:>links$} {:>uid$} {:>gid$} {:>size$} {} ",
                pagewell_tree::mode_text(attributes),
                attributes.link_count,
                attributes.uid,
                attributes.gid,
                self.size_text(attributes),
                seconds_text(attributes.modified.seconds),
            );
        }
        text
    }

    /// The size, or the numbers of a device.
    fn size_text(self, attributes: &Attributes) -> String {
        if listing::is_device(attributes) {
            format!("{}, {}", attributes.device.0, attributes.device.1)
        } else if self.human {
            size::brief(attributes.size)
        } else {
            attributes.size.to_string()
        }
    }
}

fn digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}
