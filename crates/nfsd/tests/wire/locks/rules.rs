//! The rules of fcntl(2), one by one, between machines, and the permission to lock.

use pagewell_nfsd::Squash;
use pagewell_sunrpc::nlm4::{self, FreeAllArguments, Procedure, ShareAccess, ShareMode, Status};
use pagewell_sunrpc::nsm::{self, NotifyArguments};
use pagewell_sunrpc::rpc::{AuthenticationStatus, Refusal};

use super::program::{Program, READ, STATE, WRITE, forged_unlock, free_all};
use super::{ELSEWHERE, HERE, Served};
use crate::client::{Client, User, encoded};
use crate::fixture::{Fixture, Kind, export, on_each_kind, ram};
use crate::operations::mode;

#[test]
fn a_write_lock_excludes_and_read_locks_share() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        let [mut one, mut two] =
            ["anna", "bert"].map(|name| Program::new(fixture.address(), name, 1, &file));
        assert_eq!(one.lock(READ, (0, 10)), Status::Granted);
        assert_eq!(two.lock(READ, (5, 0)), Status::Granted);
        assert_eq!(one.lock(WRITE, (0, 10)), Status::Denied);
        assert_eq!(one.lock(WRITE, (0, 5)), Status::Granted, "an upgrade");
        assert_eq!(two.test(READ, (0, 0)), Err((1, true, 0, 5)));
        assert_eq!(two.lock(READ, (4, 1)), Status::Denied);
        assert_eq!(one.lock(READ, (0, 5)), Status::Granted, "a downgrade");
        assert_eq!(two.lock(READ, (4, 1)), Status::Granted);
        assert_eq!(one.unlock((0, 0)), Status::Granted);
        assert_eq!(two.lock(WRITE, (0, 0)), Status::Granted);
    });
}

#[test]
fn letting_go_of_the_middle_leaves_both_ends() {
    let served = Served::new(|_| {});
    let [mut one, mut two] = [served.program("anna", 1), served.program("anna", 2)];
    assert_eq!(one.lock(WRITE, (0, 0)), Status::Granted);
    assert_eq!(one.unlock((10, 10)), Status::Granted);
    assert_eq!(two.test(WRITE, (0, 100)), Err((1, true, 0, 10)));
    assert_eq!(two.test(WRITE, (10, 100)), Err((1, true, 20, 0)));
    assert_eq!(two.lock(WRITE, (10, 10)), Status::Granted);
    assert_eq!(one.lock(WRITE, (5, 10)), Status::Denied);
    assert_eq!(one.lock(READ, (8, 2)), Status::Granted);
    assert_eq!(two.test(WRITE, (8, 1)), Err((1, false, 8, 2)));
    assert_eq!(two.test(WRITE, (0, 1)), Err((1, true, 0, 8)));
    assert_eq!(two.test(READ, (8, 2)), Ok(Status::Granted));
}

#[test]
fn offsets_have_64_bits_and_ranges_an_end() {
    let served = Served::new(|_| {});
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    let far = 0x7fff_ffff_ffff_fff0;
    assert_eq!(one.lock(WRITE, (far, 8)), Status::Granted);
    assert_eq!(two.lock(WRITE, (far + 8, 0)), Status::Granted);
    assert_eq!(two.lock(WRITE, (far - 8, 9)), Status::Denied);
    assert_eq!(two.lock(WRITE, (far - 8, 8)), Status::Granted);
    assert_eq!(two.lock(WRITE, (1 << 63, 1)), Status::TooBig);
    assert_eq!(one.test(WRITE, (0, u64::MAX)), Err((1, true, far - 8, 8)));
}

#[test]
fn one_file_with_two_names_has_one_set_of_locks() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let folder = client.make_directory(&root, b"folder");
        let file = client.make_file(&root, b"file", b"");
        client.link(&file, &folder, b"other").unwrap();
        let other = client.lookup(&folder, b"other").unwrap().handle;
        let mut one = Program::new(fixture.address(), "anna", 1, &file);
        let mut two = Program::new(fixture.address(), "bert", 1, &other);
        assert_eq!(one.lock(WRITE, (0, 0)), Status::Granted);
        assert_eq!(two.lock(WRITE, (0, 0)), Status::Denied);
        one.file = other;
        assert_eq!(one.unlock((0, 0)), Status::Granted);
        assert_eq!(two.lock(WRITE, (0, 0)), Status::Granted);
    });
}

#[test]
fn no_client_frees_the_locks_of_others() {
    let served = Served::new(|_| {});
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    assert_eq!(one.lock(WRITE, (0, 0)), Status::Granted);
    assert_eq!(two.unlock((0, 0)), Status::Granted, "what it has: nothing");
    forged_unlock(served.address, ELSEWHERE, &one);
    free_all(served.address, ELSEWHERE, "anna");
    free_all(served.address, HERE, "bert");
    assert_eq!(two.lock(WRITE, (0, 0)), Status::Denied);
    free_all(served.address, HERE, "anna");
    assert_eq!(two.lock(WRITE, (0, 0)), Status::Granted);
}

#[test]
fn where_ports_are_to_be_reserved_all_is_let_go_of_from_those_only() {
    let served = Served::new(|config| {
        let mut secure = export("/secure", ram());
        secure.secure = true;
        config.exports.push(secure);
    });
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    assert_eq!(one.lock(WRITE, (0, 0)), Status::Granted);
    let (name, state) = (&b"anna"[..], STATE + 2);
    let free_all = (nlm4::PROGRAM, nlm4::VERSION, Procedure::FreeAll.number());
    let notify = (nsm::PROGRAM, nsm::VERSION, nsm::Procedure::Notify.number());
    for (target, arguments) in [
        (free_all, encoded(&FreeAllArguments { name, state })),
        (notify, encoded(&NotifyArguments { name, state })),
    ] {
        let refusal = two.client.call(target, &arguments).refusal();
        let weak = Refusal::Authentication(AuthenticationStatus::TooWeak);
        assert_eq!(refusal, Some(weak), "{target:?}");
    }
    assert_eq!(two.lock(WRITE, (0, 0)), Status::Denied);
}

