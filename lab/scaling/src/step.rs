//! Runs the threads of a process one instruction at a time (ptrace(2)).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, UsedMemory,
};
use libc::{c_int, c_void, pid_t, user_regs_struct};

use crate::writes::Writes;

/// The longest instruction of x86-64.
const INSTRUCTION_BYTES_MAX: usize = 15;

/// Names of threads, as far as the system keeps them.
const WORKING: [&str; 6] = [
    "pagewell-reader",
    "pagewell-pool",
    "pagewell-io",
    "pagewell-ring",
    "fuser-",
    "fuse-worker",
];

/// What an instruction does, as far as it matters here.
#[derive(Clone)]
struct Decoded {
    written: Vec<UsedMemory>,
    is_locked: bool,
    is_system_call: bool,
}

struct Stepper {
    process: u32,
    threads: Vec<pid_t>,
    decoded: HashMap<u64, Decoded>,
    writes: Writes,
}

/// Does `work` on another thread, and says what the threads that `process` has now wrote meanwhile.
/// The process, the only child of this one, is ended: one that was stepped cannot be let go of,
/// because a trap that has not been reported yet would end it.
pub(crate) fn watch(process: u32, work: impl FnOnce() + Send) -> anyhow::Result<Writes> {
    let mut stepper = Stepper {
        process,
        threads: threads_of(process)?,
        decoded: HashMap::new(),
        writes: Writes::default(),
    };
    let thread = *stepper.threads.first().context("no thread works")?;
    stepper.begin()?;
    let is_done = AtomicBool::new(false);
    let stepped = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Also when the work panics, or the other thread would wait without end.
            let _done = Done {
                is_done: &is_done,
                process,
                thread,
            };
            work();
        });
        let stepped = stepper.step(&is_done);
        let threads = threads_of(process);
        if stepped.is_err() {
            end(process);
        }
        stepped.and(threads)
    });
    end(process);
    if stepped?
        .iter()
        .any(|thread| !stepper.threads.contains(thread))
    {
        bail!("the server has begun threads that were not watched");
    }
    Ok(stepper.writes)
}

/// Ends a process that is stepped, and waits for all its threads.
fn end(process: u32) {
    // SAFETY: neither kill(2) nor waitpid(2) without a status has requirements.
    unsafe {
        libc::kill(thread_id(process), libc::SIGKILL);
        while libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL) > 0 {}
    }
}

/// Tells the thread that steps, by a signal that means nothing to the process.
struct Done<'a> {
    is_done: &'a AtomicBool,
    process: u32,
    /// One that is stepped.
    thread: pid_t,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::SeqCst);
        // SAFETY: tgkill(2) has no requirements.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, libc::SIGWINCH) };
    }
}

impl Stepper {
    /// Stops all threads and has them do one instruction each.
    fn begin(&self) -> anyhow::Result<()> {
        for &thread in &self.threads {
            request(libc::PTRACE_SEIZE, thread, 0).context("the server cannot be watched")?;
            request(libc::PTRACE_INTERRUPT, thread, 0)?;
            wait(thread)?;
            request(libc::PTRACE_SINGLESTEP, thread, 0)?;
        }
        Ok(())
    }

    /// Steps all threads until the work is done.
    fn step(&mut self, is_done: &AtomicBool) -> anyhow::Result<()> {
        loop {
            let (thread, status) = wait(-1)?;
            if !libc::WIFSTOPPED(status) {
                if thread == thread_id(self.process) {
                    bail!("the server has ended");
                }
                continue;
            }
            let signal = libc::WSTOPSIG(status);
            let is_event = status >> 16 != 0;
            let is_step = signal == libc::SIGTRAP && !is_event;
            if signal == libc::SIGWINCH && is_done.load(Ordering::SeqCst) {
                return Ok(());
            }
            if is_step {
                self.note(thread)?;
            }
            let passed_on = if is_step || is_event { 0 } else { signal };
            request(libc::PTRACE_SINGLESTEP, thread, passed_on)?;
        }
    }

    /// A thread is about to do an instruction.
    fn note(&mut self, thread: pid_t) -> anyhow::Result<()> {
        let registers = registers_of(thread)?;
        let at = registers.rip;
        if !self.decoded.contains_key(&at) {
            let decoded = decode(&read_code(self.process, at)?, at);
            self.decoded.insert(at, decoded);
        }
        let Some(decoded) = self.decoded.get(&at) else {
            return Ok(());
        };
        self.writes.stepped();
        if decoded.is_system_call {
            self.writes.called(registers.rax);
        }
        let number = self.threads.iter().position(|known| *known == thread);
        let number = number.context("a thread is stepped that is not known")?;
        for memory in &decoded.written {
            let value = |register, _, _| value_of(&registers, register);
            if let Some(address) = memory.virtual_address(0, value) {
                self.writes.wrote(number, address, at, decoded.is_locked);
            }
        }
        Ok(())
    }
}

