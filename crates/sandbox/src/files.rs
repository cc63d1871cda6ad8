//! Paths and TCP ports that the process may use (Landlock).
//!
//! Only what is below a path of the plan can be used. A rule belongs to the object at the path now.
//! Older kernels enforce what they know. `/proc` and `/sys` drop objects, and their rules, when
//! memory is short, so those stay open.
//!
//! Objects opened by handle may have no path. The kernel then judges the top of the mount that
//! opened them: the export, if it has a private mount. Kernels with erratum 3 (before Linux 6.19,
//! unless backported) refuse them all. There, and without a private mount, opening stays free, and
//! only names are confined; [`Part`] says so.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Erratum,
    LandlockStatus, NetPort, PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use pagewell_counters::names;

use crate::{Access, Part, Plan};

/// Newer kinds of access are not refused.
const KNOWN: ABI = ABI::V6;
/// They keep objects only while these are open.
const FORGETFUL: [&str; 2] = ["/proc", "/sys"];

static KEPT: OnceLock<Vec<File>> = OnceLock::new();

/// The calling thread and its children.
pub(crate) fn confine(plan: &Plan) -> Part {
    if makes_names(plan) && !can_move_names() {
        return none(
            "Landlock is missing here, or would refuse to move files between directories: Linux \
             before 5.19",
        );
    }
    let leaves_opening = plan.opens_by_handle && !finds_without_path(plan);
    match restrict(plan, leaves_opening) {
        Ok(status) => standing(plan, &status, leaves_opening),
        Err(error) => Part::Missing(format!("files and connections are not confined ({error})")),
    }
}

fn makes_names(plan: &Plan) -> bool {
    let is_changed = |(path, access): &(PathBuf, Access)| *access == Access::Write && path.is_dir();
    plan.paths.iter().any(is_changed)
}

/// Landlock's first version refuses moves and links between directories, whatever the rules.
fn can_move_names() -> bool {
    let asked = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    asked.handle_access(AccessFs::Refer).is_ok()
}

/// Whether the kernel judges an object without a path by its export.
fn finds_without_path(plan: &Plan) -> bool {
    plan.makes_private_mounts && Erratum::current().contains(Erratum::DisconnectedDirectoryHandling)
}

fn opening() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | IoctlDev})
}

fn restrict(plan: &Plan, leaves_opening: bool) -> Result<RestrictionStatus, RulesetError> {
    let mut handled = AccessFs::from_all(KNOWN);
    if leaves_opening {
        handled &= !opening();
    }
    let mut ruleset = Ruleset::default().handle_access(handled)?;
    if plan.listen_ports.is_some() {
        ruleset = ruleset.handle_access(AccessNet::BindTcp)?;
    }
    if !plan.connects {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    // Connected sockets stay usable.
    let scopes = Scope::Signal | Scope::AbstractUnixSocket;
    let mut created = ruleset.scope(scopes)?.create()?;
    let mut kept = Vec::new();
    for (path, access) in &plan.paths {
        created = allow(created, path, *access, handled, &mut kept)?;
    }
    for port in plan.listen_ports.iter().flatten() {
        created = created.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    let status = created.restrict_self()?;
    let _ = KEPT.set(kept);
    Ok(status)
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: Access,
    handled: BitFlags<AccessFs>,
    kept: &mut Vec<File>,
) -> Result<RulesetCreated, RulesetError> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_PATH);
    let Ok(opened) = options.open(path) else {
        return Ok(ruleset);
    };
    let allowed = match access {
        Access::Read => make_bitflags!(AccessFs::{ReadFile | ReadDir | IoctlDev}),
        Access::Write => AccessFs::from_all(KNOWN) & !AccessFs::Execute,
        Access::Files => make_bitflags!(AccessFs::{MakeReg | WriteFile}),
        Access::Sockets => make_bitflags!(AccessFs::{MakeSock | RemoveFile}),
    };
    let is_directory = opened.metadata().is_ok_and(|found| found.is_dir());
    let allowed = match is_directory {
        true => allowed & handled,
        false => allowed & handled & AccessFs::from_file(KNOWN),
    };
    if allowed.is_empty() {
        return Ok(ruleset);
    }
    let ruleset = ruleset.add_rule(PathBeneath::new(&opened, allowed))?;
    if FORGETFUL.iter().any(|top| path.starts_with(top)) {
        kept.push(opened);
    }
    Ok(ruleset)
}

fn standing(plan: &Plan, status: &RestrictionStatus, leaves_opening: bool) -> Part {
    let abi = match status.landlock {
        LandlockStatus::NotEnabled => {
            return none("Landlock is switched off in this kernel");
        }
        LandlockStatus::NotImplemented => return none("this kernel has no Landlock"),
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return none("Landlock of this kernel has nothing of what is needed");
    }
    let mut lacks = Vec::new();
    if leaves_opening {
        lacks.push(
            "files outside the exports can be opened (as root objects are opened by handle, which \
             Landlock of this kernel would refuse)",
        );
    } else {
        names::SANDBOX_FILES_CONFINED.set(1);
    }
    let wants_tcp = plan.listen_ports.is_some() && !plan.connects;
    match abi >= ABI::V4 {
        true if wants_tcp => names::SANDBOX_TCP_CONFINED.set(1),
        false if wants_tcp => lacks.push("TCP is not confined (Linux before 6.7)"),
        _ => {}
    }
    match lacks.is_empty() {
        true => Part::Holds,
        false => Part::Partly(lacks.join("; ")),
    }
}

fn none(why: &str) -> Part {
    Part::Missing(format!("files and connections are not confined ({why})"))
}
