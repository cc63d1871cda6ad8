//! The multiplexing client of `pagewell_sunrpc` against a running server.

use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::mpsc;

use pagewell_nfsd::Server;
use pagewell_sunrpc::client::{
    BorrowedSlice, Client, DataSegments, EncodedCredential, MountError, MountOptions, Mounted,
    Options, Outgoing, Sink, mount,
};
use pagewell_sunrpc::nfs3::{
    self, CreateArguments, CreateHow, CreateReply, DirectoryOperation, GetattrReply, Handle,
    Procedure, ReadArguments, ReadHeadReply, SetAttributes, StableHow, WriteHead, WriteReply,
    read_data_length,
};
use pagewell_sunrpc::xdr::Decode;

use crate::fixture::{export, ram, serve, serve_with};

fn root() -> EncodedCredential {
    EncodedCredential::of_user(0, 0, &[])
}

fn mount_options(server: &Server, export: &str) -> MountOptions {
    let mut options = MountOptions::new("127.0.0.1", export);
    options.nfs_port = Some(server.address().port());
    options
}

fn connect(mounted: &Mounted, change: impl FnOnce(&mut Options)) -> Client {
    let mut options = Options::new("test", mounted.addresses.clone());
    change(&mut options);
    Client::connect(nfs3::PROGRAM, nfs3::VERSION, options).expect("a client")
}

fn create(client: &Client, directory: &[u8], name: &str) -> Vec<u8> {
    let arguments = CreateArguments {
        what: DirectoryOperation {
            directory: Handle::new(directory).unwrap(),
            name: name.as_bytes(),
        },
        how: CreateHow::Unchecked(SetAttributes::default()),
    };
    let procedure = Procedure::Create.number();
    let call = Outgoing::new(procedure, &root(), &arguments);
    let answer = client.call(call, |decoder| {
        let reply = CreateReply::decode(decoder)?;
        Ok(reply
            .ok()
            .and_then(|body| Some(body.object?.as_bytes().to_vec())))
    });
    answer.expect("answered").value.expect("created")
}

fn borrowed(bytes: &mut [u8]) -> Vec<BorrowedSlice> {
    // Uneven pieces, so that borders are crossed.
    bytes
        .chunks_mut(4097)
        .map(|piece| BorrowedSlice::new(NonNull::from(&mut *piece).cast(), piece.len()))
        .collect()
}

/// Writes all of `data` from `offset` on; returns how much the server took.
fn write(client: &Client, file: &[u8], offset: u64, data: &mut [u8]) -> u32 {
    let count = u32::try_from(data.len()).unwrap();
    let head = WriteHead {
        file: Handle::new(file).unwrap(),
        offset,
        count,
        stable: StableHow::Unstable,
        data_length: count,
    };
    // SAFETY: `call` returns after the completion, and `data` is ours until then.
    let segments = unsafe { DataSegments::new(borrowed(data), 0) };
    let call = Outgoing::new(Procedure::Write.number(), &root(), &head).with_data(segments);
    let answer = client.call(call, |decoder| {
        Ok(WriteReply::decode(decoder)?.expect("written"))
    });
    answer.expect("answered").value.count
}

