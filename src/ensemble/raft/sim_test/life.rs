//! The life of a member: its start, its end, its snapshots, and what is looked at whenever it has
//! done something.

use std::hash::Hash as _;
use std::sync::Arc;

use raft::SnapshotStatus;

use super::checks::read_chain;
use super::copies::is_over;
use super::flawed_disk::FlawedDisk;
use super::post::Post;
use super::reconfigs::voters_of;
use super::server::{Thread, Waiting};
use super::storm::Mend;
use super::timeline::MS;
use super::turn::{SESSION_TICK_MS, SYNC_LIMIT_MS};
use super::wiped::disks;
use super::world::{Checked, Event, Stop, World, place_of};
use super::*;
use crate::engine::database::{Database, Rules};
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::ensemble::from_peer::FromPeer;
use crate::ensemble::replica::Replica;
use crate::ensemble::snapshots::{Drift, write_walk};
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{
    Compression, DataDirectory, DirectoryOptions, Disk, FillStep, RaftState, RaftStateFile,
    SnapshotWriter, StorageError, purge_behind,
};

impl Member<Post> {
    /// Takes a snapshot of the applied state, all of it at once.
    ///
    /// # Errors
    /// When the disk refuses.
    fn take_snapshot(&mut self, now: Monotonic) -> Result<(), StorageError> {
        let index = self.consensus.applied();
        let mut hold = self.applier.replica.exclusive();
        hold.database().begin_walk();
        let zxid = hold.database().last_zxid();
        let writer =
            SnapshotWriter::create(self.consensus.directory(), zxid.0, index, Compression::None)?;
        let tree = hold.database().tree();
        write_walk(writer, std::iter::from_fn(|| tree.advance_walk(u32::MAX, 0)))?;
        drop(hold);
        self.snapshot_taken(index, zxid, now);
        Ok(())
    }

    /// Takes a snapshot, if one can be taken. Where the disk refuses, the log has everything and
    /// the process goes on: then nothing of it is there.
    ///
    /// # Errors
    /// Where there is no power, or the snapshot would be wrong.
    pub(super) fn try_snapshot(
        &mut self,
        disk: &SimDisk,
        is_tainted: bool,
        now: Monotonic,
    ) -> Result<bool, EnsembleError> {
        if self.consensus.applied() > 0
            && self.may_take_snapshot()
            && let Err(error) = self.take_snapshot(now)
        {
            self.replica().shared().tree().abandon_walk();
            // Its digest is another one than that of its znodes only where a test sees to that.
            return match error {
                StorageError::Drifted { kept, sum } if is_tainted => {
                    let zxid = self.replica().shared().last_zxid();
                    self.found_drifted(Drift { zxid, kept, sum }).map(|()| false)
                }
                StorageError::Drifted { .. } => Err(error.into()),
                _ if disk.is_powerless() => Err(error.into()),
                _ => Ok(false),
            };
        }
        Ok(true)
    }
}

impl World {
    /// A member's thread has something to do at that time, or has it sooner.
    pub(super) fn wake(&mut self, at: usize, when: u64) {
        let when = when.max(self.timeline.now());
        let server = &mut self.servers[at];
        if server.member.is_some() && when < server.wakes {
            server.wakes = when;
            self.timeline.at(when, Event::Turn(at, when));
        }
    }

