//! What an export argument of `serve` means: `[/EXPORT=]SOURCE`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::failure::usage;
use crate::source::Source;

/// The longest path of MOUNT (RFC 1813 appendix I, `MNTPATHLEN`), in bytes.
const EXPORT_BYTES_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExportArgument {
    /// `/`, or `/` and a name.
    pub(crate) name: String,
    pub(crate) source: Source,
    /// The source as it was given, for messages.
    pub(crate) text: OsString,
}

impl ExportArgument {
    /// The place of an argument that comes later.
    pub(crate) fn nameless() -> Self {
        Self {
            name: String::new(),
            source: Source::of_path(PathBuf::new()),
            text: OsString::new(),
        }
    }
}

/// Parses export arguments: one source without a name is `/`, several need different names.
pub(crate) fn parse_all(arguments: &[OsString]) -> anyhow::Result<Vec<ExportArgument>> {
    let mut exports: Vec<ExportArgument> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let (name, text) = split(argument);
        let name = match name {
            None if lacks_slash(argument) => {
                let shown = argument.display();
                return Err(usage(format!(
                    "{shown}: the name of an export begins with '/', as /{shown}; \
                     a path is written dir:{shown}"
                )));
            }
            Some(name) => parse_name(name)?,
            None if arguments.len() == 1 => "/".to_owned(),
            None => {
                return Err(usage(several(argument, arguments)));
            }
        };
        if text.is_empty() {
            let shown = argument.display();
            return Err(usage(format!(
                "{shown}: the source behind the '=' is empty"
            )));
        }
        if let Some(other) = exports.iter().find(|export| export.name == name) {
            return Err(usage(format!(
                "two exports are named {name}: {} and {}",
                other.text.display(),
                text.display()
            )));
        }
        exports.push(ExportArgument {
            name,
            source: Source::parse(text)?,
            text: text.to_owned(),
        });
    }
    Ok(exports)
}

/// The mistake of a nameless source among others. Of two, the second may be meant as its name.
fn several(source: &OsStr, arguments: &[OsString]) -> String {
    let shown = source.display();
    let text = format!("{shown}: several sources need names, such as /name={shown}");
    let is_name = |other: &OsStr| {
        other.as_bytes().starts_with(b"/") && split(other).0.is_none() && !Path::new(other).exists()
    };
    match arguments {
        [_, second] if is_name(second) => {
            let name = second.display();
            format!("{text}; if {name} is to be its name, write {name}={shown}")
        }
        _ => text,
    }
}

/// Splits `/NAME=SOURCE` at the first `=`. Without `/` at the beginning there is no name; a path
/// with `=` is written `dir:/a=b` or `/name=/a=b`.
fn split(argument: &OsStr) -> (Option<&[u8]>, &OsStr) {
    let bytes = argument.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=');
    match equals {
        Some(at) if bytes.starts_with(b"/") => {
            (Some(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]))
        }
        _ => (None, argument),
    }
}

/// Whether an argument is `NAME=SOURCE` without the slash: behind a word and `=` is a source with a
/// prefix, an absolute path, or an existing path while the whole is none. Else `b=c` is a path.
fn lacks_slash(argument: &OsStr) -> bool {
    let bytes = argument.as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'=') else {
        return false;
    };
    let (name, source) = (&bytes[..at], &bytes[at + 1..]);
    let is_word = !name.iter().any(|byte| b"/:".contains(byte));
    let is_source = match Source::parse(OsStr::from_bytes(source)) {
        Ok(parsed) => parsed.plain_path().is_none_or(|path| {
            path.is_absolute() || (path.exists() && !Path::new(argument).exists())
        }),
        Err(_) => !source.is_empty(),
    };
    is_word && is_source
}