#[test]
fn a_lock_takes_the_permission_to_open() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let file = client.make_file(&root, b"file", b"");
    client.setattr(&file, mode(0o640), None).unwrap();
    let mut program = Program::new(fixture.address(), "anna", 1, &file);
    program.client = Client::connect(fixture.address(), User::System(7, 7, Vec::new()));
    assert_eq!(program.lock(READ, (0, 0)), Status::Failed);
    assert_eq!(program.test(READ, (0, 0)), Ok(Status::Failed));
    program.client = Client::connect(fixture.address(), User::System(7, 0, Vec::new()));
    assert_eq!(program.lock(READ, (0, 0)), Status::Granted);
    assert_eq!(program.lock(WRITE, (0, 0)), Status::Failed);
    program.file = root;
    assert_eq!(program.lock(READ, (0, 0)), Status::Failed, "a directory");
    program.file = vec![7; 30];
    assert_eq!(program.lock(READ, (0, 0)), Status::Stale, "made up");
    program.file = file;
    client
        .remove(&program.client.mount(b"/").unwrap(), b"file")
        .unwrap();
    assert_eq!(program.lock(READ, (0, 0)), Status::Stale, "removed");
    assert_eq!(program.unlock((0, 0)), Status::Granted);
}

#[test]
fn an_owner_locks_as_it_reads_and_writes_whatever_the_mode() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let file = client.make_file(&root, b"file", b"");
    let mut owned = mode(0o444);
    owned.uid = Some(7);
    client.setattr(&file, owned, None).unwrap();
    let mut program = Program::new(fixture.address(), "anna", 1, &file);
    program.client = Client::connect(fixture.address(), User::System(8, 8, Vec::new()));
    assert_eq!(program.lock(WRITE, (0, 0)), Status::Failed, "another user");
    program.client = Client::connect(fixture.address(), User::System(7, 7, Vec::new()));
    assert_eq!(program.lock(WRITE, (0, 0)), Status::Granted);
    client.setattr(&file, mode(0o200), None).unwrap();
    assert_eq!(program.lock(READ, (0, 0)), Status::Granted);
}

#[test]
fn exports_decide_the_permission_to_lock() {
    let served = |change: fn(&mut pagewell_nfsd::Export)| {
        Served::new(|config| config.exports.iter_mut().for_each(change))
    };
    let squashed = served(|export| export.squash = Squash::All);
    let mut program = squashed.program("anna", 1);
    assert_eq!(program.lock(WRITE, (0, 0)), Status::Granted, "its own file");
    let read_only = Fixture::with(Kind::Directory, |export| export.read_only = true);
    let folder = read_only.folder().join("exported");
    std::fs::write(folder.join("file"), b"x").unwrap();
    let (mut client, root) = read_only.client();
    let file = client.lookup(&root, b"file").unwrap().handle;
    let mut program = Program::new(read_only.address(), "anna", 1, &file);
    assert_eq!(program.lock(WRITE, (0, 0)), Status::ReadOnly);
    assert_eq!(program.lock(READ, (0, 0)), Status::Granted);
}

#[test]
fn share_modes_deny_what_they_say() {
    let served = Served::new(|_| {});
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    let (share, unshare) = (Procedure::Share, Procedure::Unshare);
    let (deny, none) = (ShareMode::DenyWrite, ShareMode::DenyNone);
    assert_eq!(one.share(share, deny, ShareAccess::Read), Status::Granted);
    assert_eq!(two.share(share, none, ShareAccess::Write), Status::Denied);
    assert_eq!(two.share(share, none, ShareAccess::Read), Status::Granted);
    assert_eq!(one.share(unshare, deny, ShareAccess::Read), Status::Granted);
    assert_eq!(two.share(share, none, ShareAccess::Both), Status::Granted);
}

#[test]
fn what_is_not_spoken_is_refused_and_the_connection_goes_on() {
    let served = Served::new(|_| {});
    let mut client = Client::connect(served.address, User::root());
    let mut refusal = |target| client.call(target, &[]).refusal();
    let four = Refusal::ProgramMismatch { low: 4, high: 4 };
    let one = Refusal::ProgramMismatch { low: 1, high: 1 };
    assert_eq!(refusal((nlm4::PROGRAM, 3, 2)), Some(four));
    assert_eq!(refusal((nsm::PROGRAM, 2, 0)), Some(one));
    assert_eq!(refusal((nlm4::PROGRAM, 4, 0)), None);
    assert_eq!(refusal((nsm::PROGRAM, 1, 0)), None);
    let unavailable = Some(Refusal::ProcedureUnavailable);
    assert_eq!(refusal((nlm4::PROGRAM, 4, 16)), unavailable);
    assert_eq!(
        refusal((nsm::PROGRAM, 1, 2)),
        unavailable,
        "we watch nobody"
    );
    let garbage = Some(Refusal::GarbageArguments);
    for procedure in [1, 2, 3, 4, 5, 7, 20, 21, 22, 23] {
        assert_eq!(
            refusal((nlm4::PROGRAM, 4, procedure)),
            garbage,
            "{procedure}"
        );
    }
    client.check_usable();
}
