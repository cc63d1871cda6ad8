//! The identity of a call: a digest of all its bytes.
//!
//! SipHash takes the head and first arguments, and sums of products (NH of UMAC, RFC 4418 section
//! 5.2) of a WRITE's data. Data counts, as two runs of a program may repeat identifiers and handles
//! with other data, and a mistaken WRITE is lost. NH costs a fraction of receiving the bytes. Both
//! are keyed, so clients cannot make collisions.
//!
//! The AUTH_SYS stamp is left out (RFC 5531 appendix A: "an arbitrary ID which the caller machine
//! may generate"): some clients change it with each transmission.

use std::hash::Hasher;
use std::net::IpAddr;

use pagewell_policy::reply_cache::Identity;
use siphasher::sip::SipHasher13;

/// Bytes for SipHash: all of every call but WRITE and SYMLINK.
const HEAD_BYTES: usize = 1024;

const BLOCK_BYTES: usize = 1024;
const BLOCK_WORDS: usize = BLOCK_BYTES / 4;

/// The credential flavor and the AUTH_SYS stamp in a call (RFC 5531 section 9), behind xid, type,
/// RPC version, program, version and procedure.
const FLAVOR_AT: usize = 24;
const STAMP_AT: usize = 32;
const AUTH_SYS: [u8; 4] = [0, 0, 0, 1];

/// Makes identities.
pub(super) struct Digester {
    secret: [u8; 16],
    words: [u32; BLOCK_WORDS],
}

impl Digester {
    pub(super) fn new(secret: [u8; 16]) -> Self {
        let word = |index: usize| {
            let mut hasher = SipHasher13::new_with_key(&secret);
            hasher.write_usize(index);
            #[allow(clippy::cast_possible_truncation)] // half of a hash is a hash
            return hasher.finish() as u32;
        };
        Self {
            secret,
            words: std::array::from_fn(word),
        }
    }

    /// The identity of a call from this address.
    pub(super) fn identity(&self, peer: IpAddr, xid: u32, record: &[u8]) -> Identity {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        match peer.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.write_usize(record.len());
        let (head, data) = record.split_at(record.len().min(HEAD_BYTES));
        let has_stamp = head.get(FLAVOR_AT..FLAVOR_AT + 4) == Some(&AUTH_SYS);
        match head.split_at_checked(STAMP_AT) {
            Some((before, rest)) if has_stamp => {
                hasher.write(before);
                hasher.write(rest.get(4..).unwrap_or_default());
            }
            _ => hasher.write(head),
        }
        let (blocks, rest) = data.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            hasher.write_u64(self.sum(block));
        }
        if !rest.is_empty() {
            let mut last = [0; BLOCK_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            hasher.write_u64(self.sum(&last));
        }
        Identity {
            xid,
            digest: hasher.finish(),
        }
    }

    fn sum(&self, block: &[u8; BLOCK_BYTES]) -> u64 {
        let pairs = block.as_chunks::<8>().0;
        let keys = self.words.as_chunks::<2>().0;
        let product = |(pair, key): (&[u8; 8], &[u32; 2])| {
            let [a, b, c, d, e, f, g, h] = *pair;
            let left = u32::from_le_bytes([a, b, c, d]).wrapping_add(key[0]);
            let right = u32::from_le_bytes([e, f, g, h]).wrapping_add(key[1]);
            u64::from(left) * u64::from(right)
        };
        let products = pairs.iter().zip(keys).map(product);
        products.fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_but_those_of_the_stamp() {
        let digester = Digester::new([3; 16]);
        let identity = |xid, call: &[u8]| digester.identity(IpAddr::from([10, 0, 0, 1]), xid, call);
        let mut call = vec![0x55; 5000];
        call[FLAVOR_AT..FLAVOR_AT + 4].copy_from_slice(&AUTH_SYS);
        let first = identity(1, &call);
        for at in (0..200).chain((200..call.len()).step_by(37)).chain([4999]) {
            let mut other = call.clone();
            other[at] ^= 0x10;
            let is_stamp = (STAMP_AT..STAMP_AT + 4).contains(&at);
            assert_eq!(identity(1, &other) == first, is_stamp, "byte {at}");
        }
        assert_ne!(identity(2, &call), first);
        for shorter in [
            0,
            3,
            FLAVOR_AT + 4,
            STAMP_AT,
            STAMP_AT + 2,
            1024,
            2048,
            4999,
        ] {
            assert_ne!(identity(1, &call[..shorter]), first);
        }
    }

    #[test]
    fn without_auth_sys_there_is_no_stamp() {
        let digester = Digester::new([3; 16]);
        let identity = |host, call: &[u8]| digester.identity(IpAddr::from(host), 1, call);
        let none = [0; 100];
        let mut other = none;
        other[STAMP_AT] = 1;
        let host = [10, 0, 0, 1];
        assert_ne!(identity(host, &none), identity(host, &other));
        assert_ne!(identity(host, &none), identity([10, 0, 0, 2], &none));
    }
}
