//! `pagewell cp`.

use std::ffi::OsString;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use pagewell_fs::{Entry, FileType};

use crate::copy::rules::{Existing, Keep, Rules};
use crate::copy::{Copier, Target};
use crate::engine::{Engine, EngineArguments};
use crate::failure::{self, Outcome};
use crate::location::{Follow, Location, Place, is_directory};
use crate::open::Purpose;

/// Copy files and directories between any two locations, as cp(1) does.
///
/// The last LOCATION is the target: a directory to copy into, or the name of the copy. A new file
/// has the permissions of the original that the umask leaves; -p and -a keep more. Existing files
/// are overwritten, directories are merged, and nothing replaces a directory, a special file or a
/// copy that the same command has made. With -r symbolic links are copied as links, without it what
/// they lead to is copied, and devices are only copied with -p or -a. The root of an ISO image has
/// no name: its contents are copied.
///
/// A disk image (image:PATH) as the target is written to, from its first byte: it keeps its length,
/// which must be enough, its name and its permissions, and what is behind the copy.
///
/// One failure does not end the work, except of a target that is full or read-only. When the
/// command ends by itself, everything copied has been brought to the device, see --sync; when a
/// signal ends it, that is not certain of anything, and up to a few files are not complete.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
#[command(after_help = "\
Examples:
  pagewell cp debian.iso::/boot/vmlinuz .     one file out of an image
  pagewell cp -r debian.iso unpacked          all of an image, into a new directory
  pagewell cp image:/dev/sdb disk.img         all bytes of a block device
  pagewell cp disk.img image:/dev/sdb         and back: over what is there
  pagewell cp -a /srv/data /backup            with owners, times, links and attributes
  pagewell cp -au /srv/data /backup           again: what has become newer")]
pub(crate) struct CpArguments {
    /// Copy directories and all that is in them
    #[arg(short, visible_short_alias = 'R', long)]
    recursive: bool,
    /// The same, and keep all that can be kept: -dR --preserve=all
    #[arg(short, long)]
    archive: bool,
    /// Copy symbolic links as links, and keep hard links among the files: -P --preserve=links
    #[arg(short = 'd')]
    links: bool,
    /// Copy symbolic links as links
    #[arg(short = 'P', long)]
    no_dereference: bool,
    /// Keep mode, ownership, timestamps and access control lists
    #[arg(short = 'p')]
    usual: bool,
    /// Keep these, of mode, ownership, timestamps, links, xattr and all [without a list: as -p]
    #[arg(
        long,
        value_name = "LIST",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "mode,ownership,timestamps",
        value_parser = Keep::parse
    )]
    preserve: Vec<Keep>,
    /// Leave files that are there as they are
    #[arg(short, long, overrides_with = "update")]
    no_clobber: bool,
    /// Leave files that are there and not older than the original as they are
    #[arg(short, long)]
    update: bool,
    /// Name each copy on standard output
    #[arg(short, long)]
    verbose: bool,
    /// When copies in a directory of this machine are on the device: all together when the command
    /// ends (a few files by themselves, more with their whole file system), or some time later, as
    /// after cp(1) and tar(1). Copies in images and on servers always are when it ends
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = SyncWhen::End)]
    sync: SyncWhen,
    /// What to copy, and the target last
    #[arg(
        value_name = "LOCATION",
        required = true,
        num_args = 2..,
        value_hint = clap::ValueHint::AnyPath
    )]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SyncWhen {
    /// When the command ends
    End,
    /// When the system writes it
    Never,
}

impl CpArguments {
    fn is_recursive(&self) -> bool {
        self.recursive || self.archive
    }

    fn rules(&self, umask: u32, several: bool) -> Rules {
        let asked = [(self.usual, Keep::USUAL), (self.archive, Keep::ALL)];
        let asked = asked.iter().filter(|(is_asked, _)| *is_asked);
        let all = self.preserve.iter().chain(asked.map(|(_, keep)| keep));
        let mut keep = all.fold(Keep::default(), |keep, more| keep.and(*more));
        keep.links |= self.links;
        Rules {
            keep,
            existing: if self.no_clobber {
                Existing::Stay
            } else if self.update {
                Existing::Update
            } else {
                Existing::Overwrite
            },
            verbose: self.verbose,
            umask,
            syncs: self.sync == SyncWhen::End,
            several,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &CpArguments) -> anyhow::Result<Outcome> {
    // Opening a directory sets it to 0: modes are then those that are asked for.
    let umask = rustix::process::umask(rustix::fs::Mode::empty()).as_raw_mode();
    let locations = Location::parse_all(&arguments.locations)?;
    let Some((target, sources)) = locations.split_last() else {
        return Err(failure::usage("cp needs a source and a target"));
    };
    let engine = Engine::command(&arguments.engine)?;
    let target = target.open(Follow::Always, Purpose::Fill, &engine)?;
    let into = target.entry.filter(is_directory);
    if sources.len() > 1 && into.is_none() {
        bail!(
            "{}: is not a directory to copy several into",
            target.shown()
        );
    }
    let keeps_links = arguments.is_recursive() || arguments.links || arguments.no_dereference;
    let follow = if keeps_links {
        Follow::Never
    } else {
        Follow::Always
    };
    let rules = arguments.rules(umask, sources.len() > 1);
    let mut copier = Copier::new(&target, rules);
    for source in sources {
        if copier.has_ended() {
            break;
        }
        let copied = source
            .open_existing(follow, &engine)
            .and_then(|(place, entry)| {
                check(&place, &entry, arguments)?;
                copy(&place, &entry, &target, into.as_ref(), &mut copier)
            });
        if let Err(error) = copied {
            copier.fail(&failure::one_line(&error));
        }
    }
    copier.finish().with_context(|| target.shown())
}

/// Refuses what is copied only when it is asked for.
fn check(place: &Place, entry: &Entry, arguments: &CpArguments) -> anyhow::Result<()> {
    let recursive = arguments.is_recursive();
    match entry.attributes.file_type {
        FileType::Directory if !recursive => {
            bail!("{}: is a directory (-r copies directories)", place.shown())
        }
        FileType::Directory | FileType::Regular => Ok(()),
        FileType::Symlink if arguments.links || arguments.no_dereference => Ok(()),
        _ if recursive => Ok(()),
        _ => bail!("{}: is not a regular file", place.shown()),
    }
}

fn copy(
    place: &Place,
    entry: &Entry,
    target: &Place,
    into: Option<&Entry>,
    copier: &mut Copier,
) -> anyhow::Result<()> {
    let to = match into {
        Some(directory) if place.copy_name.is_empty() => {
            let into = (directory, target.label_below.as_slice());
            return copier.directory_contents(place, entry, into);
        }
        Some(directory) => Target {
            directory: directory.id,
            name: place.copy_name.clone(),
            label: target.label_of(&place.copy_name),
        },
        None if target.means_directory && !is_directory(entry) => {
            bail!("{}: no such directory", target.shown())
        }
        None if target.name.is_empty() => bail!("{}: is not a directory", target.shown()),
        None => Target {
            directory: target.directory,
            name: target.name.clone(),
            label: target.label.clone(),
        },
    };
    copier.object(place, entry, &to);
    Ok(())
}
