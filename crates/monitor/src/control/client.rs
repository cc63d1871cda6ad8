//! The asking end.

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use pagewell_base::late::in_words;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{OtherEnd, PREFIX, other_end};
use crate::metrics::Snapshot;

/// Longer answers are not Pagewell's.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// How long a mount may be in use: without other users the kernel releases it at once.
const USED_WAIT: Duration = Duration::from_secs(3);
/// Answers have a line twice a second.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Longer than opening a source, or giving it up, takes.
const RELOAD_TIME: Duration = Duration::from_secs(600);

/// A server or mount of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// Its process.
    pub process: u32,
    /// `serve`, or `mount/MAJOR:MINOR`.
    pub kind: String,
}

/// All trustworthy peers of this machine, by process number.
pub fn peers() -> Vec<Peer> {
    let mut peers = named();
    peers.retain(|peer| {
        let asked = peer.connect();
        asked.is_ok_and(|(_, listener)| peer.is_trusted(&listener))
    });
    peers
}

fn named() -> Vec<Peer> {
    // This file exists also with ProcSubset=pid.
    let list = std::fs::read("/proc/self/net/unix").unwrap_or_default();
    find(&String::from_utf8_lossy(&list))
}

/// The last column is the name, with `@` for its leading zero byte. A listener and its connections
/// have one. Any user can bind any name.
fn find(list: &str) -> Vec<Peer> {
    let names = list.lines().filter_map(|line| line.split(' ').next_back());
    let mut found: Vec<Peer> = names
        .filter_map(|name| {
            let (process, kind) = name
                .strip_prefix('@')?
                .strip_prefix(PREFIX)?
                .split_once('/')?;
            let process = process.parse().ok()?;
            let is_plain = kind.bytes().all(|byte| byte.is_ascii_graphic());
            is_plain.then(|| Peer {
                process,
                kind: kind.to_owned(),
            })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

impl Peer {
    /// A connection, and the kernel's view of the listener. Does not wait for an accept, which may
    /// never come.
    fn connect(&self) -> std::io::Result<(UnixStream, OtherEnd)> {
        let name = format!("{PREFIX}{}/{}", self.process, self.kind);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)?;
        let stream = UnixStream::from(socket);
        let listener = other_end(&stream)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        Ok((stream, listener))
    }

    /// Its counters.
    pub fn counters(&self) -> anyhow::Result<Snapshot> {
        let body = self.ask("stat\n", ANSWER_TIME)?;
        Snapshot::parse(&body).with_context(|| format!("process {}", self.process))
    }

    /// Ends a server's connections of a client; returns their number.
    pub fn disconnect(&self, address: IpAddr) -> anyhow::Result<usize> {
        let body = self.ask(&format!("disconnect {address}\n"), ANSWER_TIME)?;
        let count = String::from_utf8_lossy(&body).trim().parse();
        count.with_context(|| self.no_answer())
    }

    /// Makes a server read its configuration again, and returns the changes.
    ///
    /// # Errors
    ///
    /// Why nothing has changed.
    pub fn reload(&self) -> anyhow::Result<String> {
        let body = self.ask("reload\n", RELOAD_TIME)?;
        let line = String::from_utf8_lossy(&body);
        match line.trim_end().split_once(' ') {
            Some(("done", line)) => Ok(line.to_owned()),
            Some(("refused", line)) => Err(anyhow!("{line}")),
            _ => Err(anyhow!(self.no_answer())),
        }
    }

    fn no_answer(&self) -> String {
        format!("process {}: not an answer of pagewell", self.process)
    }

    /// Sends a question; `patience` limits each part of the answer.
    fn ask(&self, question: &str, patience: Duration) -> anyhow::Result<Vec<u8>> {
        let failed = || format!("process {}", self.process);
        let (mut stream, listener) = self.connect().with_context(failed)?;
        if !self.is_trusted(&listener) {
            let user = listener.user.as_raw();
            bail!("process {}: user {user} listens in its name", self.process);
        }
        stream
            .set_read_timeout(Some(patience))
            .with_context(failed)?;
        let mut body = Vec::new();
        let read = stream.write_all(question.as_bytes());
        let read = read.and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_end(&mut body));
        let read = read.map_err(|error| in_words(error, "it", patience));
        read.with_context(failed)?;
        if body.is_empty() {
            bail!(
                "process {} answers its own user and root only",
                self.process
            );
        }
        Ok(body)
    }

    /// Whether a listener is trusted: it belongs to root or the own user, or is the process itself.
    fn is_trusted(&self, listener: &OtherEnd) -> bool {
        let process = listener.process.map(number_of);
        listener.user.is_root()
            || listener.user == rustix::process::geteuid()
            || process == Some(self.process)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.process, self.kind)
    }
}

