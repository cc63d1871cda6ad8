//! What manual pages tell beside the help: exit status, environment, files, and where to read on.

/// The sections that stand before the examples, for a command (none for the program itself).
pub(super) fn before_examples(command: Option<&str>) -> String {
    let mut text = String::from(EXIT_STATUS);
    match command {
        Some("serve" | "mirror" | "mount") | None => text += ENVIRONMENT,
        Some("bench") => text += ENVIRONMENT_OF_BENCH,
        _ => {}
    }
    match command {
        None => text += FILES,
        Some("serve") => text += FILES_OF_SERVE,
        Some("mount" | "umount") => text += FILES_OF_MOUNT,
        Some("mirror") => text += FILES_OF_MIRROR,
        Some("completions") => text += FILES_OF_COMPLETIONS,
        Some("man") => text += FILES_OF_MAN,
        _ => {}
    }
    text
}

/// The last section: the pages around this one, by their names.
pub(super) fn see_also(page: &str, command: Option<&str>, all: &[String]) -> String {
    let mut names: Vec<String> = match command {
        None => all.to_vec(),
        Some(_) => vec!["pagewell".to_owned()],
    };
    let beside: &[&str] = match command {
        Some("serve") => &["pagewell-mount", "pagewell-counters", "pagewell-top"],
        Some("mount") => &["pagewell-umount", "pagewell-serve"],
        Some("umount") => &["pagewell-mount"],
        Some("counters") => &["pagewell-top", "pagewell-serve"],
        Some("top") => &["pagewell-counters", "pagewell-serve"],
        Some("cp") => &["pagewell-ls", "pagewell-sum"],
        Some("ls" | "cat" | "stat") => &["pagewell-cp"],
        Some("sum") => &["pagewell-cp", "pagewell-cat"],
        _ => &[],
    };
    names.extend(beside.iter().map(|name| (*name).to_owned()));
    names.retain(|name| name != page);
    let foreign = match command {
        Some("serve") => "nfs(5), rpcbind(8), systemd.service(5)",
        Some("mount" | "umount") => "fusermount3(1), mount(8), fuse(4)",
        Some("cp") => "cp(1)",
        Some("ls") => "ls(1)",
        Some("cat") => "cat(1)",
        Some("stat") => "stat(1)",
        Some("sum") => "sha256sum(1)",
        Some("counters" | "top") => "nfsstat(8)",
        Some("man") => "man(1)",
        _ => "",
    };
    let mut text = String::from(".SH \"SEE ALSO\"\n");
    for name in names {
        text += &format!("\\fB{}\\fR(1),\n", name.replace('-', "\\-"));
    }
    text += "\\fBpagewell\\-sources\\fR(7)";
    for page in foreign.split(", ").filter(|page| !page.is_empty()) {
        text += &format!(",\n{}", page.replace('-', "\\-"));
    }
    text.push('\n');
    text
}

const EXIT_STATUS: &str = "\
.SH \"EXIT STATUS\"
.TP
\\fB0\\fR
All of it was done.
.TP
\\fB1\\fR
Something failed; each failure is a line on standard error.
.TP
\\fB2\\fR
The command line makes no sense; nothing was done.
";

const ENVIRONMENT: &str = "\
.SH ENVIRONMENT
.TP
\\fBXDG_STATE_HOME\\fR, \\fBHOME\\fR
Where other users than root have their state: in \\fI$XDG_STATE_HOME/pagewell\\fR, else in
\\fI$HOME/.local/state/pagewell\\fR.
";

const ENVIRONMENT_OF_BENCH: &str = "\
.SH ENVIRONMENT
.TP
\\fBTMPDIR\\fR
Where scratch files are made unless \\fB\\-\\-directory\\fR says so.
";

const FILES: &str = "\
.SH FILES
.TP
\\fI/var/lib/pagewell\\fR, \\fI~/.local/state/pagewell\\fR
State of root and of other users: the key of file handles, and the records of mirrors of block
devices.
.TP
\\fIPATH.pagewell\\-mirror\\fR
The record of a file that is a leg of a mirror.
";

const FILES_OF_SERVE: &str = "\
.SH FILES
.TP
\\fI/var/lib/pagewell/handle\\-key\\fR, \\fI~/.local/state/pagewell/handle\\-key\\fR
The secret that signs file handles, of root and of other users; \\fB\\-\\-state\\-dir\\fR puts it
elsewhere. Without it the handles of all clients are stale after a restart.
";

const FILES_OF_MOUNT: &str = "\
.SH FILES
.TP
\\fI/dev/fuse\\fR
The kernel's side of a mount.
.TP
\\fI/etc/fuse.conf\\fR
With \\fBuser_allow_other\\fR in it, other users than root may give \\fB\\-\\-allow\\-other\\fR.
";

const FILES_OF_MIRROR: &str = "\
.SH FILES
.TP
\\fIPATH.pagewell\\-mirror\\fR
The record of a leg that is a file. Move them together.
.TP
\\fI/var/lib/pagewell/mirror\\fR, \\fI~/.local/state/pagewell/mirror\\fR
Records of legs that are block devices, of root and of other users.
";

const FILES_OF_COMPLETIONS: &str = "\
.SH FILES
.TP
\\fI~/.local/share/bash\\-completion/completions/pagewell\\fR
Where bash looks for it.
.TP
\\fI~/.config/fish/completions/pagewell.fish\\fR
Where fish looks for it. zsh looks in the directories of \\fB$fpath\\fR for \\fI_pagewell\\fR.
";

const FILES_OF_MAN: &str = "\
.SH FILES
.TP
\\fI/usr/local/share/man/man1\\fR
Where \\fBmake install\\fR has the pages written. What belongs to section 7 goes to \\fIman7\\fR
beside it.
";