fn decode(code: &[u8], at: u64) -> Decoded {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let instruction: Instruction = decoder.decode();
    let mut factory = InstructionInfoFactory::new();
    let written = factory.info(&instruction).used_memory().iter();
    let written = written.filter(|memory| {
        matches!(
            memory.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    });
    let has_memory =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    Decoded {
        written: written.copied().collect(),
        // An exchange with memory locks without a prefix.
        is_locked: instruction.has_lock_prefix()
            || (instruction.mnemonic() == Mnemonic::Xchg && has_memory),
        is_system_call: instruction.mnemonic() == Mnemonic::Syscall,
    }
}

fn value_of(registers: &user_regs_struct, register: Register) -> Option<u64> {
    Some(match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::RIP => registers.rip,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    })
}

/// The threads of a process that do operations; others only look after something now and then.
fn threads_of(process: u32) -> anyhow::Result<Vec<pid_t>> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let entry = entry?;
        let name = std::fs::read_to_string(entry.path().join("comm"))?;
        if WORKING.iter().any(|known| name.starts_with(known)) {
            threads.push(entry.file_name().to_string_lossy().parse()?);
        }
    }
    threads.sort_unstable();
    Ok(threads)
}

fn thread_id(process: u32) -> pid_t {
    pid_t::try_from(process).unwrap_or(pid_t::MAX)
}

/// Waits until a thread stops, or any of them (-1).
fn wait(thread: pid_t) -> anyhow::Result<(pid_t, c_int)> {
    let mut status = 0;
    // SAFETY: the status is a live integer.
    let stopped = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    if stopped < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok((stopped, status))
}

fn request(what: libc::c_uint, thread: pid_t, data: c_int) -> anyhow::Result<()> {
    let data = std::ptr::without_provenance_mut::<c_void>(usize::try_from(data)?);
    // SAFETY: none of the requests made here reads or writes memory of this process.
    let done = unsafe { libc::ptrace(what, thread, std::ptr::null_mut::<c_void>(), data) };
    if done < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

fn registers_of(thread: pid_t) -> anyhow::Result<user_regs_struct> {
    let mut registers = std::mem::MaybeUninit::<user_regs_struct>::zeroed();
    let null = std::ptr::null_mut::<c_void>();
    // SAFETY: the memory has the type that the request fills.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, null, registers.as_mut_ptr()) };
    if done < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: integers, zero before they were filled.
    Ok(unsafe { registers.assume_init() })
}

/// The bytes of one instruction; fewer where the memory ends behind it.
fn read_code(process: u32, at: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; INSTRUCTION_BYTES_MAX];
    let to = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let from = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(usize::try_from(at)?),
        iov_len: bytes.len(),
    };
    // SAFETY: `to` is the live vector; `from` is of the other process.
    let count = unsafe {
        libc::process_vm_readv(thread_id(process), &raw const to, 1, &raw const from, 1, 0)
    };
    match usize::try_from(count) {
        Ok(count) if count > 0 => bytes.truncate(count),
        _ => bail!("the instructions of the server cannot be read"),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_tell_what_they_write() {
        let locked = decode(&[0xf0, 0x48, 0xff, 0x07], 0); // lock inc qword [rdi]
        assert!(locked.is_locked && locked.written.len() == 1);
        let exchange = decode(&[0x48, 0x87, 0x07], 0); // xchg [rdi], rax
        assert!(exchange.is_locked && exchange.written.len() == 1);
        let registers = decode(&[0x48, 0x87, 0xc3], 0); // xchg rbx, rax
        assert!(!registers.is_locked && registers.written.is_empty());
        let load = decode(&[0x48, 0x8b, 0x07], 0); // mov rax, [rdi]
        assert!(!load.is_locked && load.written.is_empty());
        let store = decode(&[0x64, 0x48, 0x89, 0x07], 0); // mov fs:[rdi], rax
        let values = |register: Register, _, _| match register {
            Register::RDI => Some(16),
            Register::FS => Some(1000),
            _ => None,
        };
        assert_eq!(store.written[0].virtual_address(0, values), Some(1016));
        assert!(decode(&[0x0f, 0x05], 0).is_system_call);
    }
}