/// The end of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All data is written.
    Written,
    /// So many bytes are durable on this machine alone, until the source is mounted again.
    Kept(u64),
    /// Unmounted, but still in use, as in the mount namespace of a container.
    UsedElsewhere,
}

/// The report of a mount's end.
pub struct Ending {
    lines: BufReader<std::io::Take<UnixStream>>,
    /// `None` without pidfd support, or for a process in another namespace.
    process: Option<(Pid, OwnedFd)>,
}

/// Asks the program of the mount `device` of `user` for its ending; `None` without a trusted one.
/// The kernel may reuse the number while its program still writes, so mounts in use are preferred.
pub fn ending_of(device: &str, user: Option<u32>) -> Option<Ending> {
    let kind = format!("mount/{device}");
    let peers = named();
    let of_mount = peers.iter().filter(|peer| peer.kind == kind);
    let endings = of_mount.filter_map(|peer| ask_ending(peer, user));
    let (ending, _) = endings.max_by_key(|(_, is_used)| *is_used)?;
    Some(ending)
}

/// Also returns whether the mount is in use. Programs that have ended, and those of other users, do
/// not answer.
fn ask_ending(peer: &Peer, user: Option<u32>) -> Option<(Ending, bool)> {
    let (mut stream, listener) = peer.connect().ok()?;
    if !listener.user.is_root() && Some(listener.user.as_raw()) != user {
        return None;
    }
    // Before the question: the process is alive when it answers.
    let process = listener.process.and_then(|process| {
        let descriptor = pidfd_open(process, PidfdFlags::empty()).ok()?;
        Some((process, descriptor))
    });
    stream.write_all(b"end\n").ok()?;
    let mut lines = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    // The first line acknowledges the question. Before it, the program may end without waiting for
    // this asker.
    let first = lines.fill_buf().unwrap_or_default();
    let is_used = first.starts_with(b"used");
    if !is_used && !first.is_empty() {
        return None;
    }
    Some((Ending { lines, process }, is_used))
}

fn number_of(process: Pid) -> u32 {
    process.as_raw_nonzero().get().unsigned_abs()
}

