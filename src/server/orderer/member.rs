//! The thread of a member of an ensemble: gives it time, what its clients ask and what the others
//! say, and tells the rest of the server who leads.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::lone;
use super::member_role::{role_of, tell_no_role, tell_role};
use super::read_only::ReadOnlyMode;
use super::reaper::Reaper;
use super::upkeep::{Purges, Wanted};
use crate::config::{self, ListenAddress};
use crate::engine::decide::tracker::first_session_id;
use crate::engine::time::{Monotonic, Now};
use crate::ensemble::{
    EnsembleError, FromPeer, Inquiry, Life, Member, Peer, Scope, Snapshots, Written, server_of,
};
use crate::message::MessageId;
use crate::server::client::connection::Connection;
use crate::server::clock::{Clock, millis};
use crate::server::data;
use crate::server::figures::quorum_stats::{Progress, Watch};
use crate::server::figures::series::Counter;
use crate::server::list_files::ListFiles;
use crate::server::peers::Peers;
use crate::server::role::{Others, Role};
use crate::server::shared::Server;

/// How long a leader that ends waits for another one.
const HAND_OVER_MS: u64 = 500;
/// Why nobody gets a session.
const SHORT_DISKS: &str = "the disks of a majority or of the leader are all but full: new sessions \
    are refused until they have space again";
const FULL_DISK: &str =
    "the disk of its log is full: it accepts no transactions until there is space again";

/// Where the other servers reach this one: at the address of its own line, or at every one where
/// that is none of this machine's, as behind a translation of addresses.
pub(in crate::server) fn listen_address(members: &config::Ensemble) -> ListenAddress {
    let Some(me) = members.me() else { return ListenAddress { address: None, port: 0 } };
    let found = (me.host.as_str(), me.quorum_port).to_socket_addrs().ok();
    let own = |address: &SocketAddr| TcpListener::bind((address.ip(), 0)).is_ok();
    let address = found.and_then(|mut found| found.find(own)).map(|found| found.ip());
    ListenAddress { address: address.filter(|ip| !ip.is_unspecified()), port: me.quorum_port }
}

/// Runs a member until the queue ends.
///
/// # Errors
/// When it had to stop: the process must end.
pub(in crate::server) fn run(
    server: &Arc<Server>,
    mut member: Member<Peers>,
    disk: &Disk,
    ensemble: &config::Ensemble,
) -> Result<(), EnsembleError> {
    let mut thread = Thread::new(server, &member, ensemble);
    let mut patience = Duration::ZERO;
    loop {
        let mut batch = server.intake.queue.take(patience);
        let now = server.clock.now();
        let late = thread.life.wakes(now.monotonic);
        server.group_began.store(now.monotonic.0.max(1), Ordering::Relaxed);
        for written in batch.written {
            thread.written(server, &mut member, written?)?;
        }
        for (what, _room) in batch.from_peers {
            thread.take(&mut member, what, now)?;
        }
        thread.tick(&mut member, now.monotonic);
        if batch.wants_round {
            member.requests_mut().want_round();
        }
        lone::take(server, &mut batch.submissions, now);
        member.submit(batch.submissions);
        member.turn(now)?;
        disk.write(member.consensus_mut().take_writes());
        thread.do_chores(server, &mut member, now)?;
        disk.write(member.consensus_mut().take_writes());
        thread.measure(server, &mut member, now);
        expire_local(server, &mut member, now.monotonic, late);
        thread.life.give_seats(&member);
        lone::refused_for_room(server, member.requests_mut().take_refused_for_room());
        if member.consensus().has_full_disk() {
            *server.short_disk.lock() = Some(FULL_DISK);
        } else {
            lone::see_room(server, member.room(), SHORT_DISKS);
        }
        thread.report(server, &mut member, now)?;
        for inquiry in batch.inquiries {
            match inquiry {
                Inquiry::LogState => tell_state(&member),
                Inquiry::HandOver => hand_over(&mut member),
                Inquiry::Expiry(scope, from, to) => {
                    let told = match scope {
                        Scope::Local => member.requests().local_sessions().map(|its| {
                            lone::expiries(|most, each| its.walk_expiry(from, most, each))
                        }),
                        Scope::Global => member.requests_mut().sequencer().map(|its| {
                            lone::expiries(|most, each| its.walk_expiry(from, most, each))
                        }),
                    };
                    // Whoever asked may have stopped waiting.
                    let _ = to.try_send(told);
                }
                Inquiry::Snapshot(asker) => thread.snapshots.ask(asker),
                // The others would not have it.
                Inquiry::Replace(..) => {}
            }
        }
        if batch.is_last {
            return thread.leave(server, &mut member, disk);
        }
        let goes_on = thread.snapshot(server, &mut member)?;
        let writes_since = member.consensus().unsynced_since().map_or(0, |since| since.0.max(1));
        server.group_began.store(writes_since, Ordering::Relaxed);
        let has_more = goes_on || member.has_more();
        patience = Duration::from_millis(thread.life.sleeps(has_more, server.clock.monotonic()));
    }
}

