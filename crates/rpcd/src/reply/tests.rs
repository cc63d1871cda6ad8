use super::*;
use crate::reply::file_range::FileRange;
use pagewell_fs::OpenFile;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

#[test]
fn a_full_socket_is_continued_and_nothing_is_lost() {
    let (here, mut there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let queue = SendQueue::default();
    let expected: Vec<u8> = (0..3_000_000u32).map(|index| (index % 251) as u8).collect();
    let mut blocked = false;
    for chunk in expected.chunks(70_000) {
        let (left, right) = chunk.split_at(1000);
        let pieces = [Piece::Bytes(left.to_vec()), Piece::Bytes(right.to_vec())];
        assert!(queue.send_pieces(&here, pieces));
        blocked |= queue.unsent_bytes() > 0;
    }
    assert!(blocked && queue.unsent_bytes() > 0);
    let mut received = Vec::new();
    let mut part = vec![0; 50_000];
    while received.len() < expected.len() {
        let count = there.read(&mut part).unwrap();
        received.extend_from_slice(&part[..count]);
        assert!(queue.send_more(&here));
    }
    assert!(received == expected);
    assert_eq!(queue.unsent_bytes(), 0);
    assert_eq!(queue.state.lock().charged_bytes, 0);
    drop(there);
    assert!(!queue.send_bytes(&here, &mut vec![1]));
}

#[test]
fn what_waits_is_charged_to_all_until_it_has_left_or_the_connection_is_gone() {
    let unsent = Arc::<Unsent>::default();
    let charged = || unsent.page_bytes(usize::MAX);
    let nothing = charged();
    let (here, there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let queue = SendQueue::new(unsent.clone());
    for _ in 0..4 {
        queue.send_bytes(&here, &mut vec![7; 1 << 20]);
    }
    assert!(charged() < nothing && queue.state.lock().charged_bytes >= 3 << 20);
    drop(there);
    assert!(!queue.send_more(&here));
    assert_eq!(charged(), nothing);
    let (here, _there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let queue = SendQueue::new(unsent.clone());
    queue.send_pieces(&here, [Piece::Bytes(vec![7; 4 << 20])]);
    assert!(charged() < nothing);
    drop(queue);
    assert_eq!(charged(), nothing);
}

#[test]
fn a_file_that_was_cut_short_gives_what_is_left_of_it_and_zeros() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 50_000]).unwrap();
    let file = OpenFile::new(file.into());
    let range = |offset| Piece::File(FileRange::new(file.clone(), offset, 20_000));
    let mut waiting: VecDeque<Piece> = [
        Piece::Bytes(vec![1; 100]),
        range(0),
        Piece::Bytes(vec![3; 100]),
        range(30_000),
        range(40_000),
    ]
    .into();
    rustix::fs::ftruncate(&file, 40_000).unwrap();
    let (here, mut there) = UnixStream::pair().unwrap();
    transmit(&here, &mut waiting, &mut 0).unwrap();
    drop(here);
    let mut received = Vec::new();
    there.read_to_end(&mut received).unwrap();
    let parts = [
        vec![1; 100],
        vec![7; 20_000],
        vec![3; 100],
        vec![7; 10_000],
        vec![0; 30_000],
    ];
    assert!(received == parts.concat());
}

/// Segments with data that a connection has sent: `tcpi_data_segs_out` of tcp(7).
fn segments(socket: &impl AsFd) -> u32 {
    const DATA_SEGMENTS_AT: usize = 156;
    let mut information = [0u8; 256];
    let mut length = information.len() as libc::socklen_t;
    // SAFETY: the kernel writes `length` bytes at the most, and that is what there is.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            information.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(status == 0 && length as usize >= DATA_SEGMENTS_AT + 4);
    let count = &information[DATA_SEGMENTS_AT..DATA_SEGMENTS_AT + 4];
    u32::from_ne_bytes(count.try_into().unwrap())
}

#[test]
fn replies_from_files_share_segments_and_the_last_one_leaves_at_once() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 4096]).unwrap();
    let file = OpenFile::new(file.into());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (here, _) = listener.accept().unwrap();
    here.set_nodelay(true).unwrap();
    let replies = 12;
    let mut waiting = VecDeque::new();
    for _ in 0..replies {
        waiting.push_back(Piece::Bytes(vec![1; 100]));
        waiting.push_back(Piece::File(FileRange::new(file.clone(), 0, 4096)));
    }
    transmit(&here, &mut waiting, &mut 0).unwrap();
    let sent = segments(&here);
    assert!(sent < replies / 2, "{sent} segments");
    assert!(!sockopt::tcp_cork(&here).unwrap());
    let mut received = vec![0; replies as usize * 4196];
    there.read_exact(&mut received).unwrap();
    assert!(
        received
            .chunks(4196)
            .all(|reply| reply[..100] == [1; 100] && reply[100..] == [7; 4096])
    );
}

#[test]
fn markers_count_payload_and_padding() {
    let mut batch = Batch::default();
    batch.push(b"abcd");
    let mark = batch.begin();
    batch.bytes().extend_from_slice(b"head");
    let length = batch.end_with(mark, [Piece::Bytes(vec![1, 2, 3])], 3);
    assert_eq!(length, 12);
    batch.push(b"tail");
    assert_eq!(batch.length(), 8 + 8 + 3 + 1 + 8);
    let memory_bytes: usize = batch.pieces.iter().map(Piece::memory_bytes).sum();
    assert_eq!(batch.memory_bytes(), memory_bytes + 1 + 8);
    let Piece::Bytes(first) = &batch.pieces[0] else {
        panic!()
    };
    assert_eq!(
        &first[8..12],
        [0x80, 0, 0, 8],
        "head, three bytes and one of padding"
    );
    assert_eq!(&batch.bytes[..], b"\0\x80\0\0\x04tail");
}
