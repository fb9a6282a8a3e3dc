//! What is measured, row by row.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::request::Workload;
use crate::subject::Heap;
use crate::warmth::Steady;

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
    /// A load beside so many watches of one session, which never fire.
    Watched { watches: u32, workload: Workload },
    /// A start on a snapshot of the population with so many transactions after it, from the
    /// process to the first reply. On servers of its own.
    Start { replayed: u32 },
    /// Sets at half of what the same server manages, across snapshots. On servers of its own.
    Snapshot,
    /// A client that asks little, alone and while others ask too much. On servers of its own.
    Storm,
    /// Three servers of its own.
    Ensemble(OfEnsemble),
}

/// What is measured of three servers; CPU time and memory are those of all three.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfEnsemble {
    /// Connections dealt out to the servers, each with a window of requests in flight.
    Closed { workload: Workload, connections: u32, window: u32 },
    /// How long writes stand still when something happens to the leader, several times.
    Outage(Outage),
    /// Resident memory with the population.
    Memory,
    /// A follower that comes back with nothing but its id, until it serves.
    EmptiedFollower,
}

/// What happens to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    /// SIGKILL.
    Killed,
    /// SIGTERM: it may hand over.
    Ended,
    /// SIGSTOP, and SIGCONT when another leads.
    Frozen,
}

impl What {
    /// Whether it wants no running server.
    pub(crate) const fn has_own_servers(self) -> bool {
        matches!(self, Self::Start { .. } | Self::Snapshot | Self::Storm | Self::Ensemble(_))
    }

    /// Whether it has rounds of its own and runs once.
    pub(crate) const fn has_own_rounds(self) -> bool {
        matches!(self, Self::Snapshot | Self::Ensemble(OfEnsemble::Outage(_)))
    }
}

impl Case {
    /// Whether it is left out unless asked for.
    pub(crate) const fn is_large(&self) -> bool {
        self.population.keys > M1.keys
    }

    /// Where memory is measured, Apache ZooKeeper has the heap that its script gives.
    pub(crate) const fn heap(&self) -> Heap {
        match self.what {
            What::Memory { .. } | What::Ensemble(OfEnsemble::Memory) => Heap::Usual,
            _ => Heap::Ample,
        }
    }
}

const M1: Population = Population { keys: 1_000_000, value_len: 100 };
const M5: Population = Population { keys: 5_000_000, value_len: 100 };
const M10: Population = Population { keys: 10_000_000, value_len: 100 };
const K100: Population = Population { keys: 100_000, value_len: 100 };
pub(crate) const SMALL: Population = Population { keys: 1_000, value_len: 100 };
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

const fn case(name: &'static str, population: Population, what: What) -> Case {
    Case { name, population, what }
}

const fn ensemble(name: &'static str, population: Population, of: OfEnsemble) -> Case {
    case(name, population, What::Ensemble(of))
}

const fn closed_ensemble(
    name: &'static str,
    workload: Workload,
    connections: u32,
    window: u32,
) -> Case {
    ensemble(name, SMALL, OfEnsemble::Closed { workload, connections, window })
}

const fn outage(name: &'static str, outage: Outage) -> Case {
    ensemble(name, SMALL, OfEnsemble::Outage(outage))
}

const fn watched(workload: Workload) -> What {
    What::Watched { watches: 1_000_000, workload }
}

const fn sized(value_len: usize) -> Population {
    Population { keys: 100, value_len }
}