fn tell_state(member: &Member<Peers>) {
    tracing::info!(?member, held = member.requests().held(), "state");
}

/// What an operator asked for. Nothing ends by it: what is undecided goes to the next leader.
fn hand_over(member: &mut Member<Peers>) {
    if !member.requests().is_leading() {
        let leader = server_of(member.consensus().leader());
        tracing::warn!(
            id = %MessageId::HAND_OVER_NOT_LEADING,
            leader,
            "cannot hand over leadership: this server is not the leader"
        );
    } else if let Some(to) = member.hand_over_to_best() {
        tracing::info!(to, "handing over leadership as requested");
    } else {
        tracing::warn!(
            id = %MessageId::HAND_OVER_NOBODY,
            "cannot hand over leadership: there is no other voter"
        );
    }
}

/// What a member's thread knows beside the member.
struct Thread {
    life: Life,
    /// For how long clients are kept without a leader.
    patience: Patience,
    /// When clients are served that read only.
    read_only: ReadOnlyMode,
    /// Its role and its leader, as the log has them.
    told: (Role, u64),
    reaper: Reaper,
    snapshots: Snapshots,
    purges: Purges,
    /// What is applied and counted for the next snapshot.
    counted: u64,
    next_step: Instant,
    watch: Watch,
    /// Where the list is written down for the next start, if this one read a zoo.cfg.
    list_files: Option<ListFiles>,
}

impl Thread {
    fn new(server: &Server, member: &Member<Peers>, ensemble: &config::Ensemble) -> Self {
        let now = server.clock.monotonic();
        let snapshots = Snapshots::new(
            Arc::clone(&server.directory),
            data::compression(&server.config),
            snapshot_due(server.config.snap_count),
            server.config.snap_size_limit_bytes.map(NonZeroU64::get),
            member.consensus().behind_snapshot(),
        );
        let tick_time_ms = u64::from(server.config.tick_time_ms);
        let zoo_cfg = server.config.file.as_ref().filter(|_| server.config.reconfig_enabled);
        let listed = ensemble.list.servers.iter().map(|(id, _)| *id).collect();
        Self {
            life: Life::new(now, tick_time_ms, ensemble.ids(false).collect(), listed),
            patience: Patience::new(millis(ensemble.sync_limit), now),
            read_only: ReadOnlyMode::new(ensemble.read_only_mode, tick_time_ms),
            told: (Role::None, 0),
            reaper: Reaper::new(&server.config.containers, now),
            snapshots,
            purges: Purges::default(),
            counted: member.consensus().applied(),
            next_step: Instant::now(),
            watch: Watch::default(),
            list_files: zoo_cfg.and_then(|its| ListFiles::start(&its.path, ensemble.my_id)),
        }
    }

    fn take(
        &mut self,
        member: &mut Member<Peers>,
        what: FromPeer,
        now: Now,
    ) -> Result<(), EnsembleError> {
        if let Some(lost) = self.life.take(member, what, now)? {
            self.watch.lost(lost);
        }
        Ok(())
    }