    /// Lets a member do something between its turns.
    pub(super) fn with(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Member<Post>) -> Result<(), EnsembleError>,
    ) -> Checked {
        let now = self.servers[at].clock.read(self.timeline.now());
        *self.servers[at].seen.now.lock() = now.monotonic;
        let Some(member) = &mut self.servers[at].member else { return Ok(()) };
        let done = act(member).and_then(|()| member.turn(now));
        self.finish(at, done.map_err(Stop::Failed))
    }

    /// Sends what a member has said, and looks at what it has done.
    pub(super) fn finish(&mut self, at: usize, done: Result<(), Stop>) -> Checked {
        let Some(member) = &mut self.servers[at].member else { return Ok(()) };
        let writes = member.consensus_mut().take_writes();
        let mut done = done;
        if self.flaw == Flaw::SaidBeforeWritten && done.is_ok() {
            let written = Written { writes: writes.len(), ..Written::default() };
            done = member.persisted(written).map(drop).map_err(Stop::Failed);
        }
        let post = member.transport();
        let (sent, snapshots) =
            (std::mem::take(&mut post.sent), std::mem::take(&mut post.snapshots));
        for (to, content) in sent {
            self.check_said(at, &content)?;
            self.send(at, place_of(to), content);
        }
        for (message, bytes) in snapshots {
            let to = place_of(message.to);
            // The one whom it is for is gone, or is not let in.
            if self.servers[to].id != message.to
                || !self.are_peers(at, to)
                || self.copies.are_back(at, to)
            {
                let status = FromPeer::SnapshotSent(message.to, SnapshotStatus::Failure);
                self.timeline
                    .after(MS, Event::Tell(at, self.servers[at].life, Waiting::From(status)));
                continue;
            }
            self.begin_transfer(at, to, message, bytes);
        }
        self.servers[at].writes.extend(writes);
        self.write_later(at);
        self.give_seats(at)?;
        match done {
            Ok(()) => self.observe(at),
            Err(Stop::Violation(violation)) => Err(format!("member {}: {violation}", at + 1)),
            Err(Stop::Failed(EnsembleError::Storage(StorageError::Io { source, .. })))
                if is_refusal(&source) =>
            {
                self.see_log(at)?;
                self.see_final(at)?;
                self.fail(at);
                Ok(())
            }
            Err(Stop::Failed(EnsembleError::WrongTreeAgain { .. })) if self.spoils.is_some() => {
                self.see_log(at)?;
                self.see_final(at)?;
                self.outcome.ended += 1;
                self.crash(at, false);
                Ok(())
            }
            Err(Stop::Failed(error)) => Err(format!("member {}: {error}: {error:?}", at + 1)),
        }
    }

    /// Everything that must hold, after a member has done something.
    pub(super) fn observe(&mut self, at: usize) -> Checked {
        self.see_wiped();
        self.see_listed();
        self.see_log(at)?;
        self.check_observer(at)?;
        let server = &mut self.servers[at];
        let Some(member) = &server.member else { return Ok(()) };
        let store = member.consensus.node.store();
        let RaftState { ref members, configured_at, .. } = store.promises;
        if configured_at < server.configured_at {
            return Err(format!("member {} goes back to the members of before", at + 1));
        }
        server.configured_at = configured_at;
        self.checks.configuration(configured_at, members)?;
        let now = self.timeline.now();
        (now, member.consensus().term(), member.consensus().leader(), store.log.last_zxid())
            .hash(&mut self.trace);
        if member.consensus().leader() == server.id {
            let (before, term) = (self.outcome.elections, member.consensus().term());
            self.checks.leads(term, server.id, &store.log)?;
            self.outcome.elections = before.max(term);
        }
        if server.recovering.is_some_and(|until| member.consensus().applied() >= until) {
            server.recovering = None;
        }
        self.see_final(at)?;
        let server = &self.servers[at];
        let Some(member) = &server.member else { return Ok(()) };
        let (applied, committed) = (member.consensus().applied(), member.consensus().committed());
        let database = member.replica().shared();
        self.checks.applied(applied, committed, &database)?;
        if !self.is_tainted {
            self.checks.tree(&database)?;
        }
        drop(database);
        for record in self.checks.take_news()? {
            self.see_gone(&record);
            self.became_final(record)?;
        }
        self.hear(at)
    }

    /// What is new in a member's log, and may be with others.
    fn see_log(&mut self, at: usize) -> Checked {
        let server = &mut self.servers[at];
        let Some(member) = &server.member else { return Ok(()) };
        self.checks.log(&member.consensus.node.store().log, &mut server.known)?;
        for (index, change) in self.checks.take_changes() {
            self.proposes(at, index, change)?;
        }
        Ok(())
    }

    /// What a member calls final must be so, even where it is the last that it does.
    fn see_final(&mut self, at: usize) -> Checked {
        let server = &self.servers[at];
        let Some(member) = &server.member else { return Ok(()) };
        let store = member.consensus.node.store();
        let disks = disks(&self.servers, &self.before);
        let committed = (member.consensus().committed(), member.consensus().term());
        let voters = &store.promises.members.voters;
        self.checks.committed(committed, &store.log, &disks, [&server.voters, voters])?;
        if server.voters != *voters {
            let voters = voters.clone();
            self.servers[at].voters = voters;
        }
        Ok(())
    }

    pub(super) fn snapshot(&mut self, at: usize) -> Checked {
        let pause = 300 * MS + self.dice.below(self.snapshot_every);
        self.timeline.after(pause, Event::Snapshot(at));
        let (purges, keep) = (self.dice.below(4) > 0, 1 + self.dice.below(2) as usize);
        if self.timeline.now() < self.servers[at].frozen_until {
            return Ok(());
        }
        self.watches_are_as_left(at)?;
        let mut purged = 0;
        let (disk, is_tainted) = (self.servers[at].disk.clone(), self.is_tainted);
        let now = self.servers[at].clock.read(self.timeline.now()).monotonic;
        self.with(at, |member| {
            let is_taken = member.try_snapshot(&disk, is_tainted, now)?;
            if purges && (is_taken || member.may_purge()) {
                purged = purge_behind(member.consensus().directory(), keep, member.wanted())?.logs;
                member.consensus_mut().purged(now);
            }
            Ok(())
        })?;
        self.outcome.purged += purged as u64;
        Ok(())
    }

    /// A server's clients have heard of all that it shows, and what they watch is what it knows to
    /// be watched.
    pub(super) fn watches_are_as_left(&self, at: usize) -> Checked {
        let server = &self.servers[at];
        let Some(member) = &server.member else { return Ok(()) };
        let database = member.replica().shared();
        let (zxid, table) = (database.last_zxid().0, database.watches().lock());
        let mut left = 0;
        for (id, connection) in &server.connections {
            let owed = connection.watches.nothing_is_owed(&self.history, zxid);
            let found = owed.and_then(|()| connection.watches.are_in(&table, *id));
            left += found.map_err(|violation| format!("{id:?}, looked at: {violation}"))?;
        }
        match table.count() == left {
            true => Ok(()),
            false => Err(format!("member {}: {} watches, {left} were left", at + 1, table.count())),
        }
    }

    /// A process ends because its disk refuses.
    pub(super) fn fail(&mut self, at: usize) {
        self.outcome.failures += 1;
        let power = self.servers[at].disk.is_powerless() || self.dice.coin();
        self.crash(at, power);
    }

    pub(super) fn crash(&mut self, at: usize, power: bool) {
        let now = self.timeline.now();
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            self.part(at, other);
            self.part(other, at);
        }
        let ids: Vec<ConnectionId> = self.servers[at].connections.keys().copied().collect();
        // Nothing is tidied up: from here on the disk takes nothing more of this life.
        self.servers[at].disk.fail_after(0, Fault::PowerLoss);
        ids.into_iter().for_each(|id| self.hang_up(at, id));
        self.lose_transfers(at);
        let server = &mut self.servers[at];
        let promised = server.writer.as_ref().map(DiskWriter::promised);
        server.member = None;
        server.writer = None;
        server.writes.clear();
        server.is_writing = false;
        server.late = None;
        server.life += 1;
        server.hears.clear();
        server.speaks.clear();
        server.dials.clear();
        server.callers.clear();
        server.waiting.clear();
        server.submissions.clear();
        server.receiving = None;
        server.recovering = None;
        server.seats.clear();
        server.asks = None;
        server.configured_at = 0;
        server.wakes = u64::MAX;
        server.frozen_until = now;
        server.seen.told.lock().clear();
        server.seen.open.lock().clear();
        if power {
            server.disk.crash(&mut Dice(self.dice.next()));
        } else {
            server.disk.kill();
        }
        self.copy_directory(at, promised);
        let long = if self.dice.below(3) == 0 { 4000 } else { 500 };
        let ms = 10 + self.dice.below(long);
        self.timeline.after(ms * MS, Event::Mend(Mend::Start(at)));
    }

    pub(super) fn open(&self, at: usize) -> Result<DataDirectory, StorageError> {
        let disk: Arc<dyn Disk> =
            Arc::new(FlawedDisk { inner: self.servers[at].disk.clone(), flaw: self.flaw });
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: true,
        };
        DataDirectory::open(disk, &options)
    }

    pub(super) fn ensemble(&self, at: usize) -> Ensemble {
        Ensemble {
            server: at as u8 + 1,
            recovery: self.servers[at].options,
            rules: Rules { reconfig: self.reconfigs.are_there, ..Rules::default() },
            seed: self.seed,
            zxids_a_term: self.zxids_a_term,
            list: self.own_list(),
            standalone_enabled: self.seed.is_multiple_of(2),
        }
    }

    pub(super) fn start(&mut self, at: usize) -> Checked {
        let now = self.timeline.now();
        self.read_list(at);
        let (directory, ensemble, members) = (self.open(at), self.ensemble(at), self.founders());
        let Self { servers, before, flaw, observer, locals, .. } = self;
        let observer = observer.filter(|_| *flaw != Flaw::ObserverVotes);
        let server = &mut servers[at];
        let clients: Arc<dyn Clients> = Arc::clone(&server.seen) as _;
        let post = Post::new(self.flaw);
        let state = directory.and_then(|directory| {
            let state = RaftStateFile::look(&directory)?;
            Ok((directory, state))
        });
        let started = state.map_err(EnsembleError::from).and_then(|(directory, state)| {
            server.was = None;
            match state {
                Some(state) => {
                    if server.owner != state.id {
                        // What its directory held went aside.
                        let id = std::mem::replace(&mut server.owner, state.id);
                        before.push((id, std::mem::take(&mut server.chain)));
                        (server.promise, server.promised_at) = ((0, 0), 0);
                    }
                    server.id = if state.is_removed() { 0 } else { state.id };
                    server.was = state.is_removed().then_some(state.id);
                    if state.is_removed() {
                        return Ok(None);
                    }
                }
                None if !server.is_founder => return Ok(None),
                None => {
                    let first = RaftState { id: server.id, members, ..RaftState::default() };
                    RaftStateFile::create(&directory, &first, None)?;
                }
            }
            let started = ensemble.start(Arc::new(directory))?;
            let empty = Database::new(self.seed, Rules::default());
            let replica = Arc::new(match self.flaw {
                Flaw::AgeNotChecked => Replica::new(empty),
                _ => Replica::of_member(empty, SYNC_LIMIT_MS),
            });
            Member::new(ensemble, started, replica, clients, post, SESSION_TICK_MS).map(Some)
        });
        let id = server.id;
        let (mut member, writer) = match started {
            Ok(Some(started)) => started,
            Ok(None) => {
                self.ask_later(at, 0);
                return Ok(());
            }
            Err(EnsembleError::Storage(StorageError::Io { source, .. })) if is_refusal(&source) => {
                self.fail(at);
                return Ok(());
            }
            Err(error) if is_over(&error) => return self.end_for_good(at, &error),
            Err(error) => return Err(format!("member {id} does not start: {error}: {error:?}")),
        };
        let wall = server.clock.read(now).wall;
        Self::keep_locals(locals.are_there, at as u8 + 1, wall, &mut member);
        // Two requests or so: what waits is more than a turn decides.
        if self.seed.is_multiple_of(2) {
            member.requests.turn_bytes = 1500;
        }
        if !self.calm {
            hint::step_by_step(self.seed, &mut member);
        }
        let mut filler = writer.spare_filler();
        while self.dice.coin() {
            match filler.step() {
                Ok(FillStep::Idle) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let promises = writer.promises.get();
        server.voters.clone_from(&promises.members.voters);
        let promise = (promises.term, promises.vote);
        let before = server.promise;
        // What a completed step has promised stays promised.
        let kept = promise.0 > before.0
            || promise.0 == before.0 && (before.1 == 0 || promise.1 == before.1);
        if self.flaw == Flaw::None && !kept {
            return Err(format!("member {id}: promised {before:?}, then {promise:?}"));
        }
        if promises.configured_at < server.promised_at {
            return Err(format!("member {id} goes back to the members of before, at its start"));
        }
        self.history.equals(&member.replica().shared())?;
        let last = self.checks.last();
        server.recovering = (member.consensus().applied() < last).then_some(last);
        let voters = voters_of(&server.listed, observer);
        let listed = server.listed.iter().copied().collect();
        server.thread = Thread::new(server.clock.read(now).monotonic, voters, listed);
        server.member = Some(member);
        (server.promise, server.promised_at) = (promise, promises.configured_at);
        // All of it is read again.
        server.known.clear();
        server.chain.clear();
        read_chain(&writer.log, &mut server.chain);
        (server.claimed, server.writer) = (writer.promised(), Some(writer));
        self.outcome.recovered += u64::from(server.recovering.is_some());
        if server.recovering.is_some() {
            Self::trouble(&mut self.dice, &mut self.timeline, at);
        }
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            self.dial_later(at, other, MS);
        }
        self.observe(at)?;
        self.wake(at, now);
        Ok(())
    }
}

/// Whether a disk refused, as a fault has it do: what is not there, or is there twice, is a mistake
/// of who asked.
pub(super) fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AlreadyExists, NotFound, Unsupported};
    !matches!(error.kind(), NotFound | AlreadyExists | Unsupported)
}
