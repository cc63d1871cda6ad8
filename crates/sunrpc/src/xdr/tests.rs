//! Both directions, byte by byte.

use super::*;

#[test]
fn numbers_are_big_endian() {
    let bytes = [
        0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xfd, 0, 0, 0, 1,
    ];
    let mut decoder = Decoder::new(&bytes);
    assert_eq!(decoder.i32(), Ok(-2));
    assert_eq!(decoder.u32(), Ok(7));
    assert_eq!(decoder.remaining(), 20);
    assert_eq!(decoder.u64(), Ok(0x0102_0304_0506_0708));
    assert_eq!(decoder.u64(), Ok(u64::MAX - 2));
    assert_eq!(decoder.remaining(), 4);
    assert_eq!(decoder.finish(), Err(Error::TooLong));
    assert_eq!(decoder.bool(), Ok(true));
    assert_eq!(decoder.finish(), Ok(()));
    assert_eq!(decoder.u32(), Err(Error::Truncated));
}

#[test]
fn a_boolean_is_zero_or_one() {
    assert_eq!(Decoder::new(&[0, 0, 0, 2]).bool(), Err(Error::BadValue));
    assert_eq!(Decoder::new(&[1, 0, 0, 0]).bool(), Err(Error::BadValue));
    assert_eq!(Decoder::new(&[0, 0, 0, 0]).bool(), Ok(false));
}

#[test]
fn opaque_data_is_borrowed_and_its_padding_skipped() {
    let bytes = [
        0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0xaa, 0xbb, 0xcc, 9,
    ];
    let mut decoder = Decoder::new(&bytes);
    let borrowed = decoder.opaque(5).unwrap();
    assert_eq!(borrowed, b"hello");
    assert_eq!(borrowed.as_ptr(), bytes[4..].as_ptr());
    assert_eq!(decoder.rest(), &[9]);
    assert_eq!(Decoder::new(&bytes).opaque(4), Err(Error::TooLong));
    assert_eq!(Decoder::new(&bytes[..11]).opaque(5), Err(Error::Truncated));
}

#[test]
fn the_longest_length_is_only_truncated() {
    let bytes = [0xff; 8];
    assert_eq!(
        Decoder::new(&bytes).opaque(usize::MAX),
        Err(Error::Truncated)
    );
    assert_eq!(Decoder::new(&bytes).opaque(64), Err(Error::TooLong));
    assert_eq!(
        Decoder::new(&bytes).fixed(usize::MAX),
        Err(Error::Truncated)
    );
}

#[test]
fn arrays_are_padded_too() {
    let bytes = [1, 2, 3, 0xff, 4];
    let mut decoder = Decoder::new(&bytes);
    assert_eq!(decoder.array::<3>(), Ok([1, 2, 3]));
    assert_eq!(decoder.rest(), &[4]);
}

#[test]
fn values_are_big_endian_and_padded_with_zeros() {
    let mut buffer = vec![0xee];
    let mut encoder = Encoder::new(&mut buffer);
    assert_eq!(encoder.position(), 1);
    encoder.u32(0x0102_0304);
    encoder.i32(-2);
    encoder.u64(0x0506_0708_090a_0b0c);
    encoder.u64(u64::MAX);
    encoder.bool(true);
    encoder.opaque(b"hello");
    encoder.fixed(b"ab");
    encoder.opaque(b"");
    encoder.patch_u32(1, 0x1112_1314);
    let expected = [
        0xee, 0x11, 0x12, 0x13, 0x14, 0xff, 0xff, 0xff, 0xfe, 5, 6, 7, 8, 9, 10, 11, 12, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 5, b'h', b'e', b'l', b'l',
        b'o', 0, 0, 0, b'a', b'b', 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(buffer, expected);
}

#[test]
fn what_was_written_can_be_taken_back() {
    let mut buffer = Vec::new();
    let mut encoder = Encoder::new(&mut buffer);
    encoder.u32(1);
    let mark = encoder.position();
    encoder.u64(2);
    encoder.truncate(mark);
    assert_eq!(buffer, [0, 0, 0, 1]);
}
