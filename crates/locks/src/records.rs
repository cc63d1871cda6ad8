//! Clients with locks, on stable storage, for the notices after a restart.
//!
//! ```text
//!   pagewell locks 1
//!   state 7
//!   client 192.168.1.20 192.168.1.5 6275696c64
//! ```
//!
//! `state` is the server's NSM state number: odd, larger after each start. A client line has its
//! address, the server address it called (or `-`), and its name in hexadecimal. The file is
//! replaced before a client's first lock is granted. Clients stay for a while, so that writes are
//! rare.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pagewell_base::files;

use crate::owner::Client;
use crate::table::{CLIENTS_MAX, CLIENTS_PER_ADDRESS_MAX};

/// Without locks.
const LISTED_FOR: Duration = Duration::from_secs(300);
/// Every client, with the longest name.
const FILE_BYTES_MAX: u64 = (CLIENTS_MAX as u64 + 1) * 2200;
const HEADER: &str = "pagewell locks 1";

/// A client of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The client.
    pub client: Arc<Client>,
    /// The server address it knows, if known.
    pub local: Option<IpAddr>,
}

struct Entry {
    local: Option<IpAddr>,
    used_at: Instant,
    /// The restart notice is pending.
    unheard: bool,
}

/// The list of clients.
pub struct Records {
    path: Option<PathBuf>,
    state: i32,
    clients: HashMap<Arc<Client>, Entry>,
}

impl Records {
    /// Reads the previous list, as much as can be parsed, and begins a new one; without a path, in
    /// memory.
    pub fn open(path: Option<PathBuf>, now: Instant) -> io::Result<(Self, Vec<Listed>)> {
        let text = match path.as_deref().map(read) {
            Some(text) => text?,
            None => None,
        };
        let (state, listed) = text.as_deref().map_or((None, Vec::new()), parse);
        let entry = |listed: &Listed| Entry {
            local: listed.local,
            used_at: now,
            unheard: true,
        };
        let clients = listed.iter().map(|one| (one.client.clone(), entry(one)));
        let records = Self {
            path,
            state: next_state(state),
            clients: clients.collect(),
        };
        records.save()?;
        Ok((records, listed))
    }

    /// The server's state number.
    pub fn state(&self) -> i32 {
        self.state
    }

    /// Whether a client is listed; notes its use.
    pub fn touch(&mut self, client: &Client, now: Instant) -> bool {
        let entry = self.clients.get_mut(client);
        entry.map(|entry| entry.used_at = now).is_some()
    }

    /// Lists a client, durably. False: the list, or its address's share, is full.
    pub fn add(&mut self, listed: &Listed, now: Instant) -> io::Result<bool> {
        if self.touch(&listed.client, now) {
            return Ok(true);
        }
        let address = listed.client.address;
        let others = self.clients.keys();
        let of_address = others.filter(|other| other.address == address).count();
        if self.clients.len() >= CLIENTS_MAX || of_address >= CLIENTS_PER_ADDRESS_MAX {
            return Ok(false);
        }
        let entry = Entry {
            local: listed.local,
            used_at: now,
            unheard: false,
        };
        self.clients.insert(listed.client.clone(), entry);
        let saved = self.save();
        if saved.is_err() {
            self.clients.remove(&listed.client);
        }
        saved.map(|()| true)
    }

    /// The client got its restart notice, or gets none.
    pub fn heard(&mut self, client: &Client) {
        if let Some(entry) = self.clients.get_mut(client) {
            entry.unheard = false;
        }
    }

    /// Whether a client can go.
    pub fn is_stale(&self, now: Instant, holds: impl Fn(&Arc<Client>) -> bool) -> bool {
        let mut clients = self.clients.iter();
        clients.any(|(client, entry)| entry.is_stale(now) && !holds(client))
    }

    /// Removes such clients.
    pub fn clean(&mut self, now: Instant, holds: impl Fn(&Arc<Client>) -> bool) -> io::Result<()> {
        self.clients
            .retain(|client, entry| !entry.is_stale(now) || holds(client));
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut text = format!("{HEADER}\nstate {}\n", self.state);
        for (client, entry) in &self.clients {
            let local = entry
                .local
                .map_or("-".to_owned(), |local| local.to_string());
            let name: String = client
                .name
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            text.push_str(&format!("client {} {local} {name}\n", client.address));
        }
        files::replace(path, 0o600, |file| file.write_all(text.as_bytes()))
    }
}

