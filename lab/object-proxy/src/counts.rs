//! What came and what went, by kind of request.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Kind;

/// Of some requests, with the bytes of heads and bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many came.
    pub requests: u64,
    /// From the client.
    pub bytes_up: u64,
    /// To the client.
    pub bytes_down: u64,
}

impl Count {
    fn to_json(self) -> Value {
        json!({
            "requests": self.requests,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
        })
    }
}

/// All that was counted since the start, or since it was set to zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    by_kind: BTreeMap<Kind, Count>,
    connections: u64,
}

impl Counts {
    /// Of one kind.
    pub fn of(&self, kind: Kind) -> Count {
        self.by_kind.get(&kind).copied().unwrap_or_default()
    }

    /// Of all kinds.
    pub fn all(&self) -> Count {
        let mut all = Count::default();
        for count in self.by_kind.values() {
            all.requests += count.requests;
            all.bytes_up += count.bytes_up;
            all.bytes_down += count.bytes_down;
        }
        all
    }

    /// How many connections clients made.
    pub const fn connections(&self) -> u64 {
        self.connections
    }

    /// `{"connections": 1, "all": {"requests": 2, ...}, "get": {...}}`.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("connections".to_owned(), self.connections.into());
        object.insert("all".to_owned(), self.all().to_json());
        for (kind, count) in &self.by_kind {
            object.insert(kind.to_string(), count.to_json());
        }
        Value::Object(object)
    }

    pub(crate) fn note_connection(&mut self) {
        self.connections += 1;
    }

    pub(crate) fn note(&mut self, kind: Kind, requests: u64, bytes_up: u64, bytes_down: u64) {
        let count = self.by_kind.entry(kind).or_default();
        count.requests += requests;
        count.bytes_up += bytes_up;
        count.bytes_down += bytes_down;
    }
}

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// From 1, in the order in which the heads came.
    pub number: u64,
    /// What it asks for.
    pub kind: Kind,
    /// As in its first line.
    pub target: String,
    /// The lines of its head, the first one too.
    pub head: Vec<String>,
    /// Of the reply that the client got; nothing while there is none.
    pub status: Option<u16>,
    /// Of its body.
    pub body_bytes_up: u64,
    /// Of the reply's body, as the client got it.
    pub body_bytes_down: u64,
}

impl Seen {
    /// The value of a field of the head.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.iter().skip(1);
        fields.find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// For [`crate::Control`].
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "number": self.number,
            "kind": self.kind.to_string(),
            "target": self.target,
            "range": self.field("range"),
            "status": self.status,
            "body_bytes_up": self.body_bytes_up,
            "body_bytes_down": self.body_bytes_down,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_added_up() {
        let mut counts = Counts::default();
        counts.note_connection();
        counts.note(Kind::Get, 1, 10, 100);
        counts.note(Kind::Get, 0, 0, 1000);
        counts.note(Kind::List, 1, 1, 1);
        let get = Count {
            requests: 1,
            bytes_up: 10,
            bytes_down: 1100,
        };
        assert_eq!(counts.of(Kind::Get), get);
        assert_eq!(counts.of(Kind::Put), Count::default());
        let json = counts.to_json();
        assert_eq!(json["all"]["requests"], 2);
        assert_eq!(json["get"]["bytes_down"], 1100);
        assert_eq!(json["connections"], 1);
    }
}
