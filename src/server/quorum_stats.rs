//! What a member counts of its ensemble, by ZooKeeper's names (reference 15): how long transactions take on their way, how
//! long elections do, and how far the others are behind.

use std::collections::{BTreeMap, VecDeque};

use metrics::Histogram;
use parking_lot::Mutex;

use super::distribution::Distribution;
use super::shared::Role;
use super::stats::Summary;
use crate::engine::time::Now;
use crate::ensemble::{Appended, Peer, PeerLog};

/// Places in the log whose bytes are kept; of more, every second one goes.
const MARKS_MAX: usize = 4096;

/// What is shown.
#[derive(Debug, Default)]
pub(super) struct QuorumStats(Mutex<Shown>);

/// Everything that monitoring reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    pub(super) counts: Counts,
    /// What they had come to at the last `srst`: a scraper's must not go back.
    pub(super) counts_at_reset: Counts,
    pub(super) times: BTreeMap<&'static str, Summary>,
    pub(super) latencies: BTreeMap<&'static str, Distribution>,
    /// Of the members that acknowledged to this leader, by server.
    pub(super) acks: BTreeMap<u8, Distribution>,
    /// As a leader: how far each other member is behind, by server.
    pub(super) lags: BTreeMap<u8, Lag>,
    /// Bytes of the last, the least and the greatest proposal.
    pub(super) proposal_size: Option<[u64; 3]>,
}

/// Events since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) proposals: u64,
    pub(super) commits: u64,
    pub(super) learner_proposals: u64,
    pub(super) learner_commits: u64,
    pub(super) looking: u64,
    pub(super) snapshots_sent: u64,
    pub(super) diffs: u64,
}

/// What a member lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lag {
    pub(super) entries: u64,
    /// At least so many.
    pub(super) bytes: u64,
}

/// Of ZooKeeper's summaries without percentiles.
pub(super) const TIMES: [&str; 5] = [
    "election_time",
    "unavailable_time",
    "leader_unavailable_time",
    "follower_sync_time",
    "observer_sync_time",
];
/// Of those with percentiles.
pub(super) const LATENCIES: [&str; 5] = [
    "proposal_latency",
    "proposal_ack_creation_latency",
    "quorum_ack_latency",
    "commit_propagation_latency",
    "propagation_latency",
];

impl QuorumStats {
    pub(super) fn shown(&self) -> Shown {
        self.0.lock().clone()
    }

    /// `srst`: everything is counted from here on.
    pub(super) fn reset(&self) {
        let mut shown = self.0.lock();
        *shown = Shown {
            counts: shown.counts,
            counts_at_reset: shown.counts,
            lags: std::mem::take(&mut shown.lags),
            ..Shown::default()
        };
    }
}

impl Shown {
    fn latency(&mut self, name: &'static str, all_ms: impl Iterator<Item = u64>) {
        let mut all_ms = all_ms.peekable();
        if all_ms.peek().is_some() {
            record(self.latencies.entry(name).or_default(), &metrics::histogram!(name), all_ms);
        }
    }

    fn ack(&mut self, server: u8, all_ms: impl Iterator<Item = u64>) {
        let mut all_ms = all_ms.peekable();
        if all_ms.peek().is_some() {
            let histogram = metrics::histogram!("ack_latency", "key" => server.to_string());
            record(self.acks.entry(server).or_default(), &histogram, all_ms);
        }
    }

    fn time(&mut self, name: &'static str, ms: u64) {
        self.times.entry(name).or_default().record(ms);
        metrics::histogram!(name).record(as_double(ms));
    }
}

