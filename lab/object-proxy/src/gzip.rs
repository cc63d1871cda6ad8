//! Bytes as a gzip stream (RFC 1952) of stored blocks: what a server sends that compresses although
//! it was asked not to. It is a little longer than the bytes, which is enough to be wrong.

/// What a stored block can hold (RFC 1951, section 3.2.4).
const BLOCK_BYTES_MAX: usize = 65_535;

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks = bytes.len().div_ceil(BLOCK_BYTES_MAX).max(1);
    for number in 0..blocks {
        let start = number * BLOCK_BYTES_MAX;
        let block = &bytes[start..bytes.len().min(start + BLOCK_BYTES_MAX)];
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(number + 1 == blocks));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    stream.extend_from_slice(&crc32(bytes).to_le_bytes());
    let length = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(0);
    stream.extend_from_slice(&length.to_le_bytes());
    stream
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    #[test]
    fn the_check_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn gzip_reads_it() {
        for length in [0, 1, 65_535, 65_536, 200_000] {
            let bytes: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[0]).collect();
            let mut program = Command::new("gzip");
            let program = program.arg("-dc").stdin(Stdio::piped());
            let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            let stream = gzip(&bytes);
            let writer = std::thread::spawn(move || input.write_all(&stream).unwrap());
            let output = child.wait_with_output().unwrap();
            writer.join().unwrap();
            assert!(
                output.status.success() && output.stdout == bytes,
                "{length}"
            );
        }
    }
}
