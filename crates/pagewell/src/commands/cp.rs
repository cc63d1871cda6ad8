//! `pagewell cp`.

use std::ffi::OsString;

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use pagewell_fs::{Entry, FileType};

use crate::copy::rules::{Dereference, Existing, Keep, Rules};
use crate::copy::{Copier, Target, check_write};
use crate::engine::{Engine, EngineArguments};
use crate::failure::{self, Outcome};
use crate::location::{Follow, Location, Place, is_directory};
use crate::open::Purpose;
use crate::writing_arguments::WritingArguments;
use crate::{stream, stream_file};

/// Where the options for symbolic links stand among the others: behind -d.
const PLACE_IN_HELP: usize = 3;

/// Copy files and directories between any two locations, as cp(1) does.
///
/// The last LOCATION is the target: a directory to copy into, or the name of the copy. A new file
/// has the permissions of the original that the umask leaves; -p and -a keep more. Existing files
/// are overwritten, those that may not be written only with -f, directories are merged, and nothing
/// replaces a directory, a special file or a copy that the same command has made. With -r symbolic
/// links are copied as links, without it what they lead to is copied, and devices are only copied
/// with -p or -a. The root of an ISO image has no name: its contents are copied. A source that is
/// `-` is standard input, as are pipes without -r; their copy has to be named.
///
/// An attribute that is to be kept and that the target refuses costs no other: it is said at the
/// end, and the exit status is 1. The owner of other users' files is only kept by root.
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
  pg_dump shop | pagewell cp - s3://backups::/shop.sql    what a program writes
  pagewell cp -a /srv/data /backup            with owners, times, links and attributes
  pagewell cp -au /srv/data /backup           again: what has become newer")]
pub(crate) struct CpArguments {
    #[command(flatten)]
    dereference: DereferenceArguments,
    /// Copy directories and all that is in them
    #[arg(short, visible_short_alias = 'R', long)]
    recursive: bool,
    /// The same, and keep all that can be kept: -dR --preserve=all
    #[arg(short, long)]
    archive: bool,
    /// Copy symbolic links as links, and keep hard links among the files: -P --preserve=links
    #[arg(short = 'd')]
    links: bool,
    /// Remove a file that is there and cannot be written, and make it anew
    #[arg(short, long)]
    force: bool,
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
    #[command(flatten)]
    writing: WritingArguments,
}

/// Which of -L, -H, -P, -d and -a was given last.
#[derive(Debug)]
struct DereferenceArguments {
    last: Option<Dereference>,
}

