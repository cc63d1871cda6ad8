//! What to serve, to which clients, as which user.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pagewell_base::network::Network;
use pagewell_fs::{Credentials, FileSystem};
use pagewell_policy::limits::Rates;

use crate::faults::Faults;
use pagewell_rpcd::refusals::Reason;

/// The callers that become the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// None.
    None,
    /// Uid 0, and gid 0 in every list of groups.
    #[default]
    Root,
    /// All.
    All,
}

/// Below are the ports of root (`IPPORT_RESERVED`).
pub const RESERVED_PORTS_END: u16 = 1024;

/// A tree that clients can mount.
pub struct Export {
    /// `/`, or `/` and a name.
    pub name: String,
    /// Its source.
    pub filesystem: Arc<dyn FileSystem>,
    /// Changes fail with NFS3ERR_ROFS.
    pub read_only: bool,
    /// The callers that become `anonymous`.
    pub squash: Squash,
    /// Uid and gid of squashed and AUTH_NONE callers.
    pub anonymous: (u32, u32),
    /// Of its clients; empty: loopback.
    pub allow: Vec<Network>,
    /// Clients must call from below [`RESERVED_PORTS_END`].
    pub secure: bool,
    /// Directory cookies and file ids stay below 2^31, for 32-bit clients.
    pub cookies_32bit: bool,
    /// Changes go to the audit log.
    pub audit: bool,
    /// Failures of its storage.
    pub faults: Arc<Faults>,
    /// Shared by its clients, max-min fair.
    pub limits: Rates,
}

impl Export {
    /// Writable, root squashed to 65534, loopback only.
    pub fn new(name: &str, filesystem: Arc<dyn FileSystem>) -> Self {
        Self {
            name: name.to_owned(),
            filesystem,
            read_only: false,
            squash: Squash::Root,
            anonymous: (65534, 65534),
            allow: Vec::new(),
            secure: false,
            cookies_32bit: false,
            audit: false,
            faults: Arc::default(),
            limits: Rates::default(),
        }
    }

    /// Why the client is refused, if so.
    pub fn refusal(&self, peer: SocketAddr) -> Option<Reason> {
        if !self.allows(peer.ip()) {
            Some(Reason::ExportNotAllowed)
        } else if self.secure && peer.port() >= RESERVED_PORTS_END {
            Some(Reason::PortNotReserved)
        } else {
            None
        }
    }

    /// Whether `address` is a client's.
    pub fn allows(&self, address: IpAddr) -> bool {
        let mut networks = self.networks().iter();
        networks.any(|network| network.contains(address))
    }

    /// Of its clients.
    pub fn networks(&self) -> &[Network] {
        if self.allow.is_empty() {
            &Network::LOOPBACK
        } else {
            &self.allow
        }
    }

    /// After squashing; `None` is AUTH_NONE.
    pub fn squashed(&self, caller: Option<&Credentials>) -> Credentials {
        let anonymous = Credentials::new(self.anonymous.0, self.anonymous.1, &[]);
        let Some(caller) = caller else {
            return anonymous;
        };
        match self.squash {
            Squash::None => caller.clone(),
            Squash::All => anonymous,
            Squash::Root if caller.uid == 0 => anonymous,
            Squash::Root => {
                let not_root = |gid: u32| if gid == 0 { self.anonymous.1 } else { gid };
                let groups: Vec<u32> = caller.groups().iter().map(|gid| not_root(*gid)).collect();
                Credentials::new(caller.uid, not_root(caller.gid), &groups)
            }
        }
    }
}
