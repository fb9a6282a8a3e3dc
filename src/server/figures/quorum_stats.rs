//! What a member counts of its ensemble, by the names of `ServerMetrics`: how long transactions
//! take on their way, how long elections do, and how far the others lag.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use parking_lot::Mutex;

use super::series::{Counter, KeyedMeasure, Measure};
use super::stats::Stats;
use crate::engine::time::Now;
use crate::ensemble::{Appended, Peer, PeerLog};
use crate::server::role::Role;

/// Places in the log whose bytes are kept; of more, every second one goes.
const MARKS_MAX: usize = 4096;

/// What is shown beside what is counted and timed.
#[derive(Debug, Default)]
pub(in crate::server) struct QuorumStats(Mutex<Shown>);

/// How it stands now.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Shown {
    /// As a leader: how far each other member lags, by server.
    pub(in crate::server) lags: BTreeMap<u8, Lag>,
    /// As a leader, once it has looked: which other servers are with it.
    pub(in crate::server) there: Option<BTreeSet<u8>>,
    /// Bytes of the last, the least and the greatest proposal.
    pub(in crate::server) proposal_size: Option<[u64; 3]>,
}

/// What a member lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) struct Lag {
    pub(in crate::server) entries: u64,
    /// At least so many.
    pub(in crate::server) bytes: u64,
}

impl QuorumStats {
    pub(in crate::server) fn shown(&self) -> Shown {
        self.0.lock().clone()
    }

    /// Bytes of the last, the least and the greatest proposal, -1 where there was none.
    pub(in crate::server) fn proposal_sizes(&self) -> [i64; 3] {
        let sizes = self.0.lock().proposal_size;
        sizes.map_or([-1; 3], |sizes| sizes.map(u64::cast_signed))
    }

    /// `srst`.
    pub(in crate::server) fn reset(&self) {
        self.0.lock().proposal_size = None;
    }
}

fn record(stats: &Stats, measure: Measure, all_ms: impl Iterator<Item = u64>) {
    all_ms.for_each(|ms| stats.series.record(measure, ms));
}

/// How the log of a member stands.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Progress {
    pub(in crate::server) leads: bool,
    /// The last entry that is on this member's disk, that is final, that is applied.
    pub(in crate::server) durable: u64,
    pub(in crate::server) committed: u64,
    pub(in crate::server) applied: u64,
}

/// A transaction on its way.
#[derive(Debug)]
struct OnItsWay {
    index: u64,
    /// When its leader decided it.
    time: i64,
}

/// What a member's thread knows of it from one turn to the next.
#[derive(Debug, Default)]
pub(in crate::server) struct Watch {
    on_their_way: VecDeque<OnItsWay>,
    durable: u64,
    committed: u64,
    applied: u64,
    /// What each member is known to have.
    acked: BTreeMap<u64, u64>,
    /// How each member of which that is known came to what it lacked.
    synced: BTreeMap<u64, PeerLog>,
    /// Places in the log, each with the bytes of everything after the first one up to it.
    marks: Vec<(u64, u64)>,
    /// Since when nobody is known to lead, or nobody serves here, or somebody leads and it does not
    /// serve yet.
    looking: Option<u64>,
    unavailable: Option<u64>,
    syncing: Option<u64>,
    /// Wall clock at the last change of who leads: what is older has been on its way for other
    /// reasons.
    since: i64,
}