impl Entry {
    fn is_stale(&self, now: Instant) -> bool {
        !self.unheard && now.duration_since(self.used_at) >= LISTED_FOR
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn parse(text: &str) -> (Option<i32>, Vec<Listed>) {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return (None, Vec::new());
    }
    let state = lines.next().and_then(|line| line.strip_prefix("state "));
    let state = state.and_then(|number| number.parse().ok());
    let listed = lines.filter_map(|line| {
        let mut words = line.strip_prefix("client ")?.split(' ');
        let address = words.next()?.parse().ok()?;
        let local = words.next()?.parse().ok();
        let name = unhexadecimal(words.next()?)?;
        let client = Arc::new(Client { address, name });
        Some(Listed { client, local })
    });
    (state, listed.take(CLIENTS_MAX).collect())
}

fn unhexadecimal(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

/// A larger odd number; without one before, probably unused.
fn next_state(before: Option<i32>) -> i32 {
    match before {
        Some(before) => (before.wrapping_add(1) | 1) & i32::MAX,
        None => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let seconds = since.map_or(0, |since| since.as_secs());
            (seconds & 0x3fff_ffff) as i32 | 1 // of 30 bits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::owner_on;

    fn listed(number: u8) -> Listed {
        Listed {
            client: owner_on(number, 0).client,
            local: number
                .is_multiple_of(2)
                .then(|| IpAddr::from([10, 0, 0, 99])),
        }
    }

    #[test]
    fn a_restart_finds_the_clients_of_before_and_another_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks-host:1");
        let now = Instant::now();
        let (mut records, before) = Records::open(Some(path.clone()), now).unwrap();
        assert!(before.is_empty() && records.state() % 2 == 1);
        for number in 1..=3 {
            assert!(records.add(&listed(number), now).unwrap());
        }
        let state = records.state();
        drop(records);
        let (mut records, before) = Records::open(Some(path.clone()), now).unwrap();
        assert_eq!(records.state(), state + 2);
        assert_eq!(before.len(), 3);
        assert!((1..=3).all(|number| before.contains(&listed(number))));
        // Those that have heard and hold nothing are forgotten after a while.
        let late = now + LISTED_FOR;
        records.heard(&listed(1).client);
        records.heard(&listed(2).client);
        let holds = |client: &Arc<Client>| *client == listed(2).client;
        assert!(!records.is_stale(now, holds) && records.is_stale(late, holds));
        records.clean(late, holds).unwrap();
        let (_, before) = Records::open(Some(path), now).unwrap();
        assert_eq!(before.len(), 2);
        assert!(!before.contains(&listed(1)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_address_cannot_fill_the_list() {
        let now = Instant::now();
        let (mut records, _) = Records::open(None, now).unwrap();
        let mut add = |address: [u8; 4], number: u32| {
            let name = number.to_be_bytes().to_vec();
            let address = IpAddr::from(address);
            let client = Arc::new(Client { address, name });
            let local = None;
            records.add(&Listed { client, local }, now).unwrap()
        };
        let listed = (0..1000).filter(|number| add([10, 0, 0, 1], *number));
        assert_eq!(listed.count(), CLIENTS_PER_ADDRESS_MAX);
        assert!(add([10, 0, 0, 1], 0), "it is there");
        assert!(add([10, 0, 0, 2], 0));
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        let (state, listed) = parse(
            "pagewell locks 1\nstate x\nclient 1.2.3.4 - 6\nclient 1.2.3 - 61\nother\n\
             client 1.2.3.4 - 61\n",
        );
        assert_eq!((state, listed.len()), (None, 1));
        assert_eq!(parse("state 5\nclient 1.2.3.4 - 61\n"), (None, Vec::new()));
        assert_eq!(next_state(Some(6)), 7);
        assert_eq!(next_state(Some(7)), 9);
        assert!(next_state(Some(i32::MAX)) > 0 && next_state(None) % 2 == 1);
    }
}
