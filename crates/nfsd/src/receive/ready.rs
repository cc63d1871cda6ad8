//! Turns at a reader: addresses take turns, and at an address its connections.
//!
//! A client with a hundred connections is to have no more of a reader than another with one. So
//! each address has a line of the connections that are ready, and a round takes one from each.
//! Between two rounds the reader looks for events, because the next call of a client with one
//! connection comes only after the reply to its last.
//!
//! Where one address alone is ready, looking so often would be a system call for each turn and
//! help none. Its rounds get longer, twice as long each time, up to [`ALONE_TURNS_MAX`], until
//! another address is ready again.
//!
//! ```text
//!   ring:  [A] -> [B] -> [C]            a round: A1 B1 C1, then look for events
//!           A1     B1     C1
//!           A2                          A alone: 1, 2, 4, ... turns, then look for events
//!           A3
//! ```

use std::collections::{HashMap, VecDeque};

use crate::share::Address;

/// The longest round of one address: what another waits for that comes in the middle of it.
const ALONE_TURNS_MAX: usize = 64;

/// The number of an address's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(usize);

/// The connections of one address.
#[derive(Default)]
struct Connections {
    ready: VecDeque<u64>,
    /// Those that there are, ready or not.
    count: usize,
}

/// The connections of a reader that are ready.
pub struct Ready {
    lines: Vec<Connections>,
    /// Lines without connections.
    free: Vec<usize>,
    by_address: HashMap<Address, usize>,
    /// Lines with ready connections, each once.
    ring: VecDeque<usize>,
    alone_turns: usize,
}

impl Default for Ready {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            ring: VecDeque::new(),
            alone_turns: 1,
        }
    }
}

impl Ready {
    /// The line for a new connection of an address.
    pub fn join(&mut self, address: Address) -> Line {
        let index = *self.by_address.entry(address).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.lines.push(Connections::default());
                self.lines.len() - 1
            })
        });
        self.lines[index].count += 1;
        Line(index)
    }

    /// A connection is gone. If it is ready, its turn comes nevertheless.
    pub fn leave(&mut self, address: Address, line: Line) {
        let connections = &mut self.lines[line.0];
        assert!(connections.count > 0, "a connection leaves a line twice");
        connections.count -= 1;
        if connections.count == 0 {
            self.by_address.remove(&address);
            self.free.push(line.0);
        }
    }

    /// Puts a connection at the end of its line; it must not be there already.
    pub fn push(&mut self, line: Line, token: u64) {
        let ready = &mut self.lines[line.0].ready;
        if ready.is_empty() {
            self.ring.push_back(line.0);
        }
        ready.push_back(token);
    }

    /// Whether none is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// How many turns there are before the reader looks for events.
    pub fn round(&mut self) -> usize {
        if self.ring.len() > 1 {
            self.alone_turns = 1;
            return self.ring.len();
        }
        let Some(line) = self.ring.front() else {
            return 0;
        };
        let turns = self.alone_turns;
        self.alone_turns = (2 * turns).min(ALONE_TURNS_MAX);
        turns.min(self.lines[*line].ready.len())
    }

    /// Takes the connection whose turn it is.
    pub fn pop(&mut self) -> Option<u64> {
        let line = self.ring.pop_front()?;
        let ready = &mut self.lines[line].ready;
        let token = ready.pop_front();
        if !ready.is_empty() {
            self.ring.push_back(line);
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn address(last: u8) -> Address {
        Address::of(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn addresses_take_turns_however_many_connections_they_have() {
        let mut ready = Ready::default();
        let many: Vec<Line> = (0..100).map(|_| ready.join(address(1))).collect();
        let one = ready.join(address(2));
        for (token, line) in (1..).zip(&many) {
            ready.push(*line, token);
        }
        ready.push(one, 500);
        assert_eq!(ready.round(), 2);
        assert_eq!((ready.pop(), ready.pop()), (Some(1), Some(500)));
        ready.push(one, 500);
        assert_eq!(ready.round(), 2);
        assert_eq!((ready.pop(), ready.pop()), (Some(2), Some(500)));
        assert_eq!(ready.pop(), Some(3));
    }

    #[test]
    fn rounds_of_an_address_alone_get_longer_until_another_comes() {
        let mut ready = Ready::default();
        assert_eq!((ready.round(), ready.round()), (0, 0), "nothing to do");
        let line = ready.join(address(1));
        let mut rounds = Vec::new();
        for token in 0..200 {
            ready.push(line, token);
        }
        for _ in 0..8 {
            let round = ready.round();
            rounds.push(round);
            for _ in 0..round {
                let token = ready.pop().unwrap();
                ready.push(line, token);
            }
        }
        assert_eq!(rounds, [1, 2, 4, 8, 16, 32, 64, 64]);
        let other = ready.join(address(2));
        ready.push(other, 500);
        assert_eq!(ready.round(), 2);
        assert!(ready.pop().is_some() && ready.pop() == Some(500));
        assert_eq!(ready.round(), 1);
    }

    #[test]
    fn lines_of_addresses_that_are_gone_are_used_again() {
        let mut ready = Ready::default();
        for last in 0..200 {
            let line = ready.join(address(last));
            ready.push(line, 1);
            ready.leave(address(last), line);
            assert_eq!(ready.pop(), Some(1));
        }
        assert_eq!(ready.lines.len(), 1);
        assert!(ready.is_empty() && ready.by_address.is_empty());
    }
}
