//! Servers that do not take all attributes with the calls that make something.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_fs::{
    Attributes, CreateMode, Credentials, Error, FileSystem, NodeKind, Result, SetAttributes,
    SetTime, Timestamp,
};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::Procedure;

use super::{Mount, root_call};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer};

/// Makes nothing with more than a mode, or makes it and says that it has failed.
struct Fails {
    inner: Arc<dyn FileSystem>,
    /// Of whatever is to be made, not only with more than a mode.
    always: AtomicBool,
    with: Error,
    /// It is made all the same.
    makes: bool,
    refuses_owners: bool,
    refuses_modes: bool,
}

impl Fails {
    fn make(&self, event: &Event<'_>) {
        let credentials = Credentials::root();
        let (call, files) = (root_call(&credentials), &self.inner);
        let (id, name, attributes) = (&event.id, event.name, SetAttributes::default());
        let made = match event.operation {
            "make_symlink" => files.make_symlink(&call, id, name, b"to", &attributes),
            "make_directory" => files.make_directory(&call, id, name, &attributes),
            "make_node" => files.make_node(&call, id, name, NodeKind::Fifo, &attributes),
            _ => files.create(&call, id, name, &CreateMode::Guarded(attributes)),
        };
        made.unwrap();
    }
}

impl Hook for Fails {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        let asked = &event.attributes;
        if event.operation == "set_attributes" {
            let is_owner = asked.uid.is_some() || asked.gid.is_some();
            Error::NotPermitted.when(self.refuses_owners && is_owner)?;
            return Error::NotPermitted.when(self.refuses_modes && asked.mode.is_some());
        }
        let is_making = event.operation.starts_with("make_") || event.operation == "create";
        let mode_alone = SetAttributes {
            mode: asked.mode,
            ..SetAttributes::default()
        };
        let is_refused = *asked != mode_alone || self.always.load(Ordering::Acquire);
        if !is_making || !is_refused {
            return Ok(());
        }
        if self.makes {
            self.make(event);
        }
        Err(self.with.clone())
    }
}

fn failing(change: impl FnOnce(&mut Fails)) -> (Server, Arc<Fails>) {
    let memory = ram();
    let mut fails = Fails {
        inner: memory.clone(),
        always: AtomicBool::new(false),
        with: Error::Io("failed".to_owned()),
        makes: true,
        refuses_owners: false,
        refuses_modes: false,
    };
    change(&mut fails);
    let (layer, hook) = Layer::new(memory, fails);
    (serve(vec![export("/", layer)]), hook)
}

const KINDS: [&str; 4] = ["link", "directory", "pipe", "file"];

/// Makes something of this kind, under its name.
fn make(mount: &Mount, kind: &str, attributes: &SetAttributes) -> Result<Attributes> {
    let (files, call, root) = (&mount.filesystem, mount.call(), mount.root());
    let name = kind.as_bytes();
    let made = match kind {
        "link" => files.make_symlink(&call, &root, name, b"to", attributes),
        "directory" => files.make_directory(&call, &root, name, attributes),
        "pipe" => files.make_node(&call, &root, name, NodeKind::Fifo, attributes),
        _ => files.create(&call, &root, name, &CreateMode::Guarded(*attributes)),
    };
    Ok(made?.entry.attributes)
}

const TIME: Timestamp = Timestamp {
    seconds: 1_000_000_000,
    nanoseconds: 0,
};

/// What is kept of an original.
fn kept() -> SetAttributes {
    SetAttributes {
        mode: Some(0o750),
        uid: Some(5),
        gid: Some(6),
        accessed: Some(SetTime::To(TIME)),
        modified: Some(SetTime::To(TIME)),
        ..SetAttributes::default()
    }
}

#[test]
fn a_call_that_makes_something_asks_for_its_mode_alone() {
    for makes in [false, true] {
        let (server, _) = failing(|fails| fails.makes = makes);
        let mount = Mount::new(&server, "");
        for kind in KINDS {
            let made = make(&mount, kind, &kept()).expect(kind);
            assert_eq!((made.uid, made.gid, made.modified), (5, 6, TIME), "{kind}");
            assert!(kind == "link" || made.mode == 0o750, "{kind}");
        }
    }
}

#[test]
fn what_the_server_refuses_of_something_new_costs_nothing_else() {
    let (server, _) = failing(|fails| fails.refuses_owners = true);
    let mount = Mount::new(&server, "");
    for kind in KINDS {
        let made = make(&mount, kind, &kept()).expect(kind);
        assert_eq!((made.uid, made.modified), (0, TIME), "{kind}");
        let id = mount.lookup(kind).unwrap();
        assert_eq!(Mount::new(&server, "").attributes(&id).modified, TIME);
    }
}

#[test]
fn bits_that_a_change_of_owner_takes_are_there() {
    let (server, _) = failing(|_| {});
    let mount = Mount::new(&server, "");
    let wanted = SetAttributes {
        mode: Some(0o6755),
        ..kept()
    };
    let made = make(&mount, "file", &wanted).unwrap();
    assert_eq!((made.mode, made.uid), (0o6755, 5));
}

#[test]
fn what_was_made_and_answered_with_a_failure_is_there() {
    let mode = SetAttributes {
        mode: Some(0o750),
        ..SetAttributes::default()
    };
    // The name of a file is not in doubt: its CREATE has a verifier.
    for kind in &KINDS[..3] {
        let (server, hook) = failing(|_| {});
        hook.always.store(true, Ordering::Release);
        let mount = Mount::new(&server, "");
        assert_eq!(mount.lookup(kind), Err(Error::NotFound));
        let made = make(&mount, kind, &mode).expect(kind);
        assert!(*kind == "link" || made.mode == 0o750, "{kind}");
        assert_eq!(mount.calls(Procedure::Lookup), 2, "{kind}");
    }
}

#[test]
fn what_may_be_of_others_or_is_not_what_was_asked_for_is_a_failure() {
    let mode = SetAttributes {
        mode: Some(0o750),
        ..SetAttributes::default()
    };
    let refused = |looks: bool, change: fn(&mut Fails)| {
        let (server, hook) = failing(change);
        hook.always.store(true, Ordering::Release);
        let mount = Mount::new(&server, "");
        if looks {
            assert_eq!(mount.lookup("directory"), Err(Error::NotFound));
        }
        make(&mount, "directory", &mode).map(drop)
    };
    let failed = Err(Error::Io("the server answered io".to_owned()));
    assert_eq!(refused(true, |_| {}), Ok(()));
    assert_eq!(refused(false, |_| {}), failed, "it may have been there");
    assert_eq!(refused(true, |fails| fails.makes = false), failed);
    assert_eq!(refused(true, |fails| fails.refuses_modes = true), failed);
    let denied = refused(true, |fails| fails.with = Error::AccessDenied);
    assert_eq!(denied, Err(Error::AccessDenied), "it says what it means");
}
