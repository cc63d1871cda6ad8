//! Record marking on foreign bytes: whatever comes, however it is cut, memory stays bounded and
//! the bytes are accounted for.

use pagewell_sunrpc::record::{Assembly, Progress};

const RECORD_BYTES_MAX: usize = 4096;

fn feed(input: &[u8], piece: usize) {
    let mut assembly = Assembly::new(RECORD_BYTES_MAX);
    let mut rest = input;
    while !rest.is_empty() {
        let now = &rest[..piece.min(rest.len())];
        let (taken, progress) = assembly.take(now);
        assert!(taken <= now.len());
        rest = &rest[taken..];
        match progress {
            Progress::Partial => assert_eq!(taken, now.len()),
            Progress::NeedsBuffer(bytes) => {
                assert!(bytes <= RECORD_BYTES_MAX, "{bytes} bytes asked for");
                assembly.give_buffer(vec![0; bytes]);
            }
            Progress::Whole => {
                let record = assembly.finish();
                assert!(record.length <= record.buffer.len());
                assert!(record.length <= RECORD_BYTES_MAX && assembly.is_empty());
            }
            Progress::Broken => return,
        }
        assert!(assembly.target().len() <= RECORD_BYTES_MAX);
    }
}

#[test]
fn foreign_bytes_never_take_more_than_the_cap() {
    bolero::check!().with_iterations(5_000).for_each(|input| {
        for piece in [1, 7, 1000] {
            feed(input, piece);
        }
        // The same bytes behind a marker that claims one fragment of some length.
        let claimed = u32::from(input.first().copied().unwrap_or(0)) * 40;
        let framed = [&(claimed | 0x8000_0000).to_be_bytes()[..], input].concat();
        feed(&framed, 13);
    });
}