impl Args for DereferenceArguments {
    fn augment_args(command: Command) -> Command {
        let flag = |id: &'static str, short: char| {
            let flag = Arg::new(id).short(short).action(ArgAction::SetTrue);
            flag.display_order(PLACE_IN_HELP)
        };
        command
            .arg(flag("no_dereference", 'P').long("no-dereference").help(
                "Copy symbolic links as links, which is what -r does by itself; the last of -P, \
                 -H, -L, -d and -a counts",
            ))
            .arg(flag("given", 'H').help(
                "Copy what symbolic links lead to that are named as a source, and others as links",
            ))
            .arg(flag("dereference", 'L').long("dereference").help(
                "Copy what symbolic links lead to, also those in directories: of a directory of \
                 this machine anywhere, of other sources within the source",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DereferenceArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = [
            ("no_dereference", Dereference::Never),
            ("links", Dereference::Never),
            ("archive", Dereference::Never),
            ("given", Dereference::Given),
            ("dereference", Dereference::Always),
        ];
        let given = given.into_iter().filter(|(id, _)| matches.get_flag(id));
        let last = given.max_by_key(|(id, _)| matches.indices_of(id).and_then(Iterator::max));
        Ok(Self {
            last: last.map(|(_, dereference)| dereference),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
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

    fn dereference(&self) -> Dereference {
        self.dereference.last.unwrap_or(match self.is_recursive() {
            true => Dereference::Never,
            false => Dereference::Always,
        })
    }

    fn rules(&self, umask: u32, several: bool) -> Rules {
        let asked = [(self.usual, Keep::USUAL), (self.archive, Keep::ALL)];
        let asked = asked.iter().filter(|(is_asked, _)| *is_asked);
        let all = self.preserve.iter().chain(asked.map(|(_, keep)| keep));
        let mut keep = all.fold(Keep::default(), |keep, more| keep.and(*more));
        keep.links |= self.links;
        Rules {
            dereference: self.dereference(),
            keep,
            existing: if self.no_clobber {
                Existing::Stay
            } else if self.update {
                Existing::Update
            } else {
                Existing::Overwrite
            },
            forces: self.force,
            verbose: self.verbose,
            umask,
            syncs: self.sync == SyncWhen::End,
            several,
        }
    }
}

pub(crate) fn run(arguments: &CpArguments) -> anyhow::Result<Outcome> {
    // Opening a directory sets the umask to 0: modes are as asked for.
    let umask = rustix::process::umask(rustix::fs::Mode::empty()).as_raw_mode();
    let locations = Location::parse_all(&arguments.locations)?;
    let Some((target, sources)) = locations.split_last() else {
        return Err(failure::usage("cp needs a source and a target"));
    };
    let engine = Engine::command(&arguments.engine, Location::are_remote(&locations))?;
    let engine = engine.with_writing(&arguments.writing, None);
    let target = open_target(target, arguments.force, &engine)?;
    let into = target.entry.filter(is_directory);
    if sources.len() > 1 && into.is_none() {
        bail!(
            "{}: is not a directory to copy several into",
            target.shown()
        );
    }
    let follow = match arguments.dereference() {
        Dereference::Never => Follow::Never,
        Dereference::Given | Dereference::Always => Follow::Always,
    };
    let rules = arguments.rules(umask, sources.len() > 1);
    let mut copier = Copier::new(&target, rules);
    for source in sources {
        if copier.has_ended() {
            break;
        }
        let copied = open_source(source, follow, arguments, &engine)
            .and_then(|(place, entry)| copy(&place, &entry, &target, into.as_ref(), &mut copier));
        if let Err(error) = copied {
            copier.fail(&failure::one_line(&error));
        }
    }
    copier.finish().with_context(|| target.shown())
}

/// Opens the target. With `forces`, a link to a file that cannot be written is not followed, and
/// removed.
fn open_target(location: &Location, forces: bool, engine: &Engine) -> anyhow::Result<Place> {
    let target = location.open(Follow::Always, Purpose::Fill, engine)?;
    let file = target.entry.filter(|entry| {
        forces && entry.attributes.file_type == FileType::Regular && !target.is_image
    });
    match file {
        Some(file) if check_write(&target.tree, &file.id).is_err() => {
            location.open(Follow::Never, Purpose::Fill, engine)
        }
        _ => Ok(target),
    }
}

/// Opens what is copied. A pipe or a terminal is read, unless with -r, which copies what it is.
fn open_source(
    source: &Location,
    follow: Follow,
    arguments: &CpArguments,
    engine: &Engine,
) -> anyhow::Result<(Place, Entry)> {
    if (!arguments.is_recursive() || source.as_given() == b"-")
        && let Some(stream) = stream::of(source)?
    {
        return Ok(stream_file::place(stream, source.as_given()));
    }
    let (place, entry) = source.open_existing(follow, engine)?;
    check(&place, &entry, arguments)?;
    Ok((place, entry))
}

/// Refuses what is copied only on request.
fn check(place: &Place, entry: &Entry, arguments: &CpArguments) -> anyhow::Result<()> {
    let recursive = arguments.is_recursive();
    match entry.attributes.file_type {
        FileType::Directory if !recursive => {
            bail!("{}: is a directory (-r copies directories)", place.shown())
        }
        FileType::Directory | FileType::Regular => Ok(()),
        FileType::Symlink => Ok(()),
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