/// Parses the name of an export, which begins with a slash.
pub(crate) fn parse_name(name: &[u8]) -> anyhow::Result<String> {
    let shown = String::from_utf8_lossy(name).into_owned();
    let wrong = |reason: &str| Err(usage(format!("export name '{shown}': {reason}")));
    let Ok(text) = std::str::from_utf8(name) else {
        return wrong("is not UTF-8");
    };
    if text.len() > EXPORT_BYTES_MAX {
        return wrong("is longer than 1024 bytes");
    }
    if text.chars().any(char::is_control) {
        return wrong("has control characters");
    }
    if text == "/" {
        return Ok(text.to_owned());
    }
    let trimmed = text.strip_suffix('/').unwrap_or(text);
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if trimmed.split('/').skip(1).any(odd) {
        return wrong("has an empty part, '.' or '..'");
    }
    Ok(trimmed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, exit_code_of, one_line};

    fn parse(arguments: &[&str]) -> anyhow::Result<Vec<ExportArgument>> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        parse_all(&arguments)
    }

    fn names(arguments: &[&str]) -> Vec<String> {
        let exports = parse(arguments).unwrap();
        exports.into_iter().map(|export| export.name).collect()
    }

    #[test]
    fn one_source_needs_no_name() {
        assert_eq!(names(&["/srv/data"]), ["/"]);
        assert_eq!(names(&["ram:1m"]), ["/"]);
        assert_eq!(names(&["/=ram:1m"]), ["/"]);
        assert_eq!(names(&["/scratch=ram:1m"]), ["/scratch"]);
        assert_eq!(names(&["/a/=ram:1m", "/a/b=ram:1m"]), ["/a", "/a/b"]);
    }

    #[test]
    fn the_first_equals_sign_ends_the_name() {
        let exports = parse(&["/a=/b=c"]).unwrap();
        assert_eq!(exports[0].name, "/a");
        assert_eq!(exports[0].source, Source::of_path("/b=c".into()));
        let exports = parse(&["dir:/b=c"]).unwrap();
        assert_eq!(exports[0].source.kind.prefix, "dir");
        let exports = parse(&["./b=ram:1m"]).unwrap();
        assert_eq!(exports[0].source, Source::of_path("./b=ram:1m".into()));
        let exports = parse(&["nfs://h/e?rsize=64k"]).unwrap();
        assert_eq!(exports[0].source.kind.prefix, "nfs");
        let exports = parse(&["b=c"]).unwrap();
        assert_eq!(exports[0].source, Source::of_path("b=c".into()));
    }

    #[test]
    fn wrong_exports_are_usage_errors_that_say_why() {
        let long = format!("/{}=ram:1m", "x".repeat(1024));
        let cases: [(&[&str], &str); 16] = [
            (&["/a=ram:1m", "ram:1m"], "several sources need names"),
            (&["/a=ram:1m", "/a=ram:2m"], "two exports are named /a"),
            (&["/a=ram:1m", "/a/=ram:2m"], "two exports are named /a"),
            (&["/a//b=ram:1m"], "empty part"),
            (&["//=ram:1m"], "empty part"),
            (&["/../b=ram:1m"], "'..'"),
            (&["/a\nb=ram:1m"], "control"),
            (&[&long], "longer than"),
            (&["/a="], "/a=: the source behind the '=' is empty"),
            (&["a=Cargo.toml"], "as /a=Cargo.toml"),
            (&["=Cargo.toml"], "as /=Cargo.toml"),
            (&["src", "/name"], "write /name=src"),
            (&["src", "tests"], "such as /name=src"),
            (&["a=ram:1m"], "as /a=ram:1m"),
            (&["a=/srv/data", "b=ram:1m"], "as /a=/srv/data"),
            (&["/b=ram:1m", "a=ram:1q"], "begins with '/'"),
        ];
        for (arguments, part) in cases {
            let error = parse(arguments).unwrap_err();
            assert_eq!(exit_code_of(&error), USAGE);
            assert!(one_line(&error).contains(part), "{error}");
        }
    }
}
