//! System calls that a server never makes, refused by a filter (seccomp).
//!
//! Problem: an attacker in the process goes on with what the kernel offers: other programs,
//! other processes, mounts, name spaces, and rarely used calls that have had defects.
//!
//! Rule: a list of what is refused, not of what is allowed. The latter leaves less to an
//! attacker, but what a server calls is also what its C library and its allocator call, and that
//! changes with each of their versions: a call that is missing breaks a server on somebody's
//! machine after an update. No part of this program makes a call that is refused here. It gets
//! `EPERM`, as from a kernel that does not let it; nothing is killed. `clone3`, whose flags a
//! filter cannot see, is answered with `ENOSYS`, so that the C library uses `clone`, of which
//! only that which makes threads is allowed. Sockets are those of IP, Unix and netlink (which
//! resolvers ask for addresses).
//!
//! The kernel knows of most calls that the filter allows them always, and does not run it then.
//!
//! Weakness: what a ring of io_uring does is no system call.

use std::collections::BTreeMap;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use crate::Part;

/// Programs, processes of others, and what they hold.
const PROCESSES: [i64; 9] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_personality,
];

/// Mounts and name spaces.
const MOUNTS: [i64; 11] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_unshare,
    libc::SYS_setns,
];

/// What a private mount of a directory is made with, and a file system is watched with.
const PRIVATE_MOUNTS: [i64; 4] = [
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
];

/// The kernel itself, and the machine.
const MACHINE: [i64; 27] = [
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_nfsservctl,
];

/// Calls of this processor alone.
#[cfg(target_arch = "x86_64")]
const PROCESSOR: [i64; 6] = [
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
];
#[cfg(not(target_arch = "x86_64"))]
const PROCESSOR: [i64; 0] = [];

/// On x86-64 each call has a second number, for programs of 32 bits with long registers, where the
/// kernel has those.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
/// Numbers of calls that such programs alone have: execve, ptrace, process_vm_readv and
/// process_vm_writev, kexec_load, execveat (arch/x86/entry/syscalls/syscall_64.tbl).
#[cfg(target_arch = "x86_64")]
const X32_ALONE: [i64; 6] = [520, 521, 539, 540, 528, 545];

/// Families of sockets that are used.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// What a filter cannot be made of.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Filter(#[from] seccompiler::BackendError),
    #[error(transparent)]
    Install(#[from] seccompiler::Error),
}

/// Refuses them in the calling thread and all that it starts.
pub(crate) fn refuse(makes_private_mounts: bool) -> Part {
    match install(makes_private_mounts) {
        Ok(()) => Part::Holds,
        Err(error) => Part::Missing(format!("no system call is refused ({error})")),
    }
}

fn install(makes_private_mounts: bool) -> Result<(), Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = rules(makes_private_mounts)?;
    for (rules, errno) in [
        (refused, libc::EPERM),
        (
            with_x32(libc::SYS_clone3)
                .map(|call| (call, Vec::new()))
                .collect(),
            libc::ENOSYS,
        ),
    ] {
        let errno = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, architecture)?;
        let program: seccompiler::BpfProgram = filter.try_into()?;
        seccompiler::apply_filter(&program)?;
    }
    Ok(())
}

/// What is refused: calls, each always or in any of the cases.
fn rules(makes_private_mounts: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, Error> {
    let private: &[i64] = if makes_private_mounts {
        &[]
    } else {
        &PRIVATE_MOUNTS
    };
    let always = [&PROCESSES[..], &MOUNTS, private, &MACHINE, &PROCESSOR].concat();
    let mut rules: BTreeMap<_, _> = always
        .into_iter()
        .flat_map(with_x32)
        .map(|call| (call, Vec::new()))
        .collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend(X32_ALONE.map(|call| (X32 | call, Vec::new())));
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let no_thread = SeccompCmpOp::MaskedEq(thread);
    let process = condition(no_thread, 0)?;
    let mut other_family = Vec::new();
    for family in FAMILIES {
        other_family.push(condition(
            SeccompCmpOp::Ne,
            u64::from(family.cast_unsigned()),
        )?);
    }
    for (call, conditions) in [
        (libc::SYS_clone, vec![process]),
        (libc::SYS_socket, other_family),
    ] {
        for call in with_x32(call) {
            rules.insert(call, vec![SeccompRule::new(conditions.clone())?]);
        }
    }
    Ok(rules)
}

/// One of the first argument.
fn condition(operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    let length = SeccompCmpArgLen::Dword;
    Ok(SeccompCondition::new(0, length, operator, value)?)
}

#[cfg(target_arch = "x86_64")]
fn with_x32(call: i64) -> impl Iterator<Item = i64> {
    [call, X32 | call].into_iter()
}
#[cfg(not(target_arch = "x86_64"))]
fn with_x32(call: i64) -> impl Iterator<Item = i64> {
    std::iter::once(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::process::Command;

    #[cfg(target_arch = "x86_64")]
    fn is_plain(call: i64) -> bool {
        call & X32 == 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn is_plain(_call: i64) -> bool {
        true
    }

    #[test]
    fn other_processes_are_refused_and_threads_are_not() {
        std::thread::spawn(|| {
            assert!(Command::new("true").status().is_ok());
            assert_eq!(refuse(true), Part::Holds);
            let in_thread = || Command::new("true").status().unwrap_err().kind();
            let kind = std::thread::spawn(in_thread).join().unwrap();
            assert_eq!(kind, ErrorKind::PermissionDenied);
            let kernel = std::net::UdpSocket::bind("127.0.0.1:0");
            assert!(kernel.is_ok(), "{kernel:?}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn no_call_is_named_twice() {
        let private = rules(false).unwrap().len() - rules(true).unwrap().len();
        let each = with_x32(0).count();
        assert_eq!(private, PRIVATE_MOUNTS.len() * each);
        let always = PROCESSES.len() + MOUNTS.len() + MACHINE.len() + PROCESSOR.len();
        let plain = rules(true)
            .unwrap()
            .into_keys()
            .filter(|call| is_plain(*call));
        assert_eq!(plain.count(), always + 2);
    }
}