    /// Hears what the disk did.
    fn written(
        &mut self,
        server: &Server,
        member: &mut Member<Peers>,
        written: Written,
    ) -> Result<(), EnsembleError> {
        if let Some(took) = written.sync {
            lone::synced(server, took);
        }
        self.snapshots.count(0, written.bytes);
        if written.log_was_removed {
            self.snapshots.want();
        }
        let is_installed = member.persisted(written)?;
        if let Some(asks) = member.consensus_mut().take_asks() {
            member.transport().asks(asks);
        }
        if is_installed {
            member.transport().has_base();
            tracing::info!(
                index = member.consensus().applied(),
                "installed a snapshot from the leader"
            );
            // It walks through a tree that is not there any more.
            self.snapshots.abandon();
            self.counted = member.consensus().applied();
        }
        Ok(())
    }

    fn tick(&mut self, member: &mut Member<Peers>, now: Monotonic) {
        let is_silent = member.transport().is_silent();
        member.consensus_mut().set_silent(is_silent);
        self.life.tick(member, now);
    }

    /// The end: a leader hands over first, so that nobody has to find out that it is gone.
    fn leave(
        &mut self,
        server: &Server,
        member: &mut Member<Peers>,
        disk: &Disk,
    ) -> Result<(), EnsembleError> {
        let began = server.clock.monotonic();
        member.consensus().ends();
        if !member.requests().is_leading() || member.hand_over_to_best().is_none() {
            return Ok(());
        }
        while member.requests().is_leading() && server.clock.monotonic().since(began) < HAND_OVER_MS
        {
            let now = server.clock.now();
            let batch = server.intake.queue.take(Duration::ZERO);
            for written in batch.written {
                self.written(server, member, written?)?;
            }
            for (what, _room) in batch.from_peers {
                self.take(member, what, now)?;
            }
            self.tick(member, now.monotonic);
            member.turn(now)?;
            disk.write(member.consensus_mut().take_writes());
            std::thread::sleep(Duration::from_millis(1));
        }
        let ms = server.clock.monotonic().since(began);
        tracing::info!(ms, done = !member.requests().is_leading(), "handed over leadership");
        Ok(())
    }

    /// Goes by the list of servers that the ensemble has agreed on, if it is another one.
    fn follow_list(&mut self, member: &mut Member<Peers>) {
        let Some(list) = member.take_list() else { return };
        let version = format_args!("{:x}", list.version);
        let (all, voters) = (list.servers.iter().len(), list.servers.voters());
        tracing::info!(%version, servers = all, voters, "the ensemble has another list of servers");
        self.life.set_list(&list.servers);
        member.transport().set_list(&list.servers);
        // One without this server would keep it from starting, as it does ZooKeeper's.
        let is_listed = list.servers.get(server_of(member.consensus().id())).is_some();
        if let Some(files) = self.list_files.as_ref().filter(|_| is_listed) {
            files.write(list);
        }
    }

    /// What a leader wants done by itself.
    fn do_chores(
        &mut self,
        server: &Server,
        member: &mut Member<Peers>,
        now: Now,
    ) -> Result<(), EnsembleError> {
        self.follow_list(member);
        let Some(stood_still) = self.life.looks_at_sessions(member) else { return Ok(()) };
        let mut chores = member.orphans();
        if let Some(sequencer) = member.requests_mut().sequencer() {
            chores.append(&mut lone::due(server, sequencer, now, stood_still));
        }
        chores.append(&mut self.reaper.chores(&server.replica, now));
        if chores.is_empty() {
            return Ok(());
        }
        member.requests_mut().take_chores(chores);
        member.turn(now)
    }

    /// Counts what this turn brought.
    fn measure(&mut self, server: &Server, member: &mut Member<Peers>, now: Now) {
        let appended = member.consensus_mut().take_appended();
        let leads = member.requests().is_leading();
        let progress = Progress {
            leads,
            durable: member.consensus().durable(),
            committed: member.consensus().committed(),
            applied: member.consensus().applied(),
        };
        let peers = if leads { member.consensus().peers() } else { Vec::new() };
        // The turn itself took its time.
        let now = Now { wall: Clock::wall(), ..now };
        self.watch.see(&server.stats, &appended, progress, &peers, now);
    }

