//! Calls that make something, and are sent again because the connection was lost.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_fs::{CreateMode, Credentials, Error, FileSystem, Result, SetAttributes};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::Procedure;

use super::without_attributes::Silencer;
use super::{root_call, server};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer, make_file};

const NAME: &[u8] = b"lock";

/// Ends the connection at the first call of a procedure, which the server does not see; does
/// something else instead.
fn cut(
    server: &Server,
    procedure: Procedure,
    instead: impl Fn() + Send + Sync + 'static,
) -> Silencer {
    let is_first = AtomicBool::new(true);
    let call = move |number| {
        if number != procedure.number() || !is_first.swap(false, Ordering::AcqRel) {
            return true;
        }
        instead();
        false
    };
    Silencer::with(server, call, |_, _| {})
}

/// Makes a directory, or a symbolic link to somewhere.
fn make(files: &dyn FileSystem, target: Option<&[u8]>) -> Result<()> {
    let credentials = Credentials::root();
    let (call, root) = (root_call(&credentials), files.root());
    let attributes = SetAttributes::default();
    let made = match target {
        None => files.make_directory(&call, &root, NAME, &attributes),
        Some(target) => files.make_symlink(&call, &root, NAME, target, &attributes),
    };
    made.map(drop)
}

#[test]
fn a_name_that_was_there_before_is_not_taken_for_one_that_was_made() {
    let kinds = [
        (Procedure::Mkdir, None),
        (Procedure::Symlink, Some(&b"to"[..])),
    ];
    for (procedure, target) in kinds {
        let (server, memory) = server();
        let between = cut(&server, procedure, || {});
        let mount = between.mount("");
        make(&*memory, target).unwrap();
        assert_eq!(
            make(&mount.filesystem, target),
            Err(Error::Exists),
            "{procedure:?}"
        );
    }
}

/// What comes of a call that is sent twice, when this was done at the first time; the name was
/// looked up before.
fn made_twice(
    (procedure, target): (Procedure, Option<&[u8]>),
    instead: impl Fn(&dyn FileSystem) + Send + Sync + 'static,
) -> Result<()> {
    let (server, memory) = server();
    let between = cut(&server, procedure, move || instead(&*memory));
    let mount = between.mount("");
    assert_eq!(mount.lookup("lock"), Err(Error::NotFound));
    make(&mount.filesystem, target)
}

#[test]
fn what_was_made_at_the_first_time_is_found() {
    let directory = (Procedure::Mkdir, None);
    let made = made_twice(directory, |memory| make(memory, None).unwrap());
    assert_eq!(made, Ok(()));
    let link = (Procedure::Symlink, Some(&b"ours"[..]));
    let made = made_twice(link, |memory| make(memory, Some(b"ours")).unwrap());
    assert_eq!(made, Ok(()));
    let made = made_twice(link, |memory| make(memory, Some(b"theirs")).unwrap());
    assert_eq!(made, Err(Error::Exists));
}

/// Is not ready when it is first asked to make a directory.
struct IsSlow(AtomicBool);

impl Hook for IsSlow {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation == "make_directory" && !self.0.swap(true, Ordering::AcqRel) {
            Err(Error::TryLater)
        } else {
            Ok(())
        }
    }
}

#[test]
fn what_was_made_at_the_first_time_is_found_by_a_server_that_was_not_ready_at_the_second() {
    let memory = ram();
    let (layer, hook) = Layer::new(memory.clone(), IsSlow(AtomicBool::new(false)));
    let server = serve(vec![export("/", layer)]);
    let between = cut(&server, Procedure::Mkdir, move || {
        make(&*memory, None).unwrap();
    });
    let mount = between.mount("");
    assert_eq!(mount.lookup("lock"), Err(Error::NotFound));
    assert_eq!(make(&mount.filesystem, None), Ok(()));
    assert!(hook.0.load(Ordering::Acquire));
}

#[test]
fn a_new_file_is_never_that_of_somebody_else() {
    let (server, memory) = server();
    let between = cut(&server, Procedure::Create, move || {
        make_file(&*memory, NAME, b"theirs");
    });
    let mount = between.mount("");
    assert_eq!(mount.lookup("lock"), Err(Error::NotFound));
    let mode = CreateMode::Guarded(SetAttributes::default());
    let root = mount.root();
    let made = mount.filesystem.create(&mount.call(), &root, NAME, &mode);
    assert_eq!(made.map(drop), Err(Error::Exists));
}