fn record(to: &mut Distribution, histogram: &Histogram, all_ms: impl Iterator<Item = u64>) {
    for ms in all_ms {
        to.record(ms);
        histogram.record(as_double(ms));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a histogram takes doubles")]
const fn as_double(ms: u64) -> f64 {
    ms as f64
}

/// How the log of a member stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) leads: bool,
    /// The last entry that is on this member's disk, that is final, that is applied.
    pub(super) durable: u64,
    pub(super) committed: u64,
    pub(super) applied: u64,
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
pub(super) struct Watch {
    on_their_way: VecDeque<OnItsWay>,
    durable: u64,
    committed: u64,
    applied: u64,
    /// What each member is known to have.
    acked: BTreeMap<u64, u64>,
    /// How each member of which that is known came to what it lacked.
    synced: BTreeMap<u64, PeerLog>,
    /// Places in the log, each with the bytes of everything behind the first one up to it.
    marks: Vec<(u64, u64)>,
    /// Since when nobody is known to lead, or nobody serves here, or somebody leads and it does not serve yet.
    looking: Option<u64>,
    unavailable: Option<u64>,
    syncing: Option<u64>,
    /// Wall clock at the last change of who leads: what is older has been on its way for other reasons.
    since: i64,
}

impl Watch {
    /// Behind a turn: `appended` is what came into the log.
    pub(super) fn see(
        &mut self,
        stats: &QuorumStats,
        appended: &[Appended],
        progress: Progress,
        peers: &[Peer],
        now: Now,
    ) {
        let mut shown = stats.0.lock();
        let (wall, since) = (now.wall.0, self.since);
        let latency = move |time: i64| {
            let ms = u64::try_from(wall - time).ok();
            ms.filter(|_| time >= since)
        };
        for Appended { index, time, bytes } in appended {
            self.cut(*index);
            let its = OnItsWay { index: *index, time: *time };
            if progress.leads {
                shown.counts.proposals += 1;
                let [_, min, max] = shown.proposal_size.unwrap_or([0, u64::MAX, 0]);
                shown.proposal_size = Some([*bytes, min.min(*bytes), max.max(*bytes)]);
            } else {
                shown.counts.learner_proposals += 1;
            }
            self.on_their_way.push_back(its);
            let before = self.marks.last().map_or(0, |(_, bytes)| *bytes);
            self.marks.push((*index, before + bytes));
        }
        if !progress.leads {
            let news = appended.iter().filter_map(|Appended { time, .. }| latency(*time));
            shown.latency("proposal_latency", news);
        }
        if self.marks.len() > MARKS_MAX {
            let mut at = 0;
            self.marks.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
        if progress.leads {
            self.see_acks(&mut shown, peers, latency);
        }
        let (count, of_commit) = if progress.leads {
            (&mut shown.counts.commits, "quorum_ack_latency")
        } else {
            (&mut shown.counts.learner_commits, "commit_propagation_latency")
        };
        *count += self.between(self.committed, progress.committed).count() as u64;
        for (name, before, now) in [
            ("proposal_ack_creation_latency", self.durable, progress.durable),
            (of_commit, self.committed, progress.committed),
            ("propagation_latency", self.applied, progress.applied),
        ] {
            let passed = self.between(before, now);
            shown.latency(name, passed.filter_map(|its| latency(its.time)));
        }
        self.durable = progress.durable;
        self.committed = progress.committed;
        self.applied = progress.applied;
        while self.on_their_way.pop_front_if(|its| its.index <= progress.applied).is_some() {}
    }

    /// Who has what now. As in ZooKeeper, a word on what is final already does not count.
    fn see_acks(
        &mut self,
        shown: &mut Shown,
        peers: &[Peer],
        latency: impl Fn(i64) -> Option<u64>,
    ) {
        for peer in peers {
            let before = self.acked.insert(peer.id, peer.matched).unwrap_or(peer.matched);
            let acked = self.between(before.max(self.committed), peer.matched);
            if peer.votes {
                shown.ack(peer.server, acked.filter_map(|its| latency(its.time)));
            }
        }
    }

    /// What is on its way behind one entry, up to another.
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

    /// From time to time: how far a leader's others are behind, and how they came to what they lacked.
    pub(super) fn see_lags(&mut self, stats: &QuorumStats, own: u64, last: u64, peers: &[Peer]) {
        let mut shown = stats.0.lock();
        shown.lags.clear();
        self.synced.retain(|id, _| peers.iter().any(|peer| peer.id == *id && peer.is_there));
        for peer in peers.iter().filter(|peer| peer.id != own) {
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
            match (self.synced.get(&peer.id), peer.log) {
                (None | Some(PeerLog::Unknown), PeerLog::Follows) => shown.counts.diffs += 1,
                (before, PeerLog::Snapshot) if before != Some(&PeerLog::Snapshot) => {
                    shown.counts.snapshots_sent += 1;
                }
                // While it is asked what it has, it is known how it came there.
                (Some(_), PeerLog::Unknown) => continue,
                _ => {}
            }
            self.synced.insert(peer.id, peer.log);
        }
    }

    /// The way to a peer has ended: what it lacks when it comes back is another matter.
    pub(super) fn lost(&mut self, peer: u64) {
        self.synced.remove(&peer);
    }

    /// This member leads no more: what it knew of the others is of the past.
    pub(super) fn leads_no_more(&mut self, stats: &QuorumStats) {
        self.acked.clear();
        self.synced.clear();
        stats.0.lock().lags.clear();
    }

    /// Behind a turn: whether somebody is known to lead, and what this member is to its clients.
    pub(super) fn see_role(&mut self, stats: &QuorumStats, has_leader: bool, role: Role, now: Now) {
        let ms = now.monotonic.0;
        let since = |began: Option<u64>| began.map(|began| ms.saturating_sub(began));
        let is_served = role != Role::None;
        if has_leader == self.looking.is_none() && is_served == self.unavailable.is_none() {
            return;
        }
        let mut shown = stats.0.lock();
        if has_leader {
            if let Some(ms) = since(self.looking.take()) {
                shown.time("election_time", ms);
                self.syncing = Some(now.monotonic.0);
                self.since = now.wall.0;
            }
        } else if self.looking.is_none() {
            shown.counts.looking += 1;
            (self.looking, self.syncing) = (Some(ms), None);
        }
        if !is_served {
            self.unavailable.get_or_insert(ms);
            return;
        }
        if let Some(ms) = since(self.unavailable.take()) {
            shown.time("unavailable_time", ms);
            if role == Role::Leader {
                shown.time("leader_unavailable_time", ms);
            }
        }
        if let Some(ms) = since(self.syncing.take()) {
            match role {
                Role::Follower => shown.time("follower_sync_time", ms),
                Role::Observer => shown.time("observer_sync_time", ms),
                Role::Leader | Role::None | Role::Standalone => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "quorum_stats_test.rs"]
mod quorum_stats_test;
