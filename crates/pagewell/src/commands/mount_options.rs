//! What `-o` says, in the words of mount(8).

use std::time::Duration;

use pagewell_base::duration;
use pagewell_fs::Coherence;
use pagewell_fuse::{Appearance, Options};

use super::mount::MountArguments;
use crate::failure::usage;

/// What others act upon: mount(8), systemd and those who read fstab. `sync` asks for less than
/// this does anyway, and a `loop` device is not needed.
const FOR_OTHERS: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "loop",
    "async",
    "atime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "nolazytime",
    "silent",
];

/// The options, from both ways to give them.
pub(super) struct Wanted {
    pub(super) read_only: bool,
    allow_other: bool,
    allow_privileges: bool,
    no_exec: bool,
    no_access_times: bool,
    appearance: Appearance,
    threads: u32,
    kernel_write_back: bool,
    passthrough: bool,
    attributes: Option<Duration>,
    names: Option<Duration>,
    missing_names: Option<Duration>,
}

impl Wanted {
    pub(super) fn of(arguments: &MountArguments) -> anyhow::Result<Self> {
        let mut wanted = Self {
            read_only: arguments.read_only,
            allow_other: arguments.allow_other,
            allow_privileges: false,
            no_exec: false,
            no_access_times: false,
            appearance: Appearance::default(),
            threads: arguments.threads,
            kernel_write_back: arguments.kernel_write_back,
            passthrough: !arguments.no_passthrough,
            attributes: None,
            names: None,
            missing_names: None,
        };
        let options = arguments.options.iter().flat_map(|list| list.split(','));
        for option in options.filter(|option| !option.is_empty()) {
            wanted.add(option)?;
        }
        Ok(wanted)
    }

    fn add(&mut self, option: &str) -> anyhow::Result<()> {
        let time = |value: &str| {
            duration::parse(value).map_err(|reason| usage(format!("-o {option}: {reason}")))
        };
        match option.split_once('=') {
            None => match option {
                "ro" => self.read_only = true,
                // The default. It takes back nothing: the safe one of two that differ wins.
                "rw" => {}
                "allow_other" => self.allow_other = true,
                "suid" | "dev" => self.allow_privileges = true,
                "nosuid" | "nodev" => self.allow_privileges = false,
                "noexec" => self.no_exec = true,
                "exec" => self.no_exec = false,
                "noatime" => self.no_access_times = true,
                _ if FOR_OTHERS.contains(&option) || option.starts_with("x-") => {}
                _ => return Err(unknown(option)),
            },
            Some(("uid", value)) => self.appearance.uid = Some(number(option, value, 10)?),
            Some(("gid", value)) => self.appearance.gid = Some(number(option, value, 10)?),
            Some(("umask", value)) => {
                let umask = number(option, value, 8)?;
                if umask > 0o777 {
                    return Err(usage(format!("-o {option}: at most 777")));
                }
                self.appearance.umask = Some(umask);
            }
            Some(("attr_timeout", value)) => self.attributes = Some(time(value)?),
            Some(("entry_timeout", value)) => self.names = Some(time(value)?),
            Some(("negative_timeout", value)) => self.missing_names = Some(time(value)?),
            Some((name, _)) if name.starts_with("x-") || name == "comment" => {}
            Some(_) => return Err(unknown(option)),
        }
        Ok(())
    }

    pub(super) fn options(&self, source: &str, coherence: Coherence) -> Options {
        Options {
            read_only: self.read_only,
            allow_other: self.allow_other,
            allow_privileges: self.allow_privileges,
            no_exec: self.no_exec,
            no_access_times: self.no_access_times,
            appearance: self.appearance,
            threads: usize::try_from(self.threads).unwrap_or(usize::MAX),
            kernel_write_back: self.kernel_write_back,
            passthrough: self.passthrough,
            coherence: Some(Coherence {
                attributes: self.attributes.unwrap_or(coherence.attributes),
                names: self.names.unwrap_or(coherence.names),
                missing_names: self.missing_names.unwrap_or(coherence.missing_names),
            }),
            ..Options::new(source)
        }
    }
}

fn number(option: &str, value: &str, radix: u32) -> anyhow::Result<u32> {
    u32::from_str_radix(value, radix).map_err(|_| usage(format!("-o {option}: a number is wanted")))
}

fn unknown(option: &str) -> anyhow::Error {
    usage(format!(
        "-o {option}: unknown (there are ro, rw, allow_other, suid, nosuid, dev, nodev, exec, \
         noexec, noatime, uid=N, gid=N, umask=MODE, attr_timeout=TIME, entry_timeout=TIME and \
         negative_timeout=TIME)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        mount: MountArguments,
    }

    fn wanted(words: &[&str]) -> anyhow::Result<Wanted> {
        let words = ["pagewell"].iter().chain(words).chain(&["ram:1m", "/mnt"]);
        Wanted::of(&Line::try_parse_from(words).unwrap().mount)
    }

    #[test]
    fn options_of_both_kinds_mean_the_same() {
        for words in [
            &["--read-only", "--allow-other"][..],
            &["-o", "ro,allow_other"],
        ] {
            let wanted = wanted(words).unwrap();
            assert!(wanted.read_only && wanted.allow_other && wanted.passthrough);
        }
        for words in [&["-o", "ro,rw"][..], &["--read-only", "-o", "rw"]] {
            assert!(self::wanted(words).unwrap().read_only);
        }
        let wanted = wanted(&["-o", "rw,,", "-o", "attr_timeout=1.5,suid"]).unwrap();
        assert!(!wanted.read_only && wanted.allow_privileges);
        let options = wanted.options("x", Coherence::UNCHANGED);
        let coherence = options.coherence.unwrap();
        assert_eq!(coherence.attributes, Duration::from_millis(1500));
        assert_eq!(coherence.names, Coherence::UNCHANGED.names);
    }

    #[test]
    fn a_line_of_fstab_means_what_it_does_elsewhere() {
        let list = "defaults,noatime,nofail,_netdev,user,x-systemd.automount,x-a=b,loop,uid=1000,\
                    gid=100,umask=022";
        let wanted = wanted(&["-o", list]).unwrap();
        let options = wanted.options("x", Coherence::UNCHANGED);
        let expected = Appearance {
            uid: Some(1000),
            gid: Some(100),
            umask: Some(0o22),
        };
        assert_eq!(
            (options.appearance, options.no_access_times),
            (expected, true)
        );
    }

    #[test]
    fn senseless_options_are_named() {
        for (list, named) in [
            ("wr", "-o wr:"),
            ("ro,x=1", "-o x=1:"),
            ("uid=me", "-o uid=me:"),
            ("umask=8", "-o umask=8:"),
            ("umask=1777", "-o umask=1777:"),
            ("attr_timeout=-1", "-o attr_timeout=-1:"),
            ("entry_timeout=1e300", "-o entry_timeout=1e300:"),
            ("negative_timeout=NaN", "-o negative_timeout=NaN:"),
        ] {
            let error = wanted(&["-o", list]).err().unwrap().to_string();
            assert!(error.starts_with(named), "{error}");
        }
    }
}
