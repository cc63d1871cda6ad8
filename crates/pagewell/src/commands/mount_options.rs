//! What `-o` says, in the words of mount(8).

use std::path::PathBuf;
use std::time::Duration;

use pagewell_base::{duration, likeness};
use pagewell_fs::Coherence;
use pagewell_fuse::Options;
use pagewell_monitor::http::place::Place;

use crate::configuration::arguments::THREADS_MAX;
use crate::engine::EngineArguments;
use crate::failure::{one_line, usage};
use crate::gone;
use crate::kinds;
use crate::values;
use crate::writing_arguments::WritingArguments;

const KIND_BYTES_MAX: usize = 64;

/// Words for other programs (mount(8), systemd, readers of fstab), and what is so anyway: no `loop`
/// device is needed, the kernel judges permissions, and no times are kept.
const FOR_OTHERS: &str = "defaults auto noauto nofail _netdev user nouser users owner group loop \
     async atime relatime norelatime strictatime nostrictatime diratime nodiratime lazytime \
     nolazytime silent default_permissions";

/// Letters of a word that may be a misspelling; every word is like some shorter one.
const MEANT_BYTES_MIN: usize = 4;

const FORMS: &str = "ro, rw, allow_other, suid, nosuid, dev, nodev, exec, noexec, noatime, sync, \
     dirsync, uid=N, gid=N, umask=MODE, attr_timeout=TIME, entry_timeout=TIME, \
     negative_timeout=TIME, cache=SIZE, cache_dir=DIR, cache_dir_size=SIZE, threads=N, \
     http=ADDRESS, http_token=FILE, writable, kernel_write_back, passthrough, no_passthrough, \
     numbers_32bit, staging_dir=DIR, staging_dir_size=SIZE, object_writes=WHICH, fsname=NAME, \
     subtype=NAME";

/// The options, from both ways to give them.
pub(super) struct Wanted {
    /// All but the times.
    pub(super) options: Options,
    /// The page cache, as far as `-o` sets it.
    pub(super) engine: EngineArguments,
    pub(super) http: Option<Place>,
    pub(super) http_token: Option<PathBuf>,
    /// A file that is not recognised is written, too.
    pub(super) writable: bool,
    /// How buckets are changed, as far as `-o` sets it.
    pub(super) writing: WritingArguments,
    /// Changes of names and attributes are on the device when they are answered.
    pub(super) changes_are_durable: bool,
    attributes: Option<Duration>,
    names: Option<Duration>,
    missing_names: Option<Duration>,
}

