//! The command line as a whole.

use clap::Parser;

use crate::commands::Command;
use crate::kinds;

/// Serves files fast: directories, disk images and memory, over NFSv3, as mounts, and on the
/// command line.
#[derive(Debug, Parser)]
#[command(
    name = "pagewell",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = after_help()
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// SOURCE and LOCATION, and examples.
fn after_help() -> String {
    format!("A SOURCE is:\n{}{REST_OF_HELP}", kinds::help())
}

const REST_OF_HELP: &str = "\
A LOCATION is SOURCE, SOURCE::/PATH inside it, or a plain local file. Without ::/PATH, an
image: source is its one file, and a plain local file is read as it is.

Examples:
  pagewell serve /srv/data                      export a directory over NFSv3
  pagewell serve /iso=debian.iso /tmp=ram:1g    export an image and 1 GiB of memory
  pagewell mount debian.iso /mnt                mount an image through FUSE
  pagewell ls -lR debian.iso::/boot             look into an image
  pagewell cp debian.iso::/boot/vmlinuz .       take a file out of it
  pagewell cat nfs://server/export::/a/b        read a file of another server
  pagewell sum image:/dev/sdb                   read a whole device

Exit codes: 0 done, 1 failed, 2 wrong usage.";

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::*;
    use crate::command_line::{is_answer, name_of, one_line};

    fn line(words: &[&str]) -> String {
        let words = std::iter::once("pagewell").chain(words.iter().copied());
        let arguments: Vec<OsString> = words.map(OsString::from).collect();
        let error = Arguments::try_parse_from(&arguments).unwrap_err();
        assert!(!is_answer(&error), "{error}");
        one_line(&error, &name_of(&Arguments::command(), "", &arguments))
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn wrong_command_lines_are_one_line_with_a_way_on() {
        for (arguments, parts) in [
            (
                &["serve", "--lisen", "x", "/srv"][..],
                &["--lisen", "'--listen'", "'pagewell serve --help'"][..],
            ),
            (
                &["severe", "/srv"],
                &["severe", "'serve'", "'pagewell --help'"],
            ),
            (&["serve"], &["SOURCE", "'pagewell serve --help'"]),
            (&["cp", "a"], &["LOCATION", "'pagewell cp --help'"]),
            (
                &["serve", "--squash", "some", "/srv"],
                &["some", "none, root, all"],
            ),
            (
                &["serve", "--squash", "al", "/srv"],
                &["did you mean 'all'?"],
            ),
            (
                &["serve", "--threads", "0", "/srv"],
                &["--threads", "1 to 4096"],
            ),
            (
                &["serve", "--allow", "10.0.0.0/40", "/srv"],
                &["10.0.0.0/40", "serve --help"],
            ),
            (
                &["serve", "--listen", "localhost", "/srv"],
                &["localhost", "127.0.0.1:20490"],
            ),
            (
                &["mount", "--read-onyl", "a", "b"],
                &["--read-onyl", "'--read-only'", "'pagewell mount --help'"],
            ),
            (
                &["mount", "a.iso"],
                &["MOUNTPOINT", "'pagewell mount --help'"],
            ),
            (&["umount"], &["MOUNTPOINT", "'pagewell umount --help'"]),
            (&["serve", "--send-path", "map"], &["--send-path is gone"]),
            (
                &["mount", "--send-path=map", "a", "b"],
                &["--send-path is gone", "leave it out"],
            ),
            (
                &["serve", "--write-degraded", "/srv"],
                &["--write-degraded is gone", "md, LVM"],
            ),
            (&["mirror", "status", "a"], &["mirror is gone", "md, LVM"]),
            (&["unmount"], &["MOUNTPOINT", "'pagewell unmount --help'"]),
            (
                &["counters", "--interval", "0"],
                &["--interval", "100ms to 86400s"],
            ),
        ] {
            let line = line(arguments);
            assert!(!line.contains('\n'), "{line}");
            for part in parts {
                assert!(line.contains(part), "{line} lacks {part}");
            }
        }
    }
}
