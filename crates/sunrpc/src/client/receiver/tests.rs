//! What a connection is worth, by the records that it brings.

use super::*;
use crate::client::call::ClientShared;
use crate::client::call::{EncodedCredential, Outgoing};
use crate::client::{BorrowedSlice, Options};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

const XID: u32 = 7;

/// Receives these fragments as the reply to a call, and says how that ends.
fn receive_fragments(fragments: &[&[u8]], sink: Option<Sink>) -> (End, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let stream = Arc::new(listener.accept().unwrap().0);
    let options = Options::new("here", Vec::new());
    let shared = Arc::new(ClientShared::new(1, 1, options).unwrap());
    let credential = EncodedCredential::of_process();
    let mut outgoing = Outgoing::new(1, &credential, &0u32);
    if let Some(sink) = sink {
        outgoing = outgoing.with_sink(sink);
    }
    outgoing.address(XID, 1, 1);
    let call = Arc::new(outgoing);
    let slot = &Slot::default();
    {
        let mut state = slot.state.lock();
        state.table.insert(call, Box::new(|_| ()));
        let mut batch = state.table.next_batch(1);
        let sent = batch.advance(usize::MAX / 2).to_vec();
        state.table.written(&sent, &mut Vec::new());
    }
    for (index, fragment) in fragments.iter().enumerate() {
        let last = u32::from(index + 1 == fragments.len()) << 31;
        let marker = u32::try_from(fragment.len()).unwrap() | last;
        server.write_all(&marker.to_be_bytes()).unwrap();
        server.write_all(fragment).unwrap();
    }
    drop(server);
    let origin = Origin {
        shared: shared.clone(),
        stream,
    };
    let mut receiver = Receiver::new(slot, &origin);
    let end = receiver.run();
    (end, receiver.good_replies)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The head of a reply: accepted, without a verifier, carried out.
const HEAD: [u32; 6] = [XID, 1, 0, 0, 0, 0];

#[test]
fn a_connection_is_good_once_a_reply_in_fragments_made_sense() {
    let record = words(&HEAD);
    let (end, is_good) = receive_fragments(&[&record[..9], &record[9..]], None);
    assert!(matches!(end, End::Lost));
    assert!(is_good);
}

#[test]
fn a_connection_that_answers_garbage_in_fragments_is_not_good() {
    // An answer that is neither accepted nor denied.
    let record = words(&[XID, 1, 5, 0, 0, 0]);
    let (end, is_good) = receive_fragments(&[&record[..8], &record[8..]], None);
    assert!(matches!(end, End::Garbage { xid: Some(XID), .. }));
    assert!(!is_good);
    // More data than was asked for.
    let mut memory = [0u8; 4];
    let place = BorrowedSlice::new(std::ptr::NonNull::from(&mut memory).cast(), memory.len());
    // SAFETY: it is valid until the call is forgotten, and this thread is the only one.
    let sink = unsafe { Sink::new(vec![place], 0, |_| Ok(Some(8))) };
    let record = words(&[XID, 1, 0, 0, 0, 0, 1, 2]);
    let (end, is_good) = receive_fragments(&[&record[..8], &record[8..]], Some(sink));
    assert!(matches!(end, End::Garbage { xid: Some(XID), .. }));
    assert!(!is_good);
    assert_eq!(memory, [0; 4]);
}
