//! How to show a disc, as a user writes it: `IMAGE?tree=udf&session=2`.

use pagewell_source_iso::{Case, Charset, Session, TreeKind};

use crate::owner::Owner;

/// A kind of tree, in the order in which trees with the same files are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeName {
    /// ECMA-119 with POSIX names and attributes.
    RockRidge,
    /// ECMA-167.
    Udf,
    /// The second tree of ISO 9660:1999, with long names.
    Iso1999,
    /// The second tree, with Unicode names.
    Joliet,
    /// ECMA-119 alone.
    Iso,
}

/// How each is written.
const TREES: [(&str, TreeName); 5] = [
    ("udf", TreeName::Udf),
    ("rr", TreeName::RockRidge),
    ("iso1999", TreeName::Iso1999),
    ("joliet", TreeName::Joliet),
    ("iso", TreeName::Iso),
];

const CASES: [(&str, Case); 4] = [
    ("auto", Case::Automatic),
    ("lower", Case::Lower),
    ("upper", Case::Upper),
    ("keep", Case::Keep),
];

const VERSIONS: [(&str, bool); 2] = [("newest", false), ("all", true)];

const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

impl TreeName {
    /// How it is written as an option.
    #[must_use]
    pub fn word(self) -> &'static str {
        let found = TREES.iter().find(|(_, name)| *name == self);
        found.map_or("", |(word, _)| word)
    }

    /// That of a tree of ISO 9660.
    pub(crate) fn of_iso(kind: TreeKind) -> Self {
        match kind {
            TreeKind::RockRidge => Self::RockRidge,
            TreeKind::Enhanced => Self::Iso1999,
            TreeKind::Joliet => Self::Joliet,
            TreeKind::Plain => Self::Iso,
        }
    }

    /// What it is called.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::RockRidge => "Rock Ridge",
            Self::Udf => "UDF",
            Self::Iso1999 => "ISO 9660:1999",
            Self::Joliet => "Joliet",
            Self::Iso => "ISO 9660",
        }
    }
}

/// How to show a disc; the default shows what loses least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscOptions {
    /// The tree; `None`: the one that lacks least of what the others have.
    pub tree: Option<TreeName>,
    /// The track that it begins in, of an image with several.
    pub track: Option<usize>,
    /// The partition of a disk that it lies in, as Linux counts.
    pub partition: Option<usize>,
    /// The session, of a disc of ISO 9660 that was written in several.
    pub session: Session,
    /// The letters of names of plain ISO 9660.
    pub case: Case,
    /// The character set of names of ISO 9660 and Rock Ridge that are not UTF-8.
    pub charset: Option<Charset>,
    /// Whether older versions of files of ISO 9660 are shown, too.
    pub all_versions: bool,
    /// Whether files that zisofs compressed are shown as they are recorded.
    pub keeps_compressed: bool,
    /// Other owners and modes than those recorded.
    pub owner: Owner,
}

/// The options as they are written, and what they do.
pub const OPTIONS: [(&str, &str); 12] = [
    (
        "tree=auto|udf|rr|iso1999|joliet|iso",
        "Which tree of the image: by itself the one that lacks least of what the others have, and \
         of equal ones Rock Ridge, UDF, ISO 9660:1999, Joliet and plain ISO 9660, in this order.",
    ),
    (
        "track=NUMBER",
        "The track, of an image with several (.cue, .ccd, .toc, .mds, .gdi, .nrg, CHD), that the \
         disc begins in: by itself the first with a disc, of a GD-ROM the first of its outer area.",
    ),
    (
        "partition=NUMBER",
        "The partition of a disk that the disc lies in, as Linux counts them: by itself the first \
         with a disc, unless the disk is one itself.",
    ),
    (
        "session=last|NUMBER",
        "Which session of a disc of ISO 9660 that was written in several: the last one, or by \
         number from 1; by itself that which the disc begins with, as other programs take it.",
    ),
    (
        "case=auto|lower|upper|keep",
        "Letters of names of plain ISO 9660: by itself small ones, unless the writer recorded \
         small ones.",
    ),
    (
        "charset=NAME",
        "The character set of names of ISO 9660 and Rock Ridge that are not UTF-8, such as \
         shift_jis or windows-1252: by itself they are shown byte by byte.",
    ),
    (
        "versions=newest|all",
        "Which versions of files of ISO 9660 and Joliet: older ones are NAME;VERSION.",
    ),
    (
        "zisofs=on|off",
        "Whether files that zisofs compressed are shown uncompressed, which is usual.",
    ),
    (
        "uid=NUMBER",
        "The owner of all files, in place of what is recorded.",
    ),
    ("gid=NUMBER", "The group of all files."),
    (
        "mode=OCTAL",
        "The permissions of all files but directories.",
    ),
    ("dmode=OCTAL", "The permissions of directories."),
];

