//! What `-o` says, in the words of mount(8).

use std::time::Duration;

use pagewell_base::duration;
use pagewell_fs::Coherence;
use pagewell_fuse::Options;

use crate::failure::usage;

/// What other programs act upon: mount(8), systemd and all that read fstab. A `loop` device is not
/// needed. `sync` and `dirsync` are refused, as what is written goes to the device later.
const FOR_OTHERS: &str = "defaults auto noauto nofail _netdev user nouser users owner group loop \
     async atime relatime norelatime strictatime nostrictatime diratime nodiratime nolazytime \
     silent";

/// The options, from both ways to give them.
pub(super) struct Wanted {
    /// All but the times.
    pub(super) options: Options,
    attributes: Option<Duration>,
    names: Option<Duration>,
    missing_names: Option<Duration>,
}

impl Wanted {
    /// These options, and what `-o` says in each of the lists.
    pub(super) fn new(options: Options, lists: &[String]) -> anyhow::Result<Self> {
        let mut wanted = Self {
            options,
            attributes: None,
            names: None,
            missing_names: None,
        };
        let options = lists.iter().flat_map(|list| list.split(','));
        for option in options.filter(|option| !option.is_empty()) {
            wanted.add(option)?;
        }
        Ok(wanted)
    }

    fn add(&mut self, option: &str) -> anyhow::Result<()> {
        let time = |value: &str| {
            duration::parse(value).map_err(|reason| usage(format!("-o {option}: {reason}")))
        };
        let options = &mut self.options;
        match option.split_once('=') {
            None => match option {
                "ro" => options.read_only = true,
                // The default. It takes back nothing: the safe one of two that differ wins.
                "rw" => {}
                "allow_other" => options.allow_other = true,
                "suid" => options.set_id_works = true,
                "nosuid" => options.set_id_works = false,
                "dev" => options.devices_work = true,
                "nodev" => options.devices_work = false,
                "noexec" => options.no_exec = true,
                "exec" => options.no_exec = false,
                "noatime" => options.no_access_times = true,
                _ if option.starts_with("x-") || FOR_OTHERS.split(' ').any(|one| one == option) => {
                }
                _ => return Err(unknown(option)),
            },
            Some(("uid", value)) => options.appearance.uid = Some(number(option, value, 10)?),
            Some(("gid", value)) => options.appearance.gid = Some(number(option, value, 10)?),
            Some(("umask", value)) => {
                let umask = number(option, value, 8)?;
                if umask > 0o777 {
                    return Err(usage(format!("-o {option}: at most 777")));
                }
                options.appearance.umask = Some(umask);
            }
            Some(("attr_timeout", value)) => self.attributes = Some(time(value)?),
            Some(("entry_timeout", value)) => self.names = Some(time(value)?),
            Some(("negative_timeout", value)) => self.missing_names = Some(time(value)?),
            Some((name, _)) if name.starts_with("x-") || name == "comment" => {}
            Some(_) => return Err(unknown(option)),
        }
        Ok(())
    }

    /// All of them, of a source with these times.
    pub(super) fn options(self, usual: Coherence) -> Options {
        Options {
            coherence: Some(Coherence {
                attributes: self.attributes.unwrap_or(usual.attributes),
                names: self.names.unwrap_or(usual.names),
                missing_names: self.missing_names.unwrap_or(usual.missing_names),
            }),
            ..self.options
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
    use clap::Parser;
    use pagewell_fuse::Appearance;

    use super::super::mount::MountArguments;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        mount: MountArguments,
    }

    fn wanted(words: &[&str]) -> anyhow::Result<Wanted> {
        let words = ["pagewell"].iter().chain(words).chain(&["ram:1m", "/mnt"]);
        Line::try_parse_from(words).unwrap().mount.wanted()
    }

    #[test]
    fn options_of_both_kinds_mean_the_same() {
        for words in [
            &["--read-only", "--allow-other"][..],
            &["-o", "ro,allow_other"],
        ] {
            let wanted = wanted(words).unwrap().options;
            assert!(wanted.read_only && wanted.allow_other && wanted.passthrough);
        }
        for words in [&["-o", "ro,rw"][..], &["--read-only", "-o", "rw"]] {
            assert!(self::wanted(words).unwrap().options.read_only);
        }
        let wanted = wanted(&["-o", "rw,,", "-o", "attr_timeout=1.5,suid"]).unwrap();
        assert!(!wanted.options.read_only);
        let options = wanted.options(Coherence::UNCHANGED);
        let coherence = options.coherence.unwrap();
        assert_eq!(coherence.attributes, Duration::from_millis(1500));
        assert_eq!(coherence.names, Coherence::UNCHANGED.names);
    }

    #[test]
    fn the_last_of_two_opposites_counts_and_says_nothing_of_others() {
        for (list, set_id_works, devices_work) in [
            ("rw", false, false),
            ("suid", true, false),
            ("nodev,suid", true, false),
            ("nosuid,dev", false, true),
            ("dev,suid,nodev", true, false),
            ("nosuid,suid,nodev,dev", true, true),
        ] {
            let options = wanted(&["-o", list]).unwrap().options;
            let works = (options.set_id_works, options.devices_work);
            assert_eq!(works, (set_id_works, devices_work), "{list}");
        }
    }

    #[test]
    fn a_line_of_fstab_means_what_it_does_elsewhere() {
        let list = "defaults,noatime,nofail,_netdev,user,x-systemd.automount,x-a=b,loop,uid=1000,\
                    gid=100,umask=022";
        let wanted = wanted(&["-o", list]).unwrap();
        let options = wanted.options(Coherence::UNCHANGED);
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
