//! What `pagewell mount` is to mount.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow};
use pagewell_base::files::folder_of;
use pagewell_fuse::mounted_on;

use super::mount::MountArguments;
use crate::configuration::mounts::Mounts;
use crate::failure::{Outcome, report, usage};
use crate::source::Source;

const NAMED_MAX: usize = 5;

/// The beginnings of options with a path.
const PATHS: [&str; 4] = ["cache_dir=", "staging_dir=", "http_token=", "http=unix:"];

pub(super) struct Chosen {
    pub(super) source: Source,
    pub(super) shown: String,
    pub(super) place: PathBuf,
    /// Lists of options in the words of mount(8); a later one counts.
    pub(super) options: Vec<String>,
}

impl Chosen {
    /// What `arguments` ask for.
    ///
    /// # Errors
    ///
    /// They make no sense, or the file has no such mount.
    pub(super) fn of(arguments: &MountArguments) -> anyhow::Result<Self> {
        let first = arguments.source.clone().unwrap_or_default();
        let place = arguments.place.clone();
        match (&arguments.config, place) {
            (None, place) => Ok(Self {
                source: Source::parse(&first)?,
                shown: first.to_string_lossy().into_owned(),
                // clap requires it here.
                place: place.unwrap_or_default(),
                options: arguments.options.clone(),
            }),
            (Some(_), Some(_)) => Err(usage(
                "with --config only the directory is named: its source is in the file",
            )),
            (Some(file), None) => {
                let mut chosen = configured(file, Path::new(&first))?;
                chosen.options.extend(arguments.options.iter().cloned());
                Ok(chosen)
            }
        }
    }
}

fn configured(file: &Path, directory: &Path) -> anyhow::Result<Chosen> {
    let (mounts, mistakes) = Mounts::read(file)?;
    if let Some(table) = mounts.at(directory) {
        let (source, shown) = table.source.value.clone();
        let folder = folder_of(file);
        let options = table.options.as_ref();
        let options = options.map(|options| in_folder(&options.value, folder));
        return Ok(Chosen {
            source,
            shown: shown.to_string_lossy().into_owned(),
            place: table.directory.value.clone(),
            options: options.into_iter().collect(),
        });
    }
    // The mount may be one with a mistake.
    mistakes
        .into_result(())
        .map_err(|mistakes| mistakes.report())?;
    let tables = mounts.tables.iter().take(NAMED_MAX);
    let there: Vec<String> = tables
        .map(|table| table.directory.value.display().to_string())
        .collect();
    let there = match &there[..] {
        [] => "it has no [[mount]]".to_owned(),
        there => format!("there are {}", there.join(", ")),
    };
    let (file, directory) = (file.display(), directory.display());
    Err(anyhow!("{file}: no mount is at {directory}: {there}"))
}

/// A list of options whose relative paths are in this folder.
fn in_folder(list: &str, folder: &Path) -> String {
    let options = list.split(',').map(|option| {
        let placed = |start: &str| {
            let path = option.strip_prefix(start)?;
            (!path.is_empty()).then(|| format!("{start}{}", folder.join(path).display()))
        };
        let placed = PATHS.into_iter().find_map(placed);
        placed.unwrap_or_else(|| option.to_owned())
    });
    options.collect::<Vec<_>>().join(",")
}

/// Mounts each by a process of its own, so that one that fails hinders no other.
pub(super) fn mount_all(arguments: &MountArguments) -> anyhow::Result<Outcome> {
    let file = arguments.config.as_deref().unwrap_or(Path::new(""));
    let (mounts, mistakes) = Mounts::read(file)?;
    let mistakes = mistakes.lines();
    let mut failures = mistakes.len() as u64;
    mistakes.iter().for_each(|line| report(line));
    let program = std::env::current_exe().context("cannot find this program")?;
    for table in &mounts.tables {
        let place = &table.directory.value;
        let options = table.options.as_ref().map(|options| &*options.value);
        let is_wanted = options.is_none_or(|list| list.split(',').all(|one| one != "noauto"));
        if !is_wanted || is_mounted(place) {
            continue;
        }
        let words = std::env::args_os().skip(1).filter(|word| word != "--all");
        match Command::new(&program).args(words).arg(place).status() {
            // The process has said what was wrong.
            Ok(status) => failures += u64::from(!status.success()),
            Err(error) => {
                report(&format!("{}: {error}", program.display()));
                failures += 1;
            }
        }
    }
    Ok(Outcome::from_failures(failures))
}

/// Whether there is a mount of FUSE whose program is not known to be gone.
fn is_mounted(place: &Path) -> bool {
    let place = place.canonicalize();
    let entry = place.ok().and_then(|place| mounted_on(&place));
    entry.is_some_and(|entry| entry.kind.starts_with("fuse") && !entry.has_died())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_options_are_in_the_folder_of_the_file() {
        let list = "ro,cache_dir=pages,staging_dir=/s,http_token=a/t,http=unix:page,cache=1g,\
                    http=localhost:80,cache_dir=";
        let expected = "ro,cache_dir=/etc/p/pages,staging_dir=/s,http_token=/etc/p/a/t,\
                        http=unix:/etc/p/page,cache=1g,http=localhost:80,cache_dir=";
        assert_eq!(in_folder(list, Path::new("/etc/p")), expected);
        assert_eq!(in_folder("", Path::new("/etc/p")), "");
    }
}