impl DiscOptions {
    /// Sets an option; whether there is one of this name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "tree" if value == "auto" => self.tree = None,
            "tree" => self.tree = Some(word(&TREES, name, value)?),
            "track" => self.track = Some(number(name, value)?),
            "partition" => self.partition = Some(number(name, value)?),
            "session" => self.session = session(value)?,
            "case" => self.case = word(&CASES, name, value)?,
            "charset" => self.charset = Some(charset(value)?),
            "versions" => self.all_versions = word(&VERSIONS, name, value)?,
            "zisofs" => self.keeps_compressed = !word(&SWITCH, name, value)?,
            "uid" => self.owner.uid = Some(number(name, value)?),
            "gid" => self.owner.gid = Some(number(name, value)?),
            "mode" => self.owner.mode = Some(permissions(name, value)?),
            "dmode" => self.owner.directory_mode = Some(permissions(name, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the options off the end of `IMAGE?NAME=VALUE&...`; returns the rest, which may have
    /// options of a URL.
    pub fn take<'a>(&mut self, text: &'a str) -> Result<std::borrow::Cow<'a, str>, String> {
        let Some((image, list)) = text.rsplit_once('?') else {
            return Ok(text.into());
        };
        let mut others = Vec::new();
        for option in list.split('&') {
            match option.split_once('=') {
                Some((name, value)) if self.set(name, value)? => {}
                _ => others.push(option),
            }
        }
        if others.is_empty() {
            return Ok(image.into());
        }
        Ok(format!("{image}?{}", others.join("&")).into())
    }
}

fn word<T: Copy>(words: &[(&str, T)], name: &str, value: &str) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{name}={value}: one of {} is wanted", words.join(", "))
    })
}

fn session(value: &str) -> Result<Session, String> {
    let number = match value {
        "last" => return Ok(Session::Last),
        number => number.parse().ok().filter(|number| *number > 0),
    };
    let wanted = || format!("session={value}: last, or a number from 1 is wanted");
    number.map(Session::Number).ok_or_else(wanted)
}

fn charset(value: &str) -> Result<Charset, String> {
    let unknown = || format!("charset={value}: no such character set is known");
    Charset::named(value).ok_or_else(unknown)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    let number = value.parse();
    number.map_err(|_| format!("{name}={value}: a number is wanted"))
}

fn permissions(name: &str, value: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(value, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("{name}={value}: an octal mode such as 0755 is wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> (String, DiscOptions) {
        let mut options = DiscOptions::default();
        let rest = options.take(text).unwrap().into_owned();
        (rest, options)
    }

    #[test]
    fn options_are_taken_and_others_stay() {
        let (rest, options) = taken("/srv/a?b.iso?tree=udf&session=2&case=keep&uid=7&dmode=0750");
        assert_eq!(rest, "/srv/a?b.iso");
        assert_eq!(options.tree, Some(TreeName::Udf));
        assert_eq!(
            (options.case, options.session),
            (Case::Keep, Session::Number(2))
        );
        assert_eq!((options.owner.uid, options.owner.gid), (Some(7), None));
        assert_eq!(options.owner.directory_mode, Some(0o750));
        let (rest, options) = taken("https://h/x.iso?token=a=b&tree=auto");
        assert_eq!(rest, "https://h/x.iso?token=a=b");
        assert_eq!(options, DiscOptions::default());
        for whole in ["x.iso", "x?y", "x?y=1", "https://h/?a&b"] {
            assert_eq!(taken(whole), (whole.to_owned(), DiscOptions::default()));
        }
    }

    #[test]
    fn what_an_option_does_not_take_is_an_error_with_what_it_takes() {
        for (text, part) in [
            ("x?tree=hfs", "udf, rr, iso1999, joliet, iso"),
            ("x?case=", "auto, lower, upper, keep"),
            ("x?track=one", "a number"),
            ("x?partition=sda1", "a number"),
            ("x?session=0", "from 1"),
            ("x?session=first", "from 1"),
            ("x?charset=klingon", "no such character set"),
            ("x?uid=me", "a number"),
            ("x?mode=0999", "0755"),
            ("x?dmode=17777", "0755"),
        ] {
            let error = DiscOptions::default().take(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn each_option_that_is_documented_is_one() {
        for (form, _) in OPTIONS {
            let (name, values) = form.split_once('=').unwrap();
            let value = match values {
                "NUMBER" => "7",
                "NAME" => "shift_jis",
                "OCTAL" => "0755",
                words => words.split('|').next().unwrap(),
            };
            assert_eq!(DiscOptions::default().set(name, value), Ok(true), "{form}");
        }
        for (word, name) in TREES {
            assert_eq!(name.word(), word);
        }
    }
}
