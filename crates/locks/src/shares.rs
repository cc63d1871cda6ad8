//! DOS share modes (RFC 1813 section 6.1.4, SHARE): what others that use them may not do with an
//! open file.
//!
//! The protocol has no restart notices for them; after a restart reclaims come first, as with
//! locks.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use pagewell_sunrpc::nlm4::{ShareAccess, ShareMode};

use crate::owner::{Client, Owner};
use crate::table::{FileKey, Outcome};

const SHARES_MAX: usize = 8192;
const SHARES_PER_ADDRESS_MAX: usize = 1024;

struct Share {
    owner: Owner,
    mode: ShareMode,
    access: ShareAccess,
}

/// All share modes.
#[derive(Default)]
pub struct Shares {
    files: HashMap<FileKey, Vec<Share>>,
    addresses: HashMap<IpAddr, usize>,
    count: usize,
}

impl Shares {
    /// Opens a file; replaces the owner's mode.
    pub fn open(
        &mut self,
        file: FileKey,
        owner: &Owner,
        mode: ShareMode,
        access: ShareAccess,
    ) -> Outcome {
        let shares = self.files.get(&file).map_or(&[][..], Vec::as_slice);
        let others = || shares.iter().filter(|share| share.owner != *owner);
        if others().any(|share| share.mode.denies(access) || mode.denies(share.access)) {
            return Outcome::Denied;
        }
        if others().count() == shares.len() {
            let address = owner.client.address;
            let opened = self.addresses.get(&address).copied().unwrap_or(0);
            if self.count >= SHARES_MAX || opened >= SHARES_PER_ADDRESS_MAX {
                return Outcome::Full;
            }
            self.addresses.insert(address, opened + 1);
            self.count += 1;
        }
        let shares = self.files.entry(file).or_default();
        shares.retain(|share| share.owner != *owner);
        shares.push(Share {
            owner: owner.clone(),
            mode,
            access,
        });
        Outcome::Granted
    }

    /// Closes a file.
    pub fn close(&mut self, file: &FileKey, owner: &Owner) {
        let Some(shares) = self.files.get_mut(file) else {
            return;
        };
        let before = shares.len();
        shares.retain(|share| share.owner != *owner);
        let closed = before - shares.len();
        if shares.is_empty() {
            self.files.remove(file);
        }
        self.count_off(owner.client.address, closed);
    }

    /// The clients of an address with open files.
    pub fn clients_at(&self, address: IpAddr) -> HashSet<Arc<Client>> {
        let shares = self.files.values().flatten();
        let clients = shares.map(|share| &share.owner.client);
        let there = clients.filter(|client| client.address == address);
        there.cloned().collect()
    }

    /// Closes all files of a client.
    pub fn free(&mut self, client: &Client) {
        let mut closed = 0;
        self.files.retain(|_, shares| {
            let before = shares.len();
            shares.retain(|share| *share.owner.client != *client);
            closed += before - shares.len();
            !shares.is_empty()
        });
        self.count_off(client.address, closed);
    }

    fn count_off(&mut self, address: IpAddr, closed: usize) {
        self.count -= closed;
        if let Some(count) = self.addresses.get_mut(&address) {
            *count -= closed;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::owner_on;
    use pagewell_fs::FileId;

    fn file(number: u64) -> FileKey {
        FileKey {
            export: 1,
            id: FileId::new(&number.to_be_bytes()).unwrap(),
        }
    }

    #[test]
    fn what_one_denies_another_cannot_have() {
        let mut shares = Shares::default();
        let (one, two) = (owner_on(1, 0), owner_on(2, 0));
        let mut open = |owner, mode, access| shares.open(file(1), owner, mode, access);
        let reader = (ShareMode::DenyWrite, ShareAccess::Read);
        assert_eq!(open(&one, reader.0, reader.1), Outcome::Granted);
        assert_eq!(open(&two, reader.0, reader.1), Outcome::Granted);
        let writer = (ShareMode::DenyNone, ShareAccess::Write);
        assert_eq!(
            open(&one, writer.0, writer.1),
            Outcome::Denied,
            "by the other"
        );
        assert_eq!(
            open(&two, ShareMode::DenyRead, ShareAccess::None),
            Outcome::Denied
        );
        shares.close(&file(1), &two);
        assert_eq!(
            shares.open(file(1), &one, writer.0, writer.1),
            Outcome::Granted
        );
        shares.free(&one.client);
        assert!(shares.files.is_empty() && shares.addresses.is_empty() && shares.count == 0);
    }

    #[test]
    fn one_address_can_open_its_share_only() {
        let mut shares = Shares::default();
        let mut open = |client, number| {
            let owner = owner_on(client, 0);
            shares.open(file(number), &owner, ShareMode::DenyNone, ShareAccess::Read)
        };
        let opened = (0..2000).filter(|number| open(1, *number) == Outcome::Granted);
        assert_eq!(opened.count(), SHARES_PER_ADDRESS_MAX);
        assert_eq!(
            open(1, 0),
            Outcome::Granted,
            "what is open can be opened again"
        );
        assert_eq!(open(2, 0), Outcome::Granted);
    }

    #[test]
    fn an_address_that_gets_nothing_is_not_remembered() {
        let mut shares = Shares::default();
        let mut open = |client: u8, number| {
            let owner = owner_on(client, 0);
            shares.open(file(number), &owner, ShareMode::DenyNone, ShareAccess::Read)
        };
        for client in 1..=8 {
            for number in 0..1024 {
                assert_eq!(open(client, number), Outcome::Granted);
            }
        }
        assert_eq!(open(9, 0), Outcome::Full);
        assert_eq!(shares.addresses.len(), 8);
    }
}