    /// Tells the leader who was heard of, and this server whether it serves.
    fn report(
        &mut self,
        server: &Server,
        member: &mut Member<Peers>,
        now: Now,
    ) -> Result<(), EnsembleError> {
        if self.life.finds_begun(member) {
            member.transport().has_begun();
        }
        if self.life.report(member, now)? {
            let known = member.consensus().known();
            member.transport().know(known);
            if let Some(founding) = member.consensus().offer() {
                member.transport().offers(founding);
            }
            count(&server.others, member);
            if member.requests().is_leading() {
                let (last, peers) = (member.consensus().last_index(), member.consensus().peers());
                self.watch.see_lags(&server.stats, member.consensus().id(), last, &peers);
            }
        }
        let leader = member.consensus().leader();
        *server.others.leader.lock() = (leader != 0).then(|| server_of(leader));
        let is_fresh = server.replica.is_fresh(now.monotonic);
        let role = self.role(server, member, is_fresh, now);
        let keeps_clients = self.patience.keeps(!role.lacks_leader(), now.monotonic);
        if role == Role::None && keeps_clients && !member.has_wrong_tree() {
            return Ok(());
        }
        let now_told = (role, if role.lacks_leader() { 0 } else { leader });
        let lacks_vote = role == Role::Observer
            && self.life.voters().contains(&server_of(member.consensus().id()));
        if self.told != now_told {
            self.told = now_told;
            let fresh_until = server.replica.fresh_until();
            let too_old = (!is_fresh).then(|| now.monotonic.since(fresh_until));
            tell_role(member, role, too_old);
            if lacks_vote {
                tracing::info!("clients are served, but this server is not ready until it votes");
            }
        }
        server.others.lacks_vote.store(lacks_vote, Ordering::Relaxed);
        let before = server.role.get();
        if role != before {
            if before == Role::Leader {
                self.watch.leads_no_more(&server.stats);
            }
            if role == Role::ReadOnly {
                let first_id = first_session_id(server_of(member.consensus().id()), now.wall.0);
                member.requests_mut().begin_read_only(first_id);
            }
            server.role.set(role);
            count(&server.others, member);
            server.others.leads_since.store(now.monotonic.0, Ordering::Relaxed);
            // Those that read only are others.
            if !server.serves() || role == Role::ReadOnly {
                server.connections.each(Connection::close);
            }
        }
        Ok(())
    }

    /// What this member is to its clients from now on, unless they are kept for a while.
    fn role(
        &mut self,
        server: &Server,
        member: &mut Member<Peers>,
        is_fresh: bool,
        now: Now,
    ) -> Role {
        let role = role_of(member, is_fresh);
        tell_no_role(server, member, role, now.monotonic);
        self.watch.see_role(&server.stats, member.consensus().leader() != 0, role, now);
        let (is_current, may_be_read_only) = (role != Role::None, member.may_be_read_only());
        let stood_still = self.life.late_ms() > 0;
        if self.read_only.is_due(is_current, may_be_read_only, stood_still, now.monotonic) {
            return Role::ReadOnly;
        }
        if server.is_read_only() {
            self.end_read_only(server, member, now.monotonic);
        }
        role
    }

    /// There is a leader, most likely: clients that read only come back, and the others soon can.
    fn end_read_only(&mut self, server: &Server, member: &mut Member<Peers>, now: Monotonic) {
        let leader = server_of(member.consensus().leader());
        tracing::info!(
            id = %MessageId::READ_ONLY,
            leader,
            "this server no longer serves read-only clients"
        );
        (self.told, self.patience.since) = ((Role::None, 0), Some(now));
        member.requests_mut().end_read_only();
        server.role.set(Role::None);
        server.connections.each(Connection::close);
    }

    /// Begins a snapshot that is due, or goes on with the one on its way. Whether there is more to
    /// do at once.
    fn snapshot(
        &mut self,
        server: &Server,
        member: &mut Member<Peers>,
    ) -> Result<bool, EnsembleError> {
        let now = server.clock.monotonic();
        self.snapshots.count(member.consensus().applied().saturating_sub(self.counted), 0);
        self.counted = member.consensus().applied();
        let has_turn = member.has_turn(self.snapshots.need(now));
        if member.has_wrong_tree() {
            self.snapshots.stop(&server.replica);
        }
        member.reload(self.snapshots.may_begin());
        let is_lacked = member.is_asked_for_snapshot() && self.snapshots.may_begin_for_another(now);
        if has_turn || is_lacked || self.snapshots.is_asked_for() {
            member.begin_snapshot(&mut self.snapshots, now);
        }
        let Self { snapshots, next_step, .. } = self;
        let goes_on = lone::advance(server, snapshots, member.has_more(), next_step);
        if let Some(drift) = self.snapshots.take_drift() {
            member.found_drifted(drift)?;
        }
        let done = self.snapshots.take_done();
        if let Some((index, zxid)) = done {
            member.snapshot_taken(index, zxid, now);
            lone::took_snapshot(server, self.snapshots.last_duration_ms());
        }
        let occasion = (done.is_some(), member.consensus().has_short_disk());
        let wanted = || Wanted { from: member.wanted(), is_known: member.may_purge() };
        if self.purges.turn(server, now, occasion, wanted) {
            member.consensus_mut().purged(now);
        }
        Ok(goes_on)
    }
}