impl Wanted {
    /// These options, and those of `-o`.
    pub(super) fn new(options: Options, lists: &[String]) -> anyhow::Result<Self> {
        let mut wanted = Self {
            options,
            engine: EngineArguments::default(),
            http: None,
            http_token: None,
            writable: false,
            writing: WritingArguments::default(),
            changes_are_durable: false,
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
        match option.split_once('=') {
            None => self.add_word(option),
            Some((name, value)) => self.add_value(option, name, value),
        }
    }

    fn add_word(&mut self, option: &str) -> anyhow::Result<()> {
        let options = &mut self.options;
        match option {
            "ro" => options.read_only = true,
            // It takes back nothing: of two that differ the safe one wins.
            "rw" => {}
            "allow_other" => options.allow_other = true,
            "suid" => options.set_id_works = true,
            "nosuid" => options.set_id_works = false,
            "dev" => options.devices_work = true,
            "nodev" => options.devices_work = false,
            "noexec" => options.no_exec = true,
            "exec" => options.no_exec = false,
            "noatime" => options.no_access_times = true,
            "sync" => {
                options.synchronous = true;
                self.changes_are_durable = true;
            }
            "dirsync" => {
                options.directories_synchronous = true;
                self.changes_are_durable = true;
            }
            "kernel_write_back" => options.kernel_write_back = true,
            "passthrough" => options.passthrough = true,
            "no_passthrough" => options.passthrough = false,
            "numbers_32bit" => options.narrow_numbers = true,
            "writable" => self.writable = true,
            _ if option.starts_with("x-") || FOR_OTHERS.split(' ').any(|one| one == option) => {}
            _ => return Err(unknown(option)),
        }
        Ok(())
    }

    fn add_value(&mut self, option: &str, name: &str, value: &str) -> anyhow::Result<()> {
        let wrong = |reason: String| usage(format!("-o {option}: {reason}"));
        let time = || duration::parse(value).map_err(wrong);
        let options = &mut self.options;
        match name {
            "uid" => options.appearance.uid = Some(number(option, value, 10)?),
            "gid" => options.appearance.gid = Some(number(option, value, 10)?),
            "umask" => {
                let umask = number(option, value, 8)?;
                if umask > 0o777 {
                    return Err(wrong("at most 777".to_owned()));
                }
                options.appearance.umask = Some(umask);
            }
            "attr_timeout" => self.attributes = Some(time()?),
            "entry_timeout" => self.names = Some(time()?),
            "negative_timeout" => self.missing_names = Some(time()?),
            "http" => self.http = Some(values::parse_http_place(value).map_err(wrong)?),
            "http_token" if !value.is_empty() => self.http_token = Some(value.into()),
            "http_token" => return Err(wrong("a file is wanted".to_owned())),
            "threads" => {
                let count = values::parse_count(value, THREADS_MAX).map_err(wrong)?;
                options.threads = usize::try_from(count).unwrap_or(usize::MAX);
            }
            "fsname" if !value.is_empty() => value.clone_into(&mut options.source),
            "subtype" if is_kind(value) => value.clone_into(&mut options.subtype),
            "fsname" | "subtype" => return Err(wrong("a name is wanted".to_owned())),
            _ if name.starts_with("x-") || name == "comment" => {}
            _ if self.writing.set(name, value).map_err(wrong)? => {}
            _ if self.engine.set(name, value).map_err(wrong)? => {}
            _ => return Err(unknown(option)),
        }
        Ok(())
    }

    /// All of them, for a source with these times.
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

/// The error is the first mistake, and what is accepted.
pub(crate) fn check(list: &str) -> Result<(), String> {
    let wanted = Wanted::new(Options::new(""), &[list.to_owned()]);
    wanted.map(|_| ()).map_err(|error| one_line(&error))
}

/// Whether the kernel's list of mounts can show this as a kind of file system.
fn is_kind(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=KIND_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

fn number(option: &str, value: &str, radix: u32) -> anyhow::Result<u32> {
    u32::from_str_radix(value, radix).map_err(|_| usage(format!("-o {option}: a number is wanted")))
}

fn unknown(option: &str) -> anyhow::Error {
    let name = option.split('=').next().unwrap_or_default();
    if let Some(advice) = gone::advice(name) {
        return usage(format!("-o {option}: {advice}"));
    }
    if kinds::is_option_of_a_source(name) {
        return usage(format!(
            "-o {option}: is an option of the source, and stands behind it: SOURCE?{option}"
        ));
    }
    let forms: Vec<&str> = FORMS.split(", ").collect();
    let name_of = |form: &&'static str| form.split('=').next().unwrap_or(form);
    let names: Vec<&str> = forms.iter().map(name_of).collect();
    let meant = likeness::nearest(name, &names).filter(|_| name.len() >= MEANT_BYTES_MIN);
    let hint = forms.iter().find(|form| Some(name_of(form)) == meant);
    let hint = hint.map_or_else(String::new, |form| format!(", did you mean '{form}'?"));
    usage(format!("-o {option}: unknown{hint} (there are {FORMS})"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use pagewell_fuse::Appearance;

    use super::super::mount::MountArguments;
    use super::super::mount_configured::Chosen;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        mount: MountArguments,
    }

    fn wanted(words: &[&str]) -> anyhow::Result<Wanted> {
        let words = ["pagewell"].iter().chain(words).chain(&["ram:1m", "/mnt"]);
        let line = Line::try_parse_from(words).unwrap();
        line.mount.wanted(&Chosen::of(&line.mount)?)
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
    fn every_option_of_the_command_has_a_word_for_fstab() {
        let list = "cache=64m,threads=7,http=127.0.0.1:0,http_token=/t,writable,\
                    kernel_write_back,no_passthrough,passthrough,numbers_32bit,cache_dir=/c,\
                    cache_dir_size=1g";
        let given = wanted(&["-o", list]).unwrap();
        assert_eq!(
            (given.engine.cache_bytes(), given.options.threads),
            (Some(64 << 20), 7)
        );
        assert_eq!(given.engine.cache_dir(), Some(Path::new("/c")));
        assert_eq!(given.engine.cache_dir_size(), Some(1 << 30));
        let place = Place::Tcp("127.0.0.1:0".parse().unwrap());
        assert_eq!(given.http, Some(place));
        assert_eq!(given.http_token, Some(PathBuf::from("/t")));
        assert!(given.writable);
        assert!(given.options.kernel_write_back && given.options.passthrough);
        assert!(given.options.narrow_numbers);
        let given = wanted(&["--numbers-32bit"]).unwrap();
        assert!(given.options.narrow_numbers && !given.options.kernel_write_back);
        assert!(
            !wanted(&["-o", "no_passthrough"])
                .unwrap()
                .options
                .passthrough
        );
        assert!(!wanted(&["--no-passthrough"]).unwrap().options.passthrough);
    }

    #[test]
    fn what_fuse_mounts_take_elsewhere_means_the_same() {
        let plain = wanted(&["-o", "default_permissions,lazytime"]).unwrap();
        assert!(!plain.changes_are_durable && !plain.options.synchronous);
        assert_eq!(plain.options.source, "ram:1m");
        assert_eq!(plain.options.subtype, "pagewell");
        let sync = wanted(&["-o", "sync"]).unwrap();
        assert!(sync.changes_are_durable && sync.options.synchronous);
        let dirsync = wanted(&["-o", "dirsync"]).unwrap();
        assert!(dirsync.changes_are_durable && !dirsync.options.synchronous);
        assert!(dirsync.options.directories_synchronous);
        let named = wanted(&["-o", "fsname=a b,subtype=other-1"])
            .unwrap()
            .options;
        assert_eq!((&*named.source, &*named.subtype), ("a b", "other-1"));
    }

    #[test]
    fn senseless_options_are_named() {
        for (list, named) in [
            ("wr", "-o wr:"),
            (
                "write_degraded",
                "-o write_degraded: write_degraded is gone: ",
            ),
            ("ro,send_path=map", "-o send_path=map: send_path is gone: "),
            ("ro,x=1", "-o x=1: unknown (there are ro, rw, "),
            (
                "cach=64m",
                "-o cach=64m: unknown, did you mean 'cache=SIZE'?",
            ),
            (
                "endpoint=http://h:1",
                "-o endpoint=http://h:1: is an option of the source, and stands behind it: \
                 SOURCE?endpoint=http://h:1",
            ),
            ("soft", "-o soft: is an option of the source"),
            ("cache_dir=", "-o cache_dir=:"),
            ("uid=me", "-o uid=me:"),
            ("umask=8", "-o umask=8:"),
            ("cache=0", "-o cache=0:"),
            ("threads=0", "-o threads=0:"),
            ("http=x:y:z", "-o http=x:y:z:"),
            ("fsname=", "-o fsname=:"),
            ("subtype=a.b", "-o subtype=a.b:"),
            ("writable=1", "-o writable=1:"),
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
