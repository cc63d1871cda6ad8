//! Servers whose handles end with them, or that look objects up by their paths.

use std::net::SocketAddr;
use std::sync::Arc;

use pagewell_cache::{Cache, CacheOptions};
use pagewell_fs::{Credentials, Error, FileSystem, SetAttributes};
use pagewell_nfsd::{Config, Server};
use pagewell_source_nfs::{NfsFileSystem, Url};
use pagewell_sunrpc::nfs3::Status;

use super::without_attributes::{STATUS_AT, Silencer, word};
use super::{Mount, root_call, server};
use crate::fixture::{export, serve};
use crate::layer::make_file;

/// A server of `memory` at this address whose handles no other has.
fn serve_with_key(memory: &Arc<dyn FileSystem>, listen: SocketAddr, key: u8) -> Server {
    let mut config = Config::new(vec![export("/", memory.clone())], [key; 16]);
    config.listen = listen;
    Server::start(config).expect("a server")
}

#[test]
fn a_root_whose_handle_has_ended_is_asked_for_anew() {
    let memory: Arc<dyn FileSystem> = crate::fixture::ram();
    make_file(&*memory, b"file", b"bytes");
    let server = serve_with_key(&memory, SocketAddr::from(([127, 0, 0, 1], 0)), 1);
    let address = server.address();
    let mount = Mount::new(&server, "timeo=50&noac");
    let (files, root) = (&mount.filesystem, mount.root());
    let attributes = SetAttributes::default();
    let directory = files.make_directory(&mount.call(), &root, b"directory", &attributes);
    let directory = directory.unwrap().entry.id;
    let before = mount.lookup("file").unwrap();
    let number = mount.attributes(&root).file_id;
    let mut server = server;
    for key in 2..5 {
        server.stop().unwrap();
        server = serve_with_key(&memory, address, key);
        match key {
            2 => assert_eq!(mount.lookup("missing"), Err(Error::NotFound)),
            3 => drop(mount.create("new")),
            _ => assert_eq!(mount.list(&root, true).len(), 3),
        }
        assert_eq!(mount.root(), root, "to fronts it is the same");
        assert_eq!(mount.attributes(&root).file_id, number);
        assert_eq!(mount.read(&before), Err(Error::Stale));
        let again = mount.lookup("file").unwrap();
        assert_ne!(again, before);
        assert_eq!(mount.read(&again).unwrap(), b"bytes");
        let inside = files.lookup(&mount.call(), &directory, b"..");
        assert_eq!(inside.map(drop), Err(Error::Stale));
        let directory = mount.lookup("directory").unwrap();
        let parent = files.lookup(&mount.call(), &directory, b"..").unwrap();
        assert_eq!(parent.id, root);
    }
}

#[test]
fn a_root_that_is_gone_stays_stale() {
    let memory: Arc<dyn FileSystem> = crate::fixture::ram();
    let server = serve(vec![export("/data", memory.clone())]);
    let address = server.address();
    let cache = Cache::new(CacheOptions::new(8 << 20)).unwrap();
    let url = Url::parse(&format!("nfs://{address}/data?timeo=50&noac")).unwrap();
    let mount = Mount {
        filesystem: NfsFileSystem::mount(&url, &cache).unwrap(),
        credentials: Credentials::root(),
    };
    assert_eq!(mount.lookup("file"), Err(Error::NotFound));
    server.stop().unwrap();
    let mut config = Config::new(vec![export("/other", memory)], [9; 16]);
    config.listen = address;
    let _server = Server::start(config).unwrap();
    for _ in 0..2 {
        assert_eq!(mount.lookup("file"), Err(Error::Stale));
    }
}

#[test]
fn what_is_open_and_has_ended_does_not_keep_its_name() {
    let memory: Arc<dyn FileSystem> = crate::fixture::ram();
    make_file(&*memory, b"file", b"bytes");
    let server = serve_with_key(&memory, SocketAddr::from(([127, 0, 0, 1], 0)), 1);
    let address = server.address();
    let mount = Mount::new(&server, "timeo=50");
    let id = mount.lookup("file").unwrap();
    let opened = mount.open(&id);
    server.stop().unwrap();
    let _server = serve_with_key(&memory, address, 2);
    let (files, root) = (&mount.filesystem, mount.root());
    files.remove(&mount.call(), &root, b"file").unwrap();
    assert!(mount.list(&root, false).is_empty());
    drop(opened);
}

/// Says of a handle whose object is gone that there is no such name.
fn says_not_found(server: &Server) -> Silencer {
    let answer = |record: &mut Vec<u8>, _| {
        let stale = Status::Stale.number();
        if record.len() >= STATUS_AT + 4 && word(record, STATUS_AT) == stale {
            let missing = Status::NotFound.number().to_be_bytes();
            record[STATUS_AT..STATUS_AT + 4].copy_from_slice(&missing);
        }
    };
    Silencer::with(server, |_| true, answer)
}

#[test]
fn a_handle_of_which_the_server_says_that_it_is_not_found_is_stale() {
    let (server, memory) = server();
    make_file(&*memory, b"file", b"bytes");
    let between = says_not_found(&server);
    let mount = between.mount("acregmin=0&acregmax=0");
    let id = mount.lookup("file").unwrap();
    assert_eq!(mount.read(&id).unwrap(), b"bytes");
    let credentials = Credentials::root();
    let (call, root) = (root_call(&credentials), memory.root());
    memory.remove(&call, &root, b"file").unwrap();
    make_file(&*memory, b"file", b"other");
    let files = &mount.filesystem;
    let stale = Err(Error::Stale);
    assert_eq!(files.attributes(&mount.call(), &id).map(drop), stale);
    assert_eq!(files.open(&mount.call(), &id).map(drop), stale);
    assert_eq!(mount.read(&id).map(drop), stale);
    let request = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(&mount.call(), &id, &request, None);
    assert_eq!(set.map(drop), stale);
    // The name is looked up once more.
    let again = mount.lookup("file").unwrap();
    assert_ne!(again, id);
    assert_eq!(mount.read(&again).unwrap(), b"other");
}
