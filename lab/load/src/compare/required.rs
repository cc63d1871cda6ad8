//! What the first server must reach beside others.

use super::rounds::{CaseResult, Server};

/// One thing that is required in a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Required {
    /// What is compared.
    pub measure: Measure,
    /// Beside which servers.
    pub beside: Beside,
    /// At least this factor of the other's rate; at most this factor of its processor time.
    pub factor: f64,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The speed.
    Rate,
    /// Processor time of the server for one operation.
    Processor,
}

/// Servers to compare with. One that did not take part requires nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The fastest bare server of the case.
    BestLimit,
    /// The server of this name.
    Peer(&'static str),
    /// Every server which is not bare.
    EachPeer,
}

impl Required {
    pub(super) const fn rate(beside: Beside, factor: f64) -> Self {
        Self {
            measure: Measure::Rate,
            beside,
            factor,
        }
    }
}

impl Beside {
    /// The servers that it names, of those that did the case.
    pub(super) fn find(self, servers: &[Server], result: &CaseResult) -> Vec<usize> {
        let others = servers.iter().enumerate().skip(1);
        let took_part = others.filter(|(index, _)| result.took_part(*index));
        let meant = took_part.filter(|(_, server)| match self {
            Self::BestLimit => server.limit,
            Self::Peer(name) => !server.limit && server.name == name,
            Self::EachPeer => !server.limit,
        });
        let meant = meant.map(|(index, _)| index);
        if self != Self::BestLimit {
            return meant.collect();
        }
        let rate = |index: &usize| {
            let spread = result.spread(*index, |run| result.rate(run));
            spread.map_or(0.0, |spread| spread.median)
        };
        let best = meant.max_by(|left, right| rate(left).total_cmp(&rate(right)));
        best.into_iter().collect()
    }
}
