//! `pagewell cp`.

use std::ffi::OsString;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use pagewell_fs::{Entry, FileType};

use crate::copy::{Copier, Target};
use crate::engine::{Engine, EngineArguments};
use crate::failure::{self, Outcome};
use crate::location::{Follow, Location, Place};
use crate::open::Purpose;

/// Copy files and directories between any two locations.
///
/// The last LOCATION is the target: a directory to copy into, or the name of the copy. A copy
/// has the permissions and the modification time of the original. Existing files are
/// overwritten, directories are merged, and nothing replaces a directory or a special file.
/// With -r symbolic links are copied as links, without it what they lead to is copied. The root
/// of an ISO image has no name: its contents are copied. A disk image (image:PATH) as the target
/// is written to, from its first byte: it keeps its length, which must be enough, its name and its
/// permissions, and what is behind the copy. One failure does not end the work; at the
/// end everything copied has been brought to the device.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell cp debian.iso::/boot/vmlinuz .     one file out of an image
  pagewell cp -r debian.iso unpacked          all of an image, into a new directory
  pagewell cp image:/dev/sdb disk.img         all bytes of a block device
  pagewell cp disk.img image:/dev/sdb         and back: over what is there
  pagewell cp -rp /srv/data /backup           with owners and access times")]
pub(crate) struct CpArguments {
    /// Copy directories and all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Keep owner, group, access time and the set-id and sticky bits, too
    #[arg(short, long)]
    preserve: bool,
    /// What to copy, and the target last
    #[arg(value_name = "LOCATION", required = true, num_args = 2..)]
    locations: Vec<OsString>,
    #[command(flatten)]
    engine: EngineArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &CpArguments) -> anyhow::Result<Outcome> {
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
    let follow = if arguments.recursive {
        Follow::Never
    } else {
        Follow::Always
    };
    let mut copier = Copier::new(&target, arguments.preserve);
    for source in sources {
        let copied = source
            .open_existing(follow, &engine)
            .and_then(|(place, entry)| {
                copy(
                    &place,
                    &entry,
                    &target,
                    into,
                    arguments.recursive,
                    &mut copier,
                )
            });
        if let Err(error) = copied {
            copier.fail(&failure::one_line(&error));
        }
    }
    copier.finish().with_context(|| target.shown())
}

fn is_directory(entry: &Entry) -> bool {
    entry.attributes.file_type.is_directory()
}

fn copy(
    place: &Place,
    entry: &Entry,
    target: &Place,
    into: Option<Entry>,
    recursive: bool,
    copier: &mut Copier,
) -> anyhow::Result<()> {
    match entry.attributes.file_type {
        FileType::Directory if !recursive => {
            bail!("{}: is a directory (-r copies directories)", place.shown())
        }
        FileType::Directory | FileType::Regular => {}
        _ if recursive => {}
        _ => bail!("{}: is not a regular file", place.shown()),
    }
    let to = match into {
        Some(directory) if place.copy_name.is_empty() => {
            return copier.directory_contents(place, entry, &directory);
        }
        Some(directory) => Target {
            directory: directory.id,
            name: place.copy_name.clone(),
            label: target.label_of(&place.copy_name),
        },
        None if target.name.is_empty() => {
            return Err(anyhow!("{}: is not a directory", target.shown()));
        }
        None => Target {
            directory: target.directory,
            name: target.name.clone(),
            label: target.label.clone(),
        },
    };
    copier.object(place, entry, &to)
}