/// Reads into memory of its own and sends it when it is there.
fn submit_read(
    client: &Client,
    file: &[u8],
    (offset, length): (u64, usize),
    sender: &mpsc::Sender<(u64, Vec<u8>, usize)>,
) {
    let arguments = ReadArguments {
        file: Handle::new(file).unwrap(),
        offset,
        count: u32::try_from(length).unwrap(),
    };
    let mut memory = vec![0xee; length];
    // SAFETY: the memory is owned by the completion, which touches it only when it is called.
    let sink = unsafe { Sink::new(borrowed(&mut memory), 0, read_data_length) };
    let call = Outgoing::new(Procedure::Read.number(), &root(), &arguments).with_sink(sink);
    let sender = sender.clone();
    client.submit(call, move |outcome| {
        let reply = outcome.expect("answered");
        let head = reply.decode::<ReadHeadReply>().unwrap().unwrap();
        assert_eq!(head.data_length as usize, reply.data_bytes);
        assert_eq!(head.count, head.data_length);
        sender.send((offset, memory, reply.data_bytes)).unwrap();
    });
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn data_goes_straight_to_and_from_borrowed_memory() {
    let server = serve(vec![export("/", ram())]);
    let mounted = mount(&mount_options(&server, "/")).expect("mounted");
    for connections in [1, 3] {
        let client = connect(&mounted, |options| options.connections = connections);
        let file = create(&client, &mounted.handle, &format!("file{connections}"));
        let mut data = pattern(1 << 20);
        for (index, piece) in data.chunks_mut(100_001).enumerate() {
            let offset = index as u64 * 100_001;
            let length = piece.len();
            assert_eq!(write(&client, &file, offset, piece) as usize, length);
        }
        let (sender, receiver) = mpsc::channel();
        let pieces: Vec<_> = (0..(1usize << 20)).step_by(33_333).collect();
        for offset in &pieces {
            submit_read(&client, &file, (*offset as u64, 33_333), &sender);
        }
        for _ in &pieces {
            let (offset, memory, count) = receiver.recv().expect("a completion");
            let expected = &data[offset as usize..][..count];
            assert_eq!(&memory[..count], expected, "at {offset}");
            assert!(count == 33_333 || offset as usize + count == data.len());
        }
        let statistics = client.statistics();
        let reads = &statistics.procedures()[Procedure::Read.number() as usize];
        assert_eq!(reads.calls, pieces.len() as u64);
        assert_eq!(reads.latency.count(), pieces.len() as u64);
        assert_eq!(statistics.in_flight(), 0);
        assert_eq!(statistics.retransmissions.get(), 0);
        assert!((1..=connections as u64).contains(&statistics.connections.get()));
    }
    mounted.unmount();
}

#[test]
fn thousands_of_small_calls_share_a_connection() {
    let server = serve(vec![export("/", ram())]);
    let mounted = mount(&mount_options(&server, "/")).expect("mounted");
    let client = connect(&mounted, |options| options.calls_max = 50);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (sender, receiver) = mpsc::channel();
                for _ in 0..500 {
                    let arguments = Handle::new(&mounted.handle).unwrap();
                    let procedure = Procedure::Getattr.number();
                    let call = Outgoing::new(procedure, &root(), &arguments);
                    let sender = sender.clone();
                    client.submit(call, move |outcome| {
                        let reply = outcome.expect("answered");
                        let decoded = reply.decode::<GetattrReply>();
                        sender.send(decoded.unwrap().is_ok()).unwrap();
                    });
                }
                drop(sender);
                assert_eq!(receiver.iter().filter(|good| *good).count(), 500);
            });
        }
    });
    let statistics = client.statistics();
    let calls = statistics.procedures();
    assert_eq!(calls.iter().map(|one| one.calls).sum::<u64>(), 2000);
    assert_eq!(
        (statistics.connections.get(), statistics.in_flight()),
        (1, 0)
    );
}

#[test]
fn an_error_about_a_missing_export_names_those_that_exist() {
    let server = serve(vec![export("/data", ram()), export("/more", ram())]);
    let error = mount(&mount_options(&server, "/nothing")).unwrap_err();
    assert!(matches!(error, MountError::NotGiven(_)));
    let text = "127.0.0.1 has no export /nothing; it has /data, /more";
    assert_eq!(error.to_string(), text);
    assert!(mount(&mount_options(&server, "/more")).is_ok());
    let error = mount(&mount_options(&server, "data")).unwrap_err();
    assert!(matches!(error, MountError::BadExport));
}

/// A restart of the server on its port, between calls, loses no call and reports none.
#[test]
fn a_server_that_starts_anew_loses_no_call() {
    let filesystem = ram();
    // An address of its own, so that no other server takes the port meanwhile.
    let anywhere = SocketAddr::from(([127, 9, 8, 7], 0));
    let exports = vec![export("/", filesystem.clone())];
    let server = serve_with(exports, |config| config.listen = anywhere);
    let address = server.address();
    let mut options = mount_options(&server, "/");
    options.host = address.ip().to_string();
    let mounted = mount(&options).expect("mounted");
    let client = connect(&mounted, |options| options.connections = 2);
    let file = create(&client, &mounted.handle, "file");
    let mut server = Some(server);
    for round in 0..5u64 {
        let (client, file) = (&client, &file);
        std::thread::scope(|scope| {
            for part in 0..3u64 {
                scope.spawn(move || {
                    for index in 0..40u64 {
                        let at = (round * 3 + part) * 40 + index;
                        let mut data = at.to_be_bytes().repeat(1024);
                        assert_eq!(write(client, file, at * 8192, &mut data), 8192);
                    }
                });
            }
            drop(server.take());
            let exports = vec![export("/", filesystem.clone())];
            server = Some(serve_with(exports, |config| config.listen = address));
        });
    }
    let (sender, receiver) = mpsc::channel();
    for at in 0..600u64 {
        submit_read(&client, &file, (at * 8192, 8192), &sender);
    }
    for _ in 0..600 {
        let (offset, memory, count) = receiver.recv().expect("a completion");
        assert_eq!(count, 8192);
        let expected = (offset / 8192).to_be_bytes().repeat(1024);
        assert!(memory == expected, "at {offset}");
    }
    // The last stop may have been before the first call of its round, or after the last.
    assert!(client.statistics().reconnections.get() >= 1);
    assert_eq!(client.statistics().in_flight(), 0);
}