impl Watch {
    /// After a turn: `appended` is what came into the log.
    pub(in crate::server) fn see(
        &mut self,
        stats: &Stats,
        appended: &[Appended],
        progress: Progress,
        peers: &[Peer],
        now: Now,
    ) {
        let series = &stats.series;
        let (wall, since) = (now.wall.0, self.since);
        let latency = move |time: i64| {
            let ms = u64::try_from(wall - time).ok();
            ms.filter(|_| time >= since)
        };
        for Appended { index, time, bytes } in appended {
            self.cut(*index);
            let its = OnItsWay { index: *index, time: *time };
            if progress.leads {
                series.count(Counter::Proposals, 1);
                let mut shown = stats.quorum.0.lock();
                let [_, min, max] = shown.proposal_size.unwrap_or([0, u64::MAX, 0]);
                shown.proposal_size = Some([*bytes, min.min(*bytes), max.max(*bytes)]);
            } else {
                series.count(Counter::LearnerProposals, 1);
            }
            self.on_their_way.push_back(its);
            let before = self.marks.last().map_or(0, |(_, bytes)| *bytes);
            self.marks.push((*index, before + bytes));
        }
        if !progress.leads {
            let news = appended.iter().filter_map(|Appended { time, .. }| latency(*time));
            record(stats, Measure::Proposal, news);
        }
        if self.marks.len() > MARKS_MAX {
            let mut at = 0;
            self.marks.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
        if progress.leads {
            self.see_acks(stats, peers, latency);
        }
        let (count, of_commit) = if progress.leads {
            (Counter::Commits, Measure::QuorumAck)
        } else {
            (Counter::LearnerCommits, Measure::CommitPropagation)
        };
        let committed = self.between(self.committed, progress.committed).count();
        series.count(count, committed as u64);
        for (measure, before, now) in [
            (Measure::Acknowledgement, self.durable, progress.durable),
            (of_commit, self.committed, progress.committed),
            (Measure::Propagation, self.applied, progress.applied),
        ] {
            let passed = self.between(before, now);
            record(stats, measure, passed.filter_map(|its| latency(its.time)));
        }
        let written = self.between(self.durable, progress.durable).count() as u64;
        if written > 0 {
            series.record(Measure::GroupTxns, written);
            series.count(Counter::TxnsLogged, written);
        }
        self.durable = progress.durable;
        self.committed = progress.committed;
        self.applied = progress.applied;
        while self.on_their_way.pop_front_if(|its| its.index <= progress.applied).is_some() {}
    }

    /// Who has what now. As in ZooKeeper, a word on what is final already does not count.
    fn see_acks(&mut self, stats: &Stats, peers: &[Peer], latency: impl Fn(i64) -> Option<u64>) {
        for peer in peers {
            let before = self.acked.insert(peer.id, peer.matched).unwrap_or(peer.matched);
            let acked = self.between(before.max(self.committed), peer.matched);
            if !peer.votes {
                continue;
            }
            let mut all_ms = acked.filter_map(|its| latency(its.time)).peekable();
            if all_ms.peek().is_some() {
                let key = peer.server.to_string();
                all_ms.for_each(|ms| stats.series.record_of_key(KeyedMeasure::Ack, &key, ms));
            }
        }
    }

    /// What is on its way after one entry, up to another.
    fn between(&self, before: u64, last: u64) -> impl Iterator<Item = &OnItsWay> {
        let to = self.on_their_way.partition_point(|its| its.index <= last);
        let from = self.on_their_way.partition_point(|its| its.index <= before).min(to);
        self.on_their_way.range(from..to)
    }

    /// What stood here from the entry `index` on is replaced.
    fn cut(&mut self, index: u64) {
        while self.on_their_way.pop_back_if(|its| its.index >= index).is_some() {}
        while self.marks.pop_if(|(at, _)| *at >= index).is_some() {}
        self.durable = self.durable.min(index.saturating_sub(1));
    }

    /// From time to time: how far a leader's others lag, and how they came to what they
    /// lacked.
    pub(in crate::server) fn see_lags(
        &mut self,
        stats: &Stats,
        own: u64,
        last: u64,
        peers: &[Peer],
    ) {
        let series = &stats.series;
        let mut shown = stats.quorum.0.lock();
        shown.lags.clear();
        self.synced.retain(|id, _| peers.iter().any(|peer| peer.id == *id && peer.is_there));
        // Of several lives of a server, the one that is there is shown, or else the one that has
        // most.
        let mut others: Vec<&Peer> = peers.iter().filter(|peer| peer.id != own).collect();
        others.sort_unstable_by_key(|peer| (peer.is_there, peer.matched));
        let mut there = BTreeSet::new();
        for peer in others {
            let behind = self.marks.partition_point(|(index, _)| *index <= peer.matched);
            let had = behind.checked_sub(1).and_then(|at| self.marks.get(at));
            let all = self.marks.last().map_or(0, |(_, bytes)| *bytes);
            let lag = Lag {
                entries: last.saturating_sub(peer.matched),
                bytes: all - had.map_or(0, |(_, bytes)| *bytes),
            };
            shown.lags.insert(peer.server, lag);
            if !peer.is_there {
                continue;
            }
            there.insert(peer.server);
            let key = peer.server.to_string();
            series.record_of_key(KeyedMeasure::BehindLearner, &key, lag.entries);
            match (self.synced.get(&peer.id), peer.log) {
                (None | Some(PeerLog::Unknown), PeerLog::Follows) => {
                    series.count(Counter::Diffs, 1);
                }
                (before, PeerLog::Snapshot) if before != Some(&PeerLog::Snapshot) => {
                    series.count(Counter::Snapshots, 1);
                    let inflight = peers.iter().filter(|its| its.log == PeerLog::Snapshot);
                    series.record(Measure::InflightSnapshots, inflight.count() as u64);
                }
                // While it is asked what it has, it is known how it came there.
                (Some(_), PeerLog::Unknown) => continue,
                _ => {}
            }
            self.synced.insert(peer.id, peer.log);
        }
        shown.there = Some(there);
    }

    /// The way to a peer has ended: what it lacks when it comes back is another matter.
    pub(in crate::server) fn lost(&mut self, peer: u64) {
        self.synced.remove(&peer);
    }

    /// This member leads no more: what it knew of the others is of the past.
    pub(in crate::server) fn leads_no_more(&mut self, stats: &Stats) {
        self.acked.clear();
        self.synced.clear();
        let mut shown = stats.quorum.0.lock();
        shown.lags.clear();
        shown.there = None;
    }

    /// After a turn: whether somebody is known to lead, and what this member is to its clients.
    pub(in crate::server) fn see_role(
        &mut self,
        stats: &Stats,
        has_leader: bool,
        role: Role,
        now: Now,
    ) {
        let ms = now.monotonic.0;
        let since = |began: Option<u64>| began.map(|began| ms.saturating_sub(began));
        let is_served = !role.lacks_leader();
        if has_leader == self.looking.is_none() && is_served == self.unavailable.is_none() {
            return;
        }
        let series = &stats.series;
        if has_leader {
            if let Some(ms) = since(self.looking.take()) {
                series.record(Measure::Election, ms);
                self.syncing = Some(now.monotonic.0);
                self.since = now.wall.0;
            }
        } else if self.looking.is_none() {
            series.count(Counter::Looking, 1);
            (self.looking, self.syncing) = (Some(ms), None);
        }
        if !is_served {
            self.unavailable.get_or_insert(ms);
            return;
        }
        if let Some(ms) = since(self.unavailable.take()) {
            series.record(Measure::Unavailable, ms);
            if role == Role::Leader {
                series.record(Measure::LeaderUnavailable, ms);
            }
        }
        if let Some(ms) = since(self.syncing.take()) {
            match role {
                Role::Follower => series.record(Measure::FollowerSync, ms),
                Role::Observer => series.record(Measure::ObserverSync, ms),
                Role::Leader | Role::None | Role::ReadOnly | Role::Standalone | Role::Reading => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "quorum_stats_test.rs"]
mod quorum_stats_test;
