//! What is measured, row by row.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::request::Workload;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) population: Population,
    pub(crate) what: What,
}

/// The tree under a case; cases with the same one share a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Population {
    pub(crate) keys: u32,
    pub(crate) value_len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// Connections, each with a window of requests in flight.
    Closed { workload: Workload, connections: u32, window: u32 },
    /// Sets at half of what Apache ZooKeeper managed in the closed loop of the same run, over 16
    /// connections.
    HalfOfApache,
    /// This many connections, each with one get a second.
    Trickle { connections: u32 },
    /// New sessions, one after the other on each of so many connections.
    Sessions { connections: u32 },
    /// One change that so many sessions watch.
    FanOut { watchers: u32 },
    /// Resident memory with the population, then with so many idle sessions, then with a watch on
    /// each znode.
    Memory { sessions: u32 },
}

const SMALL: Population = Population { keys: 1_000, value_len: 100 };
/// Half of what a second has: each of 5,000 connections is heard of.
pub(crate) const TRICKLE_RATE: f64 = 1.0;

const fn closed(
    name: &'static str,
    population: Population,
    workload: Workload,
    connections: u32,
    window: u32,
) -> Case {
    Case { name, population, what: What::Closed { workload, connections, window } }
}

const fn sized(value_len: usize) -> Population {
    Population { keys: 100, value_len }
}

/// All cases, in the order in which they run.
pub(crate) const CASES: &[Case] = &[
    closed("get 16 x 32", SMALL, Workload::Get, 16, 32),
    closed("get 16 x 1", SMALL, Workload::Get, 16, 1),
    closed("get 10 x 1", SMALL, Workload::Get, 10, 1),
    closed("get 1 x 1", SMALL, Workload::Get, 1, 1),
    closed("exists 16 x 32", SMALL, Workload::Exists, 16, 32),
    closed("children 16 x 32", SMALL, Workload::Children, 16, 32),
    closed("ping 16 x 32", SMALL, Workload::Ping, 16, 32),
    closed("set 16 x 32", SMALL, Workload::Set, 16, 32),
    closed("set 16 x 1", SMALL, Workload::Set, 16, 1),
    closed("set 10 x 1", SMALL, Workload::Set, 10, 1),
    closed("set 1 x 1", SMALL, Workload::Set, 1, 1),
    closed("mixed 90/10 16 x 32", SMALL, Workload::Mixed, 16, 32),
    closed("multi 16 x 32", SMALL, Workload::Multi, 16, 32),
    closed("ephemeral 16 x 32", SMALL, Workload::Ephemeral, 16, 32),
    Case { name: "new sessions", population: SMALL, what: What::Sessions { connections: 16 } },
    Case { name: "fan-out to 5,000", population: SMALL, what: What::FanOut { watchers: 5_000 } },
    Case { name: "set, open loop", population: SMALL, what: What::HalfOfApache },
    Case {
        name: "5,000 connections, 1 get/s each",
        population: SMALL,
        what: What::Trickle { connections: 5_000 },
    },
    closed("create 16 x 32", SMALL, Workload::Create, 16, 32),
    closed("get 1 kB 16 x 32", sized(1_000), Workload::Get, 16, 32),
    closed("set 1 kB 16 x 32", sized(1_000), Workload::Set, 16, 32),
    closed("get 10 kB 16 x 8", sized(10_000), Workload::Get, 16, 8),
    closed("set 10 kB 16 x 8", sized(10_000), Workload::Set, 16, 8),
    closed("get 100 kB 16 x 2", sized(100_000), Workload::Get, 16, 2),
    closed("set 100 kB 16 x 2", sized(100_000), Workload::Set, 16, 2),
    Case {
        name: "memory, 1 M znodes",
        population: Population { keys: 1_000_000, value_len: 100 },
        what: What::Memory { sessions: 5_000 },
    },
    closed(
        "get, 1 M znodes, 16 x 32",
        Population { keys: 1_000_000, value_len: 100 },
        Workload::Get,
        16,
        32,
    ),
    closed(
        "set, 1 M znodes, 16 x 32",
        Population { keys: 1_000_000, value_len: 100 },
        Workload::Set,
        16,
        32,
    ),
    closed(
        "create beside 1 M, 16 x 32",
        Population { keys: 1_000_000, value_len: 100 },
        Workload::Create,
        16,
        32,
    ),
];

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    /// Of the open loop at half of Apache ZooKeeper's maximum.
    pub(crate) open_loop: Duration,
    /// Divides populations, connections and watchers: a run that only shows that it runs.
    pub(crate) scale: NonZeroU32,
}

impl Spans {
    pub(crate) fn scaled(&self, count: u32) -> u32 {
        (count / self.scale).max(1)
    }
}
