//! System calls that a server never makes, refused by seccomp: other programs and processes,
//! mounts, name spaces, rarely used calls with a history of defects.
//!
//! The filter lists what it refuses: an update of the C library or the allocator would break one
//! that lists what it allows, though that would leave an attacker less. Refused calls fail with
//! `EPERM`. `clone3` fails with `ENOSYS`, as a filter cannot read its flags; the C library then
//! uses `clone`, which the filter allows for threads only. Sockets may be IP, Unix and netlink (for
//! resolvers). The kernel skips the filter for calls that are always allowed.
//!
//! Weakness: operations of io_uring are no system calls.

use std::collections::BTreeMap;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use crate::Part;

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

/// For private mounts and watching file systems.
const PRIVATE_MOUNTS: [i64; 4] = [
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
];

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

/// On x86-64 the x32 ABI gives each call a second number.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
/// Of the x32 ABI alone: execve, ptrace, process_vm_readv, process_vm_writev, kexec_load, execveat
/// (arch/x86/entry/syscalls/syscall_64.tbl).
#[cfg(target_arch = "x86_64")]
const X32_ALONE: [i64; 6] = [520, 521, 539, 540, 528, 545];

const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Filter(#[from] seccompiler::BackendError),
    #[error(transparent)]
    Install(#[from] seccompiler::Error),
}

/// For the calling thread and its children.
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

/// Each always or under any of its conditions.
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
