//! What to serve, to which clients, and as which user.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pagewell_base::network::Network;
use pagewell_fs::{Credentials, FileSystem};
use pagewell_policy::limits::Rates;

use crate::faults::Faults;
use pagewell_rpcd::refusals::Reason;

/// Which calls are made as the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// None.
    None,
    /// Those of uid 0 (and gid 0, also among the groups).
    #[default]
    Root,
    /// All.
    All,
}

/// Ports below this one are given to programs of root only (`IPPORT_RESERVED`).
pub const RESERVED_PORTS_END: u16 = 1024;

/// One tree that clients can mount.
pub struct Export {
    /// The path clients mount: `/`, or `/` and a name.
    pub name: String,
    /// What is served there.
    pub filesystem: Arc<dyn FileSystem>,
    /// Refuse every change with NFS3ERR_ROFS.
    pub read_only: bool,
    /// Which calls are made as `anonymous`.
    pub squash: Squash,
    /// Uid and gid of squashed and AUTH_NONE callers.
    pub anonymous: (u32, u32),
    /// The addresses that may mount and use it; empty means loopback only.
    pub allow: Vec<Network>,
    /// Only from ports below [`RESERVED_PORTS_END`], which on most systems only root can use.
    pub secure: bool,
    /// Give only directory cookies and file ids below 2^31, for 32-bit clients.
    pub cookies_32bit: bool,
    /// Record what changes something in the audit log.
    pub audit: bool,
    /// What went wrong with it.
    pub faults: Arc<Faults>,
    /// What its clients may have together; each of those that want more than its part has the same.
    pub limits: Rates,
}

impl Export {
    /// An export with the defaults: writable, root squashed to 65534, loopback only.
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

    /// Why a client that calls from there may not use it.
    pub fn refusal(&self, peer: SocketAddr) -> Option<Reason> {
        if !self.allows(peer.ip()) {
            Some(Reason::ExportNotAllowed)
        } else if self.secure && peer.port() >= RESERVED_PORTS_END {
            Some(Reason::PortNotReserved)
        } else {
            None
        }
    }

    /// Whether a client at `address` may use it.
    pub fn allows(&self, address: IpAddr) -> bool {
        let mut networks = self.networks().iter();
        networks.any(|network| network.contains(address))
    }

    /// The addresses that may mount and use it.
    pub fn networks(&self) -> &[Network] {
        if self.allow.is_empty() {
            &Network::LOOPBACK
        } else {
            &self.allow
        }
    }

    /// The credentials a call is made with: squashed if need be; `None` is AUTH_NONE.
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
