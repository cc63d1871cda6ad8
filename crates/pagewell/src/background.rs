//! Going to the background: the command returns when what it started works, and not before.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::path::Path;

use crate::failure::FAILED;
use crate::system_log::SystemLog;

/// Which of the two processes this is.
pub(crate) enum Side {
    /// The one that was started; it is to end with this code.
    Parent(i32),
    /// The one that does the work.
    Child(Child),
}

/// The process in the background.
pub(crate) struct Child {
    ready: PipeWriter,
}

/// Splits the process. The parent waits until the child is ready or has ended.
///
/// To be called before any thread starts.
pub(crate) fn detach() -> std::io::Result<Side> {
    let (reader, writer) = std::io::pipe()?;
    // SAFETY: this process has one thread, so the child finds no lock held by a thread that it
    // does not have.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            drop(reader);
            rustix::process::setsid()?;
            Ok(Side::Child(Child { ready: writer }))
        }
        child => {
            drop(writer);
            Ok(Side::Parent(wait(reader, child)))
        }
    }
}

fn wait(mut ready: PipeReader, child: i32) -> i32 {
    let failed = i32::from(FAILED);
    if ready.read_exact(&mut [0]).is_ok() {
        return 0;
    }
    // It has said why, on the standard error that both have.
    let Some(child) = rustix::process::Pid::from_raw(child) else {
        return failed;
    };
    let options = rustix::process::WaitOptions::empty();
    match rustix::process::waitpid(Some(child), options) {
        Ok(Some((_, status))) => status.exit_status().unwrap_or(failed),
        _ => failed,
    }
}

impl Child {
    /// Lets go of the terminal and the current directory, and of the parent. From here on what is
    /// said goes to the system log.
    pub(crate) fn ready(mut self) -> std::io::Result<SystemLog> {
        rustix::process::chdir(Path::new("/"))?;
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        let log = SystemLog::start()?;
        self.ready.write_all(&[1])?;
        Ok(log)
    }
}
