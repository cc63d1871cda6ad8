//! `cp` of an ordinary user beside that of GNU: files that are protected from writing, and what of
//! owners, groups and modes is kept without the rights of root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::as_cp::compare;
use crate::support::{Fixture, Run, Serve, is_root, tool, unprivileged};

/// The user that runs it.
const USER: u32 = 65534;

/// What the commands are run on, made by root. The user is in group 1234, too.
const SETUP: &str = r#"
umask 022
echo new >new; echo old >protected; chmod 444 protected; ln -s protected link; ln protected hard
echo w >writeonly; chmod 200 writeonly; echo none >closed; chmod 0 closed
echo g >grouped; echo s >setid; echo l >alien
mkdir -p d/sub shut/in e/d; echo a >d/a; echo b >d/b; chmod 444 d/b; echo s >d/sub/s
chmod 555 d/sub; echo in >shut/in/f; chmod 555 shut/in shut; echo z >e/d/b; chmod 444 e/d/b
chown -hR 65534:65534 .; chgrp 1234 grouped setid; chgrp 4321 alien; chmod 6755 setid alien
echo o >others; echo r >free; chmod 666 free; echo s >rootid; chmod 6755 rootid
mkdir temporary full; chmod 1777 temporary; echo f >full/f
touch -d 2001-02-03T04:05:06 protected grouped setid alien others rootid d/a d/b d/sub e/d/b
touch -d 2031-02-03T04:05:06 new
touch -d 2001-02-03T04:05:06 same; cp -p new newer; cp -p protected same; chown 65534 same newer
"#;

/// Command lines, and whether the times of what comes out are those of GNU, too.
const LINES: &[(&str, bool)] = &[
    ("new protected", false),
    ("-f new protected", false),
    ("--force new protected", false),
    ("-u new protected", false),
    ("-uf new protected", false),
    ("-n new protected", false),
    ("-nf new protected", false),
    ("-u same protected", false),
    ("-au same protected", true),
    ("-p new protected", false),
    ("-a new protected", false),
    ("-af new protected", true),
    ("-v new protected", false),
    ("-fv new protected", false),
    ("new closed", false),
    ("-f new closed", false),
    ("new writeonly", false),
    ("-f new writeonly", false),
    ("new link", false),
    ("-f new link", false),
    ("new hard", false),
    ("-f new hard", false),
    ("-a new hard", true),
    ("new others", false),
    ("-f new others", false),
    ("new free", false),
    ("protected protected", false),
    ("protected link", false),
    ("-r d e", false),
    ("-rf d e", false),
    ("-ru d e", false),
    ("-a d e", false),
    ("-af d e", false),
    ("-r d c", false),
    ("-a d c", true),
    ("-rf d c", false),
    ("-r shut c", false),
    ("-a shut c", true),
    ("-rp shut c", true),
    ("-r d full", false),
    ("new full/f", false),
    ("-f new full/f", false),
    ("-p grouped c", true),
    ("-a grouped c", true),
    ("--preserve=ownership grouped c", false),
    ("--preserve=mode grouped c", false),
    ("-p others c", true),
    ("-a others c", true),
    ("-p setid c", true),
    ("-a rootid c", true),
    ("-p rootid c", true),
    ("-p alien c", true),
    ("-a temporary c", true),
    ("-a new free", false),
    ("-a grouped free", false),
    ("closed c", false),
];

fn shell(directory: &Path, script: &str) -> Run {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--groups=65534,1234"])
        .args(["sh", "-c", script])
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env("OURS", directory.with_file_name("pagewell"));
    command.output().unwrap().into()
}

#[test]
fn an_ordinary_user_gets_what_that_of_gnu_gives() {
    if !is_root() {
        pagewell_skip::skip("needs root to make files of others");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let model = base.path().join("model");
    fs::create_dir(&model).unwrap();
    tool(&model, &["sh", "-c", SETUP]);
    tool(
        base.path(),
        &["cp", env!("CARGO_BIN_EXE_pagewell"), "pagewell"],
    );
    compare(base.path(), LINES, &["022"], &shell);
}

/// A directory of the ordinary user with files that are protected from writing, on a server.
struct Exported {
    fixture: Fixture,
    serve: Serve,
}

impl Exported {
    fn new() -> Self {
        let fixture = Fixture::new();
        let script = "chmod 755 .; mkdir e e/d; echo old >e/p; echo old >e/d/b; chmod 444 e/p e/d/b
                      touch -d 2001-01-01 e/p e/d/b; mkdir d; echo new >new; echo new >d/b";
        tool(fixture.path(), &["sh", "-c", script]);
        if is_root() {
            tool(fixture.path(), &["chown", "-R", "65534:65534", "e"]);
        }
        let exported = fixture.path().join("e");
        let serve = Serve::start(&[exported.to_str().unwrap()]);
        Self { fixture, serve }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.fixture.path().join("e").join(name)
    }

    fn copy(&self, words: &[&str], to: &str) -> Run {
        let mut command = unprivileged(self.fixture.path());
        let target = format!("{}::/{to}", self.serve.urls()[0]);
        command.current_dir(self.fixture.path());
        let run = command.arg("cp").args(words).arg(target).output();
        run.unwrap().into()
    }
}

#[test]
fn a_server_that_lets_its_owner_write_a_protected_file_is_asked_first() {
    let exported = Exported::new();
    let before = |name: &str| {
        let found = exported.path(name).metadata().unwrap();
        (found.ino(), found.mode(), found.ctime(), found.ctime_nsec())
    };
    for (words, to, name) in [
        (&["new"][..], "p", "p"),
        (&["-u", "new"], "p", "p"),
        (&["-p", "new"], "p", "p"),
        (&["-r", "d"], "", "d/b"),
        (&["-ru", "d"], "", "d/b"),
        (&["-a", "d"], "", "d/b"),
    ] {
        let was = before(name);
        let run = exported.copy(words, to);
        assert_eq!(run.code, Some(1), "{words:?}: {}", run.err);
        let line = format!("/{name}: permission denied");
        assert!(run.err.contains(&line), "{words:?}: {}", run.err);
        assert_eq!(before(name), was, "{words:?} has touched it");
        assert_eq!(fs::read(exported.path(name)).unwrap(), b"old\n");
    }
    for (words, to, name) in [(&["-f", "new"][..], "p", "p"), (&["-rf", "d"], "", "d/b")] {
        let run = exported.copy(words, to);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{words:?}");
        assert_eq!(fs::read(exported.path(name)).unwrap(), b"new\n");
        assert_eq!(before(name).1 & 0o777, 0o644, "{words:?}");
    }
    let owner = exported.path("p").metadata().unwrap().uid();
    assert!(!is_root() || owner == USER);
}
