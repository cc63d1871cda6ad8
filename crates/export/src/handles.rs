//! Handles, and numbers of files, as clients see them.
//!
//! A handle has up to 64 opaque bytes (RFC 1813 section 2.5, `nfs_fh3`):
//!
//! ```text
//!   0        1          2           6            14
//!   +--------+----------+-----------+------------+------------------------+
//!   | version| id bytes | export    | MAC        | FileId, up to 50 bytes |
//!   +--------+----------+-----------+------------+------------------------+
//! ```
//!
//! The MAC (SipHash-2-4 with the server's secret key, over all else) keeps clients from making
//! handles. The export field is a keyed hash of the export's name and tree: handles stay valid when
//! other exports come and go, and survive a restart with the same key.
//!
//! Weakness: a client may keep a handle after it lost the right to it; each call checks permission.

use std::hash::Hasher;

use pagewell_fs::FileId;
use pagewell_fs::identity::{FILE_ID_BYTES_MAX, narrow_number};
use siphasher::sip::SipHasher24;

/// How clients see file identifiers.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The file system number.
    pub filesystem_id: u64,
    /// Fold file numbers into 31 bits.
    pub narrow: bool,
}

impl Identity {
    /// As clients see it.
    pub fn file_id(&self, file_id: u64) -> u64 {
        if self.narrow {
            narrow_number(file_id)
        } else {
            file_id
        }
    }
}

const HANDLE_VERSION: u8 = 1;
const HEADER_BYTES: usize = 14;
const MAC_AT: usize = 6;

/// Makes and reads handles.
#[derive(Clone)]
pub struct HandleKey([u8; 16]);

/// An identifier that is too long makes it too long, and the encoder refuses it.
#[derive(Clone, Copy)]
pub struct WireHandle {
    length: usize,
    bytes: [u8; HEADER_BYTES + FILE_ID_BYTES_MAX],
}

impl WireHandle {
    /// To send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl HandleKey {
    /// A key for handles.
    pub fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// In the handles of an export with this name and tree.
    pub fn export_number(&self, name: &str, tree_id: &[u8]) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(b"export ");
        hasher.write(name.as_bytes());
        hasher.write(&[0]); // no name has it
        hasher.write(tree_id);
        #[allow(clippy::cast_possible_truncation)] // any bits of a hash are a hash
        return hasher.finish() as u32;
    }

    /// Of an object.
    pub fn encode(&self, export_number: u32, id: &FileId) -> WireHandle {
        let id = id.as_bytes();
        let mut bytes = [0; HEADER_BYTES + FILE_ID_BYTES_MAX];
        bytes[0] = HANDLE_VERSION;
        #[allow(clippy::cast_possible_truncation)] // at most 64
        let id_length = id.len() as u8;
        bytes[1] = id_length;
        bytes[2..MAC_AT].copy_from_slice(&export_number.to_be_bytes());
        bytes[HEADER_BYTES..HEADER_BYTES + id.len()].copy_from_slice(id);
        let length = HEADER_BYTES + id.len();
        let mac = self.mac(&bytes[..length]);
        bytes[MAC_AT..HEADER_BYTES].copy_from_slice(&mac.to_be_bytes());
        WireHandle { length, bytes }
    }

    /// The export number and object; `None` unless this key made the handle.
    pub fn decode(&self, handle: &[u8]) -> Option<(u32, FileId)> {
        let (header, id) = handle.split_first_chunk::<HEADER_BYTES>()?;
        let [version, id_bytes, a, b, c, d, mac @ ..] = *header;
        if version != HANDLE_VERSION
            || usize::from(id_bytes) != id.len()
            || u64::from_be_bytes(mac) != self.mac(handle)
        {
            return None;
        }
        Some((u32::from_be_bytes([a, b, c, d]), FileId::new(id)?))
    }

    /// Of at least [`HEADER_BYTES`], without the MAC's own field.
    fn mac(&self, handle: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&handle[..MAC_AT]);
        hasher.write(&handle[HEADER_BYTES..]);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_file_numbers_are_below_two_to_the_31() {
        let identity = Identity {
            filesystem_id: 1,
            narrow: true,
        };
        for id in [
            1,
            77,
            0x7fff_ffff,
            1 << 31,
            u64::MAX,
            1 << 62,
            0x1234_5678_9abc_def0,
        ] {
            let folded = identity.file_id(id);
            assert!(folded > 0 && folded < 1 << 31);
            assert!(id >= 1 << 31 || folded == id);
        }
    }

    #[test]
    fn only_our_own_handles_are_read() {
        let key = HandleKey::new(*b"0123456789abcdef");
        for length in 0..=64usize {
            let id = FileId::new(&vec![length as u8; length]).unwrap();
            let handle = key.encode(7, &id);
            assert_eq!(key.decode(handle.as_bytes()), Some((7, id)));
            for bit in 0..handle.as_bytes().len() * 8 {
                let mut forged = handle.as_bytes().to_vec();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.decode(&forged), None, "bit {bit}");
            }
            for cut in 0..handle.as_bytes().len() {
                assert_eq!(key.decode(&handle.as_bytes()[..cut]), None);
            }
        }
        let other = HandleKey::new(*b"fedcba9876543210");
        let id = FileId::new(b"x").unwrap();
        assert_eq!(other.decode(key.encode(7, &id).as_bytes()), None);
        let number = key.export_number("/a", b"tree");
        assert_ne!(number, key.export_number("/b", b"tree"));
        assert_ne!(number, key.export_number("/a", b"other"));
        assert_ne!(number, key.export_number("/atr", b"ee"));
    }
}