/// How long clients are kept while there is no leader, or what is here is too old to be read: most
/// elections are over sooner, and a server that was stopped may soon know what is. It is counted
/// from the first turn that finds out, whatever the reason, so that neither a stop nor one
/// standstill after another makes a difference.
#[derive(Debug)]
struct Patience {
    limit_ms: u64,
    /// Since when; nothing while all is well.
    since: Option<Monotonic>,
}

impl Patience {
    /// From a start on.
    const fn new(limit_ms: u64, now: Monotonic) -> Self {
        Self { limit_ms, since: Some(now) }
    }

    fn keeps(&mut self, is_well: bool, now: Monotonic) -> bool {
        if is_well {
            self.since = None;
            return true;
        }
        now.since(*self.since.get_or_insert(now)) < self.limit_ms
    }
}

/// Ends the sessions that live here only and are due. `late` is how long the thread stood still, in
/// milliseconds.
fn expire_local(server: &Server, member: &mut Member<Peers>, now: Monotonic, late: u64) {
    let expired = member.requests_mut().expire_local(now, late);
    server.stats.series.count(Counter::SessionsExpired, expired.len() as u64);
    lone::tell_expired(
        &expired,
        "expiring sessions of this server whose clients were not heard from",
    );
    let count = member.requests().count_local();
    server.others.local_sessions.store(count as u64, Ordering::Relaxed);
}

/// What monitoring shows of the others.
fn count(others: &Others, member: &Member<Peers>) {
    let (voters, followers, observers) = member.consensus().count_members();
    let counts =
        [(&others.voters, voters), (&others.followers, followers), (&others.observers, observers)];
    let is_synced =
        |peer: &Peer| peer.is_there && !peer.votes && peer.id != member.consensus().id();
    let observers_there = match member.requests().is_leading() {
        true => {
            let peers = member.consensus().peers().into_iter().filter(is_synced);
            peers.map(|peer| peer.server).collect()
        }
        false => Vec::new(),
    };
    *others.observers_there.lock() = observers_there;
    let syncs = u32::try_from(member.requests().pending_syncs()).unwrap_or(u32::MAX);
    others.pending_syncs.store(syncs, Ordering::Relaxed);
    for (to, count) in counts {
        to.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

/// Transactions between two snapshots: not as many on each server, so that they do not take theirs
/// at once (`SyncRequestProcessor.shouldSnapshot`).
fn snapshot_due(snap_count: u32) -> u64 {
    let half = u64::from(snap_count) / 2;
    let mut bytes = [0; 8];
    // Chance is not needed for anything but that.
    let _ = getrandom::fill(&mut bytes);
    half + u64::from_ne_bytes(bytes) % half.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_kept_for_a_sync_limit_however_often_the_thread_stands_still() {
        let mut patience = Patience::new(1000, Monotonic(0));
        assert!(patience.keeps(true, Monotonic(50)));
        // Stopped for longer than the limit: it begins when that is found out.
        assert!(patience.keeps(false, Monotonic(7000)));
        assert!(patience.keeps(false, Monotonic(7600)));
        assert!(!patience.keeps(false, Monotonic(8200)));
        assert!(!patience.keeps(false, Monotonic(8800)));
        // Only a leader begins it anew.
        assert!(patience.keeps(true, Monotonic(9000)));
        assert!(patience.keeps(false, Monotonic(9050)));
        assert!(patience.keeps(false, Monotonic(10_049)));
        assert!(!patience.keeps(false, Monotonic(10_050)));
    }
}