/// All cases, in the order in which they run.
pub(crate) const CASES: &[Case] = &[
    closed("get 16 x 32", SMALL, Workload::Get, 16, 32),
    closed("get 16 x 1", SMALL, Workload::Get, 16, 1),
    closed("get 1 x 1", SMALL, Workload::Get, 1, 1),
    closed("exists 16 x 32", SMALL, Workload::Exists, 16, 32),
    closed("children 16 x 32", SMALL, Workload::Children, 16, 32),
    closed("ping 16 x 32", SMALL, Workload::Ping, 16, 32),
    closed("set 16 x 32", SMALL, Workload::Set, 16, 32),
    closed("set 16 x 1", SMALL, Workload::Set, 16, 1),
    closed("set 1 x 1", SMALL, Workload::Set, 1, 1),
    closed("mixed 90/10 16 x 32", SMALL, Workload::Mixed, 16, 32),
    closed("multi 16 x 32", SMALL, Workload::Multi, 16, 32),
    closed("ephemeral 16 x 32", SMALL, Workload::Ephemeral, 16, 32),
    case("new sessions", SMALL, What::Sessions { connections: 16 }),
    case("fan-out to 5,000", SMALL, What::FanOut { watchers: 5_000 }),
    case("set, open loop", SMALL, What::HalfOfApache),
    case("5,000 connections, 1 get/s each", SMALL, What::Trickle { connections: 5_000 }),
    closed("create 16 x 32", SMALL, Workload::Create, 16, 32),
    closed("get 1 kB 16 x 32", sized(1_000), Workload::Get, 16, 32),
    closed("set 1 kB 16 x 32", sized(1_000), Workload::Set, 16, 32),
    closed("get 10 kB 16 x 8", sized(10_000), Workload::Get, 16, 8),
    closed("set 10 kB 16 x 8", sized(10_000), Workload::Set, 16, 8),
    closed("get 100 kB 16 x 2", sized(100_000), Workload::Get, 16, 2),
    closed("set 100 kB 16 x 2", sized(100_000), Workload::Set, 16, 2),
    case("memory, 1 M znodes", M1, What::Memory { sessions: 5_000 }),
    closed("growth, 1 M znodes: get", M1, Workload::Get, 16, 32),
    closed("growth, 1 M znodes: set", M1, Workload::Set, 16, 32),
    case("growth, 1 M watches: get", M1, watched(Workload::Get)),
    case("growth, 1 M watches: set", M1, watched(Workload::Set)),
    case("growth, 1 M watches: create and delete", M1, watched(Workload::Ephemeral)),
    closed(
        "growth, 1 M children of one parent: create and delete",
        M1,
        Workload::Ephemeral,
        16,
        32,
    ),
    closed("growth, 1 M children of one parent: create", M1, Workload::Create, 16, 32),
    closed("growth, 100 k znodes: get", K100, Workload::Get, 16, 32),
    closed("growth, 100 k znodes: set", K100, Workload::Set, 16, 32),
    closed("growth, 100 k znodes: create and delete", K100, Workload::Ephemeral, 16, 32),
    closed("growth, 100 k znodes: create", K100, Workload::Create, 16, 32),
    closed("growth, 5 M znodes: get", M5, Workload::Get, 16, 32),
    closed("growth, 5 M znodes: set", M5, Workload::Set, 16, 32),
    closed("growth, 5 M znodes: create and delete", M5, Workload::Ephemeral, 16, 32),
    closed("growth, 5 M znodes: create", M5, Workload::Create, 16, 32),
    case("start, 1 M znodes", M1, What::Start { replayed: 99_000 }),
    case("start, 10 M znodes", M10, What::Start { replayed: 99_000 }),
    case("snapshot, 1 M znodes", M1, What::Snapshot),
    case("storm, 1,000 operations/s beside it", M1, What::Storm),
    closed_ensemble("ensemble, set 15 x 32", Workload::Set, 15, 32),
    closed_ensemble("ensemble, set 1 x 1", Workload::Set, 1, 1),
    closed_ensemble("ensemble, get 15 x 32", Workload::Get, 15, 32),
    closed_ensemble("ensemble, mixed 90/10 15 x 32", Workload::Mixed, 15, 32),
    outage("ensemble, leader killed", Outage::Killed),
    outage("ensemble, leader ended by SIGTERM", Outage::Ended),
    outage("ensemble, leader frozen", Outage::Frozen),
    ensemble("ensemble, RSS with 1 M znodes", M1, OfEnsemble::Memory),
    ensemble("ensemble, follower emptied, 1 M znodes", M1, OfEnsemble::EmptiedFollower),
];

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) warm_up: Duration,
    /// How long Apache ZooKeeper is loaded before that.
    pub(crate) steady: Steady,
    pub(crate) measured: Duration,
    /// Of the open loop at half of Apache ZooKeeper's maximum.
    pub(crate) open_loop: Duration,
    /// How often something happens to a leader.
    pub(crate) outages: u32,
    /// Divides populations, connections and watchers: a run that only shows that it runs.
    pub(crate) scale: NonZeroU32,
}

impl Spans {
    pub(crate) fn scaled(&self, count: u32) -> u32 {
        (count / self.scale).max(1)
    }
}