impl Ending {
    /// Waits after the unmount until all is written; `progress` gets the bytes left.
    ///
    /// # Errors
    ///
    /// Data was lost, or the program ended without an ending.
    pub fn wait(&mut self, mut progress: impl FnMut(u64)) -> anyhow::Result<Ended> {
        let began = Instant::now();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line);
            let line = line.trim_end();
            match (read, line.split_once(' ')) {
                (Ok(_), _) if line == "done" => return Ok(Ended::Written),
                (Ok(_), _) if line == "used" && began.elapsed() < USED_WAIT => {}
                (Ok(_), _) if line == "used" => return Ok(Ended::UsedElsewhere),
                (Ok(_), Some(("kept", bytes))) => {
                    return Ok(Ended::Kept(bytes.parse().unwrap_or(u64::MAX)));
                }
                (Ok(_), Some(("lost", reason))) => return Err(anyhow!("{reason}")),
                (Ok(_), Some(("left", bytes))) => progress(bytes.parse().unwrap_or(0)),
                (Err(error), _) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("the program that serves it still runs, but says nothing")
                }
                _ => bail!(
                    "the program that served it ended without saying that all is written; \
                     the system log may say more"
                ),
            }
        }
    }

    /// Waits after the ending until the process is gone: only then are its files and devices
    /// released. Returns its number if it still runs after `patience`.
    pub fn wait_for_process(&self, patience: Duration) -> Option<u32> {
        let (process, descriptor) = self.process.as_ref()?;
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = left.try_into().ok();
            match poll(
                &mut [PollFd::new(descriptor, PollFlags::IN)],
                timeout.as_ref(),
            ) {
                Err(Errno::INTR) => {}
                Ok(0) => return Some(number_of(*process)),
                // It cannot be watched: nothing to wait for.
                Ok(_) | Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn one_that_does_not_accept_is_not_waited_for() {
        let name = b"pagewell/1/mount/test:7";
        let flags = SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let address = SocketAddrUnix::new_abstract_name(name).unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let peer = Peer {
            process: 1,
            kind: "mount/test:7".to_owned(),
        };
        // There is one place, which what looks for peers may have taken.
        let error = (0..2).find_map(|_| peer.connect().err()).unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_name_in_any_bytes_hides_no_other() {
        let odd = SocketAddr::from_abstract_name(b"\xff\n\x1b").unwrap();
        let _odd = std::os::unix::net::UnixListener::bind_addr(&odd).unwrap();
        let control = Control::start("mount/test:8", || true).unwrap();
        assert!(named().iter().any(|peer| peer.kind == "mount/test:8"));
        drop(control);
    }

    /// In use when it is asked first.
    fn unmounted_soon() -> impl Fn() -> bool + Send + Sync {
        let is_used = AtomicBool::new(true);
        move || is_used.swap(false, Ordering::Relaxed)
    }

    #[test]
    fn names_are_found_in_the_kernels_list() {
        let list = "Num RefCount Protocol Flags Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 20 @pagewell/77/serve\n\
            0000: 00000003 00000000 00000000 0001 03 21 @pagewell/77/serve\n\
            0000: 00000002 00000000 00010000 0001 01 22 @pagewell/5/mount/0:41\n\
            0000: 00000002 00000000 00010000 0001 01 23 @pagewell/x/serve\n\
            0000: 00000002 00000000 00010000 0001 01 26 @pagewell/6/\u{1b}[2J\n\
            0000: 00000002 00000000 00010000 0001 01 24 /run/pagewell/1/serve\n\
            0000: 00000002 00000000 00010000 0001 01 25\n";
        let found = find(list);
        let shown: Vec<(u32, &str)> = found.iter().map(|p| (p.process, &*p.kind)).collect();
        assert_eq!(shown, [(5, "mount/0:41"), (77, "serve")]);
    }

    #[test]
    fn an_asker_is_told_what_is_left_and_how_it_ended() {
        let own = rustix::process::geteuid().as_raw();
        let endings = [
            ("written", Ok(Ended::Written)),
            ("lost", Err("7 bytes\nare lost")),
            ("kept", Ok(Ended::Kept(9))),
        ];
        for (name, ended) in endings {
            let kind = format!("mount/test:{name}");
            let control = Control::start(&kind, unmounted_soon()).unwrap();
            let mut ending = ending_of(&kind["mount/".len()..], Some(own)).unwrap();
            let peer = named().into_iter().find(|peer| peer.kind == kind).unwrap();
            assert!(peer.counters().unwrap().resident_bytes > 0);
            let (told, heard) = std::sync::mpsc::channel();
            let waiting = std::thread::spawn(move || ending.wait(|left| told.send(left).unwrap()));
            heard.recv().unwrap();
            control.finish(ended);
            let result = waiting.join().unwrap();
            assert_eq!(
                result.map_err(|error| error.to_string()),
                ended.map_err(|text| text.replace('\n', " "))
            );
            drop(control);
            assert!(peer.counters().is_err());
        }
        assert!(ending_of("no such mount", Some(own)).is_none());
    }

    #[test]
    fn one_that_is_used_elsewhere_is_not_waited_for() {
        let control = Control::start("mount/test:3", || true).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let mut ending = ending_of("test:3", Some(own)).unwrap();
        assert_eq!(ending.wait(|_| {}).unwrap(), Ended::UsedElsewhere);
        drop(control);
    }

    #[test]
    fn a_mount_that_is_gone_and_had_the_same_number_is_not_asked() {
        // Of the process that comes first.
        let name = SocketAddr::from_abstract_name(format!("{PREFIX}1/mount/test:5")).unwrap();
        let gone = std::os::unix::net::UnixListener::bind_addr(&name).unwrap();
        let gone = std::thread::spawn(move || {
            let (mut stream, _) = gone.accept().unwrap();
            // What looks for peers asks nothing and is gone.
            let _ = stream.write_all(b"left 7\nlost all\n");
            stream.read_to_end(&mut Vec::new())
        });
        let control = Control::start("mount/test:5", || true).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let mut ending = ending_of("test:5", Some(own)).unwrap();
        control.finish(Ok(Ended::Written));
        assert_eq!(ending.wait(|_| {}).unwrap(), Ended::Written);
        let _ = gone.join().unwrap();
        drop(control);
        // The program of this mount has died.
        let control = Control::start("mount/test:6", || false).unwrap();
        assert!(ending_of("test:6", Some(own)).is_none());
        drop(control);
    }

    #[test]
    fn one_that_ends_at_once_says_how() {
        let own = rustix::process::geteuid().as_raw();
        for number in 0..100 {
            let device = format!("test:at-once-{number}");
            let control = Control::start(&format!("mount/{device}"), unmounted_soon()).unwrap();
            let mut ending = ending_of(&device, Some(own)).unwrap();
            control.finish(Ok(Ended::Written));
            drop(control);
            assert_eq!(ending.wait(|_| {}).unwrap(), Ended::Written, "{number}");
        }
    }

    #[test]
    fn a_process_is_waited_for_until_it_is_gone_and_not_for_ever() {
        let own = rustix::process::geteuid().as_raw();
        let control = Control::start("mount/test:4", unmounted_soon()).unwrap();
        let mut ending = ending_of("test:4", Some(own)).unwrap();
        let (number, _) = ending.process.as_ref().unwrap();
        assert_eq!(*number, rustix::process::getpid());
        let process = std::process::id();
        let short = ending.wait_for_process(Duration::from_millis(20));
        assert_eq!(short, Some(process));
        // In place of the process of a mount: one that ends when it is let go.
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let number = Pid::from_child(&child);
        let descriptor = pidfd_open(number, PidfdFlags::empty()).unwrap();
        ending.process = Some((number, descriptor));
        let short = ending.wait_for_process(Duration::ZERO);
        assert_eq!(short, Some(child.id()));
        drop(child.stdin.take());
        assert_eq!(ending.wait_for_process(Duration::from_secs(60)), None);
        assert!(child.try_wait().unwrap().is_some(), "it has ended");
        ending.process = None;
        assert_eq!(ending.wait_for_process(Duration::ZERO), None);
        drop(control);
    }

    #[test]
    fn one_that_ends_without_a_word_is_an_error() {
        let control = Control::start("mount/test:2", unmounted_soon()).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let mut ending = ending_of("test:2", Some(own)).unwrap();
        let Ok(()) = ending
            .lines
            .get_ref()
            .get_ref()
            .shutdown(std::net::Shutdown::Both)
        else {
            panic!("no connection");
        };
        let error = ending.wait(|_| {}).unwrap_err().to_string();
        assert!(error.contains("without saying"), "{error}");
        drop(control);
    }

    #[test]
    fn one_that_says_nothing_for_long_still_runs() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let soon = Duration::from_millis(1);
        stream.set_read_timeout(Some(soon)).unwrap();
        let lines = BufReader::new(stream.take(ANSWER_BYTES_MAX));
        let mut ending = Ending {
            lines,
            process: None,
        };
        let error = ending.wait(|_| {}).unwrap_err().to_string();
        assert!(error.contains("still runs"), "{error}");
    }
}
