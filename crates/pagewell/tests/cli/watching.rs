//! `top`: as text, on a terminal of its own, and where it cannot work.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{Fixture, Serve, ended, program, run, tool};

/// `pagewell top` on a terminal.
struct Watched {
    child: Child,
    /// The end of who looks at the terminal and types.
    master: File,
    /// The end of the program, kept to see how it is left.
    terminal: OwnedFd,
}

impl Watched {
    fn start(connect: &str) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let mut command: Command = program();
        command
            .args(["top", "--connect", connect])
            .env("TERM", "xterm");
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self {
            child,
            master: File::from(master),
            terminal,
        }
    }

    /// Everything shown up to and with `part`.
    fn shown_until(&mut self, part: &str) -> String {
        let mut shown = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match self.master.read(&mut piece) {
                Ok(got) => shown.extend_from_slice(&piece[..got]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{part:?} is not shown: {error}"),
            }
            let text = String::from_utf8_lossy(&shown);
            if text.contains(part) {
                return text.into_owned();
            }
        }
    }

    fn takes_keys_as_they_come(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    /// Waits for the end; the terminal must be as it was.
    fn end(mut self) -> Option<i32> {
        self.shown_until("\x1b[?1049l");
        let code = self.child.wait().unwrap().code();
        assert!(
            !self.takes_keys_as_they_come(),
            "the terminal is not restored"
        );
        code
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_is_drawn_and_the_terminal_is_restored_by_keys_and_signals() {
    let mut serve = Serve::start(&["--http", "127.0.0.1:0", "ram:1m"]);
    let connect = serve.http().to_string();
    for quit in ["q", "\x03", "TERM", "HUP"] {
        let mut watched = Watched::start(&connect);
        let shown = watched.shown_until("q quits");
        assert!(
            shown.contains("\x1b[?1049h"),
            "the alternate screen: {shown:?}"
        );
        assert!(watched.takes_keys_as_they_come());
        if quit.len() == 1 {
            watched.master.write_all(quit.as_bytes()).unwrap();
        } else {
            let id = watched.child.id().to_string();
            tool(std::path::Path::new("/"), &["kill", "-s", quit, &id]);
        }
        assert_eq!(watched.end(), Some(0), "{quit:?}");
    }
}

#[test]
fn it_ends_with_its_terminal() {
    let mut serve = Serve::start(&["--http", "127.0.0.1:0", "ram:1m"]);
    let mut watched = Watched::start(&serve.http().to_string());
    watched.shown_until("q quits");
    // Both ends go.
    watched.master = File::open("/dev/null").unwrap();
    watched.terminal = File::open("/dev/null").unwrap().into();
    ended(&mut watched.child);
}

#[test]
fn a_server_that_goes_away_is_told_and_looked_for() {
    let mut serve = Serve::start(&["--http", "127.0.0.1:0", "ram:1m"]);
    let mut watched = Watched::start(&serve.http().to_string());
    watched.shown_until("q quits");
    drop(serve);
    watched.shown_until("no answer");
    watched.master.write_all(b"q").unwrap();
    assert_eq!(watched.end(), Some(0));
}

#[test]
fn one_look_is_text() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let mut serve = Serve::start(&["--http", "127.0.0.1:0", tree.to_str().unwrap()]);
    let connect = serve.http().to_string();
    tool(fixture.path(), &["nfs-cat", &serve.libnfs_url("/a")]);
    let text = run(&["top", "--once", "--connect", &connect]).text();
    assert!(
        text.starts_with("pagewell ") && text.contains("\nserver calls "),
        "{text}"
    );
    let line = run(&["top", "--connect", &connect]).failed(2);
    assert!(line.contains("--once"), "{line}");
    drop(serve);
    for arguments in [
        &["top", "--connect", &connect][..],
        &["top", "--once", "--connect", &connect],
    ] {
        let line = run(arguments).failed(1);
        assert!(
            line.contains(&connect) && line.contains("no answer"),
            "{line}"
        );
    }
}
