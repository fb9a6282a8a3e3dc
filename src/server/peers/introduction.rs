//! How a server without a state comes to an ensemble: it asks the others what they are, and answers them.
//!
//! A question is a connection of its own: a frame there, a frame back.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use super::asking::Asking;
use super::callers::ProcessId;
use super::handed_secret;
use super::hello::QUESTION;
use super::secret::nonce;
use super::secure::Stream;
use super::speak::dial;
use super::{Common, Peer, Peers, SILENT_MAX, timeout};
use crate::config;
use crate::ensemble::founding::{
    Answer, Applicant, Founding, HandedSecret, Question, Unfit, may_belong, refusal,
};
use crate::ensemble::standing::{
    Absence, Acceptance, Asks, Base, Begins, Busy, Holding, Left, Patience, Return, Returning,
    Round, Standing, Step, busy, has_begun,
};
use crate::ensemble::{
    Before, EnsembleError, FIRST_LIFE, FRAME_HEAD_LEN, FromPeer, Said, founder_knows, member_id,
    of_line, parse_head, parse_said, put_said, server_of, take_another_seat, take_seat_instead,
};
use crate::message::MessageId;
use crate::server::shared::Server;
use crate::server::{ServerError, data};
use crate::storage::{
    DataDirectory, Members, RaftState, RaftStateFile, SESSIONS_BEFORE_MAX, SessionKey,
    SessionSecret,
};

/// Between two rounds of questions.
pub(super) const BETWEEN_ROUNDS: Duration = Duration::from_millis(100);
/// A founder asks the others in each of these rounds for so long, and then less often.
const ASKS_OFTEN: Duration = Duration::from_secs(10);
const BETWEEN_LATER_ROUNDS: Duration = Duration::from_secs(1);
/// Whoever waits says so this often.
const BETWEEN_COMPLAINTS: Duration = Duration::from_secs(10);
/// A question and its answer take no longer than this.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes of a question or an answer.
const SAID_MAX: usize = (64 << 10) + 8 * SESSIONS_BEFORE_MAX;

/// For an operator, behind for whom a server waits that has accepted an ensemble.
const BEGUN_WITHOUT_FOUNDER: &str = "The ensemble has begun: if its founder is silent for initLimit, this server asks its leader for a seat as a \
     new member instead, for which nothing has to be done";

/// What this server is to those that ask.
#[derive(Debug, Default)]
pub(super) enum Introduction {
    /// It is not known yet.
    #[default]
    Reading,
    /// It is about to be another.
    Changing,
    /// It belongs to no ensemble, and says this of itself. To which it may belong if asked, by what it heard last.
    Before(Box<Before>, Holding, Option<Welcome>),
    /// It belongs to one.
    Member(Belonging),
    /// It belonged to one, and was taken out of it.
    Removed(Belonging),
    /// The disk refused.
    Failed(EnsembleError),
}

/// Who may found the ensemble of a server that belongs to none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Welcome {
    pub(super) acceptance: Acceptance,
    /// Which of the founder's processes was reached: another one that asks may be one whose place it has taken.
    pub(super) process: ProcessId,
}

impl Welcome {
    /// Whether it is for what this process of a server founded.
    fn is_for(self, (server, process): (u8, ProcessId), founding: &Founding) -> bool {
        (self.acceptance.founder, self.process) == (server, process)
            && self.acceptance.is_for(founding.ensemble, founding.base)
            && self.acceptance.configured_at <= founding.configured_at
    }

    /// Whether another voter has more than what it founded.
    fn shows_more(self, (server, process): (u8, ProcessId), founding: &Founding) -> Option<Base> {
        let Acceptance { founder, ensemble, newest, .. } = self.acceptance;
        let is_it = (founder, self.process, ensemble) == (server, process, founding.ensemble);
        (is_it && self.acceptance.shows_more_than(founding.base)).then_some(newest)
    }
}

impl Introduction {
    /// What a raft.state makes of it, where the last record has this zxid.
    fn of(state: &RaftState, last: i64) -> Self {
        let belonging = Belonging::of(state, last);
        match state.is_removed() {
            true => Self::Removed(belonging),
            false => Self::Member(belonging),
        }
    }

    fn before(before: Before) -> Self {
        let (base, left) = (before.base(), before.left());
        let holding = Holding { base, left, ..Holding::default() };
        Self::Before(Box::new(before), holding, None)
    }
}

/// A server that was given a seat.
enum Applying {
    /// It belonged to no ensemble.
    First(Box<Before>),
    /// It was taken out of this one.
    Again,
    /// It has accepted this one, and has taken no part in it.
    Instead,
}

/// What a member can say of itself before it takes part.
#[derive(Debug, Default)]
pub(super) struct Belonging {
    id: u64,
    ensemble: u64,
    /// As its founder, it still has to ask these.
    asks: Vec<u8>,
    /// It takes part when this founder knows of it; 0 for nobody.
    awaits: u64,
    /// Whether the ensemble may have acknowledged anything.
    has_begun: bool,
    /// What else its raft.state says of the ensemble.
    left: Left,
    /// It has not heard yet whether the ensemble goes on.
    returns: bool,
    /// The entry that made the members what they are.
    configured_at: u64,
}

/// What this server was asked to belong to, and is not fit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Declined {
    founder: u8,
    ensemble: u64,
    has_begun: bool,
    unfit: Unfit,
}

impl Belonging {
    /// Whether its founder knows of it.
    pub(super) const fn takes_part(&self) -> bool {
        self.awaits == 0
    }

    fn of(state: &RaftState, last: i64) -> Self {
        let RaftState { id, ensemble, ref asks, awaits, configured_at, .. } = *state;
        let (has_begun, left) = (has_begun(state), of_line(state, last));
        let asks = asks.clone();
        Self { id, ensemble, asks, awaits, has_begun, configured_at, left, returns: false }
    }

    /// As its founder, whether it still has to ask others.
    fn still_asks(&self) -> Option<Asks> {
        let asks = if self.has_begun { Asks::Begun } else { Asks::Alone };
        (!self.asks.is_empty()).then_some(asks)
    }

    /// Whether the founder that is awaited has said that it has heard the answer of `server`.
    fn is_known(&self, server: u8, others: &BTreeMap<u8, Standing>) -> bool {
        others.values().any(|its| match its {
            Standing::Member { id, ensemble, asks, .. } => {
                (*id, *ensemble) == (self.awaits, self.ensemble) && !asks.contains(&server)
            }
            Standing::Removed { .. } | Standing::Before(_) | Standing::Busy(_) => false,
        })
    }

    /// For an operator: why a server that was taken out takes no part yet, and what ends that.
    fn comes_back(&self, data_leave: &str) -> String {
        let ensemble = self.ensemble;
        format!(
            "this server was taken out of ensemble {ensemble:016x}, and joins it again as a new member when its leader gives it \
             a seat, for which the others have to list it; what its directory holds goes aside then. If the directories of all \
             members are lost for good and this one is to found another ensemble, stop this server, run `{data_leave}`, and \
             start it again"
        )
    }

    /// For an operator: why it takes no part yet, and what ends that.
    fn waits_for(&self, data_leave: &str) -> String {
        let founder = server_of(self.awaits);
        format!(
            "server {founder} has founded the ensemble and has not confirmed yet that this server belongs to it: start it. If \
             its directory is lost for good and the ensemble has not begun, stop this server, run `{data_leave}`, which gives \
             back what it held before, and start it again"
        )
    }
}

/// What the others are, as far as they have answered, and which process of each has.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) standings: BTreeMap<u8, Standing>,
    pub(super) processes: BTreeMap<u8, ProcessId>,
}

/// What to do next, as the introduction has it.
enum Next {
    /// It takes part.
    TakesPart,
    /// This founder of this ensemble has to know, and this is to be told meanwhile.
    Awaits(u64, Left, String),
    /// It takes part in this one, if that goes on; whether it is its founder and still has to ask others.
    Returns(Left, Option<Asks>),
    /// It comes to an ensemble with this.
    Comes(Holding),
    /// It comes back to this ensemble as another member, and this is to be told meanwhile.
    ComesBack(Left, String),
    /// It is about to be another.
    Waits,
}

impl Peers {
    /// This server is a member already. Its last record has this zxid.
    pub(in crate::server) fn is_member(&self, state: &RaftState, last: i64) {
        let mut introduction = Introduction::of(state, last);
        if let Introduction::Member(belonging) = &mut introduction {
            belonging.returns = true;
        }
        *self.0.introduction.lock() = introduction;
    }

    /// This server belongs to no ensemble.
    pub(in crate::server) fn is_no_member(&self, before: Before) {
        *self.0.introduction.lock() = Introduction::before(before);
    }

    /// Whom the founder of the ensemble still asks, by its disk.
    pub(in crate::server) fn asks(&self, servers: Vec<u8>) {
        if let Introduction::Member(belonging) = &mut *self.0.introduction.lock() {
            belonging.asks = servers;
        }
    }

    /// This member may have a leader from here on.
    pub(in crate::server) fn has_begun(&self) {
        if let Introduction::Member(belonging) = &mut *self.0.introduction.lock() {
            belonging.has_begun = true;
        }
    }

    /// Comes to an ensemble with what is there, until this server takes part in one. Whether it does; not if it ends before.
    ///
    /// # Errors
    /// When the disk refuses, or what is there belongs to none.
    pub(in crate::server) async fn come_to_ensemble(
        &self,
        ensemble: &config::Ensemble,
        server: &Server,
    ) -> Result<bool, ServerError> {
        let (common, waits) = (&self.0, &server.others.waits_for);
        let directory = &server.directory;
        let data_dir = server.config.data_dir.display().to_string();
        let (mut patience, mut absence) = (Patience::default(), Absence::default());
        let mut asking = None;
        let voters: Vec<u8> = ensemble.ids(false).collect();
        let mut names = None;
        let began = Instant::now();
        let mut complained = began;
        loop {
            let begins = data::begins(&server.config);
            let next = common.next(begins, names, directory)?;
            let is_late =
                |patience: &Patience| patience.waited(began.elapsed()) >= ensemble.init_limit;
            let returns = |left, asks, others: &BTreeMap<u8, Standing>, is_late| {
                let (own, voters) = (common.server, voters.as_slice());
                let returning = Returning { own, left, asks, voters, others };
                (returning.step(is_late), returning.waits_for())
            };
            let Heard { standings: others, processes } = match next {
                Next::TakesPart => {
                    *waits.lock() = None;
                    return Ok(true);
                }
                Next::Waits => Default::default(),
                // Who is asked waits for this one. It asks each of them first what it is.
                Next::Returns(_, Some(Asks::Alone)) => common.hear().await,
                // Nobody is waited for who is not needed: an address may not answer for seconds.
                Next::Returns(left, asks) => {
                    let is_late = is_late(&patience);
                    let is_enough = |heard: &Heard| {
                        returns(left, asks, &heard.standings, is_late).0 != Return::Wait
                    };
                    asking.get_or_insert_with(|| Asking::all(common)).round(is_enough).await
                }
                Next::Awaits(..) | Next::Comes(_) | Next::ComesBack(..) => common.hear().await,
            };
            let reading = busy(&voters, &others);
            let reading =
                reading.filter_map(|(server, _)| Some((server, processes.get(&server)?.0)));
            let is_busy = |its: &Standing| matches!(its, Standing::Busy(_));
            let said = others.iter().filter(|(_, its)| !is_busy(its));
            patience.heard(reading, said.map(|(server, _)| *server), began.elapsed());
            let is_late = is_late(&patience);
            let of_ensemble = |left: Left| {
                let of_it = |its: &Standing| matches!(its, Standing::Member { ensemble, .. } if *ensemble == left.ensemble);
                let members = others.iter().filter(|(_, its)| of_it(its));
                members.map(|(server, _)| (*server, left.ensemble)).collect::<Vec<_>>()
            };
            let is_left = |left: Left| others.values().any(|its| its.is_of_later(&left.of));
            let text = match next {
                Next::TakesPart | Next::Waits => None,
                Next::Returns(left, asks) => match returns(left, asks, &others, is_late) {
                    (Return::Wait, text) => Some(text),
                    (Return::TakePart, _) => {
                        common.takes_part();
                        continue;
                    }
                    (Return::Leave, _) => {
                        asking = None;
                        common.leaves(left).await;
                        continue;
                    }
                },
                Next::Awaits(_, left, _) | Next::ComesBack(left, _) if is_left(left) => {
                    common.leaves(left).await;
                    continue;
                }
                Next::Awaits(founder, left, text) => {
                    let is_known = common.take_part_if_known(&others).await;
                    let has_begun = others.values().any(|its| its.has_begun(left.ensemble));
                    let awaited = (founder, left.ensemble);
                    let absent = absence.heard(awaited, &others, began.elapsed());
                    let is_late = absent >= ensemble.init_limit;
                    // Its founder may be lost for good. It has taken no part as who it would be by the founding.
                    if !is_known && has_begun && is_late {
                        common.ask_for_seat(of_ensemble(left), false).await;
                    }
                    Some(if has_begun { format!("{text}. {BEGUN_WITHOUT_FOUNDER}") } else { text })
                }
                Next::ComesBack(left, text) => {
                    common.ask_for_seat(of_ensemble(left), true).await;
                    Some(text)
                }
                Next::Comes(holding) => {
                    let (own, voters) = (common.server, voters.as_slice());
                    let round = Round { own, holding, voters, others: &others };
                    names = round.named();
                    common.accepts(round.accepts().and_then(|acceptance| {
                        let process = *processes.get(&acceptance.founder)?;
                        Some(Welcome { acceptance, process })
                    }));
                    let step = round.step(is_late);
                    match step {
                        Step::Found => common.found(&round, ensemble).await,
                        Step::Join if round.may_go_aside() => {
                            common.ask_for_seat(round.present().collect(), false).await
                        }
                        // One that is silent may have founded it, and be about to ask.
                        Step::Join if is_late && round.is_complete() && round.has_begun() => {
                            return Err(ServerError::NotEmpty {
                                directory: directory.snapshots().display().to_string(),
                                zxid: holding.base.zxid,
                            });
                        }
                        Step::Join | Step::Wait => {}
                    }
                    let declined = common.declined(&round).filter(|_| step == Step::Wait);
                    Some(declined.unwrap_or_else(|| round.waits_for(is_late, &data_dir)))
                }
            };
            if let Some(text) = text {
                if complained.elapsed() >= BETWEEN_COMPLAINTS {
                    complained = Instant::now();
                    tracing::warn!(
                        id = %MessageId::WAITING_FOR_ENSEMBLE,
                        reason = text,
                        "this server takes part in no ensemble yet and waits"
                    );
                }
                *waits.lock() = Some(text);
            }
            tokio::select! {
                () = server.ending.cancelled() => return Ok(false),
                () = tokio::time::sleep(BETWEEN_ROUNDS) => {}
            }
        }
    }

    /// As its founder, asks these servers to belong to the ensemble, each until it has answered.
    pub(super) fn ask_to_belong(&self, servers: Vec<u8>) {
        for server in servers {
            let Some(peer) = self.0.peers.get(&server).map(Arc::clone) else { continue };
            let common = Arc::clone(&self.0);
            let task = async move { common.ask_to_belong(&peer).await };
            self.0.runtime.spawn(self.0.ending.clone().run_until_cancelled_owned(task));
        }
    }
}

impl Common {
    pub(super) fn is_introduced_as_member(&self) -> bool {
        matches!(*self.introduction.lock(), Introduction::Member(_))
    }

    /// What the others are, as far as they answer: each has been asked once.
    async fn hear(self: &Arc<Self>) -> Heard {
        let mut asked = JoinSet::new();
        for peer in self.peers.values() {
            let (common, peer) = (Arc::clone(self), Arc::clone(peer));
            asked
                .spawn(async move { (peer.server, ask(&common, &peer, Question::Standing).await) });
        }
        let mut heard = Heard::default();
        while let Some(answer) = asked.join_next().await {
            if let Ok((server, Ok((Answer::Standing(standing), process)))) = answer {
                heard.standings.insert(server, standing);
                heard.processes.insert(server, process);
            }
        }
        heard
    }

    /// Its ensemble goes on.
    fn takes_part(&self) {
        if let Introduction::Member(belonging) = &mut *self.introduction.lock() {
            belonging.returns = false;
        }
    }

    /// A majority left the ensemble, and a later one of its line was founded: this server left it too.
    async fn leaves(self: &Arc<Self>, left: Left) {
        tracing::warn!(
            id = %MessageId::ENSEMBLE_LEFT,
            ensemble = format_args!("{:016x}", left.ensemble),
            "a later ensemble was founded on what ZooKeeper made of the data of a majority of this one: this server leaves it"
        );
        *self.introduction.lock() = Introduction::Reading;
        let common = Arc::clone(self);
        let read = move || Before::of_member(Arc::clone(&common.directory), &common.ensemble, left);
        let read = match spawn_blocking(read).await {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        *self.introduction.lock() = match read {
            Ok(before) => Introduction::before(before),
            Err(error) => Introduction::Failed(error),
        };
    }

    /// Founds an ensemble: this server is then a member that asks the others to belong to it.
    async fn found(self: &Arc<Self>, round: &Round<'_>, ensemble: &config::Ensemble) {
        let fresh = nonce().inspect_err(|error| {
            tracing::warn!(id = %MessageId::NO_RANDOM_BYTES, %error, "cannot get random bytes");
        });
        let Ok(fresh) = fresh else { return };
        let Some(before) = self.take_before() else { return };
        let (base, newest) = (round.holding.base, round.newest_epoch());
        let term = u64::try_from(newest).unwrap_or(0) + 1;
        let number = draw();
        let (line, generation) = round.next_generation().unwrap_or((number, 1));
        let members =
            |observers| ensemble.ids(observers).map(|id| member_id(id, FIRST_LIFE)).collect();
        let founding = Founding {
            ensemble: number,
            line,
            generation,
            term,
            founded_in: term,
            base,
            index: before.index(),
            members: Members {
                voters: members(false),
                learners: members(true),
                ..Members::default()
            },
            configured_at: 0,
        };
        tracing::info!(
            ensemble = format_args!("{:016x}", founding.ensemble),
            generation,
            zxid = format_args!("{:#x}", base.zxid),
            "founding an ensemble"
        );
        let id = member_id(self.server, FIRST_LIFE);
        let common = Arc::clone(self);
        let done = spawn_blocking(move || {
            let secret = common.secret_to_share(&before, SessionKey::new(fresh))?;
            before.found(id, &founding, secret.as_ref())
        });
        self.changed(done.await);
    }

    /// What every member is to make passwords of sessions with, if it can be handed to all of them.
    fn secret_to_share(
        &self,
        before: &Before,
        fresh: SessionKey,
    ) -> Result<Option<SessionSecret>, EnsembleError> {
        let Some(secret) = before.secret(fresh)? else {
            if before.lost_key()? {
                tracing::warn!(
                    id = %MessageId::SESSIONS_END_AT_FOUNDING,
                    sessions = before.sessions().count(),
                    "those of these sessions that were opened before ZooKeeper went on with the data end: their passwords depend on \
                     session.key, which ZooKeeper does not know; from now on, passwords are ZooKeeper's"
                );
            }
            return Ok(None);
        };
        let is_too_much = secret.before.len() > SESSIONS_BEFORE_MAX;
        if self.security.is_authenticated() && !is_too_much {
            return Ok(Some(secret));
        }
        let ending = before.sessions().filter(|session| !secret.before.contains(&session.0));
        let ending = ending.count();
        if ending > 0 {
            tracing::warn!(
                id = %MessageId::SESSIONS_END_AT_FOUNDING,
                sessions = ending,
                "these sessions end: their passwords depend on session.key, which {}; from now on, passwords are ZooKeeper's",
                match is_too_much {
                    true => "lists too many sessions from before it to be given to the others",
                    false =>
                        "is given only to servers that authenticate (sslQuorum, quorum.auth.secretFile)",
                }
            );
        }
        Ok(None)
    }

    /// Asks a server to belong to the ensemble until it has answered, or cannot any more.
    async fn ask_to_belong(&self, peer: &Peer) {
        let began = Instant::now();
        loop {
            // Another process may have this server's place, and know who has answered.
            self.voice.is(true).await;
            let Some(founding) = self.offer_to(peer.server) else { break };
            match self.ask_once(peer, &founding).await {
                Ok(Answer::Founded) => break,
                Ok(Answer::Refused(reason)) => {
                    tracing::warn!(
                        id = %MessageId::PEER_NOT_IN_NEW_ENSEMBLE,
                        peer = peer.server,
                        reason,
                        "a server refused to join the new ensemble"
                    );
                    break;
                }
                // Others may belong to it first, or leave what they have.
                Ok(Answer::NotYet(reason)) if peer.complaints.lock().is_due(reason.clone()) => {
                    tracing::warn!(
                        id = %MessageId::PEER_NOT_IN_NEW_ENSEMBLE,
                        peer = peer.server,
                        reason,
                        "a server does not join the new ensemble yet"
                    );
                }
                Ok(Answer::OfAnother(other)) => {
                    let other = format!("{other:016x}");
                    if peer.complaints.lock().is_due(other.clone()) {
                        tracing::warn!(
                            id = %MessageId::PEER_OF_ANOTHER_ENSEMBLE,
                            peer = peer.server,
                            belongs_to = other,
                            founded = format_args!("{:016x}", founding.ensemble),
                            "a server of the list belongs to another ensemble than this one"
                        );
                    }
                }
                _ => {}
            }
            let is_fresh = began.elapsed() < ASKS_OFTEN;
            tokio::time::sleep(if is_fresh { BETWEEN_ROUNDS } else { BETWEEN_LATER_ROUNDS }).await;
        }
        self.voice.is(true).await;
        self.queue.put_from_peer(FromPeer::Answered(peer.server), None);
    }

    /// What it still asks a server to belong to, if its first life is among the members.
    fn offer_to(&self, server: u8) -> Option<Founding> {
        let founding = self.founding.lock().clone();
        let id = member_id(server, FIRST_LIFE);
        let Members { voters, learners, .. } = &founding.members;
        let still_asks = match &*self.introduction.lock() {
            Introduction::Member(belonging) => belonging.asks.contains(&server),
            _ => false,
        };
        (still_asks && (voters.contains(&id) || learners.contains(&id))).then_some(founding)
    }

    pub(super) async fn ask_once(&self, peer: &Peer, founding: &Founding) -> io::Result<Answer> {
        let secret = self.session_secret.get();
        // It was founded when servers still had to authenticate.
        if secret.is_some() && !self.security.is_authenticated() {
            let error = io::Error::other(
                "it is not asked to belong to the ensemble: that has a session.key, which is given only to servers that \
                 authenticate (sslQuorum, quorum.auth.secretFile, no portUnification)",
            );
            peer.complain(&error);
            return Err(error);
        }
        let handed =
            secret.map(|secret| handed_secret::hand(&self.security, secret)).transpose()?;
        let (answer, _) = ask(self, peer, Question::Founded(founding.clone(), handed)).await?;
        Ok(answer)
    }

    /// Asks these members, each of the ensemble beside it, for a seat of that until one gives it.
    async fn ask_for_seat(self: &Arc<Self>, members: Vec<(u8, u64)>, comes_back: bool) {
        let applicant = Applicant { server: self.server, comes_back };
        for (server, ensemble) in members {
            let Some(peer) = self.peers.get(&server) else { continue };
            let answer = ask(self, peer, Question::Seat(applicant)).await;
            match answer.map(|(answer, _)| answer) {
                Ok(Answer::Seat(seat, handed)) if seat.ensemble == ensemble => {
                    let secret = handed.map(|handed| handed_secret::take(&self.security, *handed));
                    let Some(applies) = self.take_applying(seat.ensemble) else { return };
                    tracing::info!(
                        member = format_args!("{:#x}", seat.id),
                        "this server has joined the ensemble"
                    );
                    let directory = Arc::clone(&self.directory);
                    let done = spawn_blocking(move || match applies {
                        Applying::First(before) => before.take(seat, secret.as_ref()),
                        Applying::Again => take_another_seat(&directory, seat, secret.as_ref()),
                        Applying::Instead => take_seat_instead(&directory, seat, secret.as_ref()),
                    });
                    self.changed(done.await);
                    return;
                }
                Ok(Answer::Refused(reason)) if peer.complaints.lock().is_due(reason.clone()) => {
                    tracing::warn!(
                        id = %MessageId::NO_SEAT,
                        peer = peer.server,
                        reason,
                        "cannot join the ensemble"
                    );
                }
                _ => {}
            }
        }
    }

    /// What takes a seat in this ensemble, if this server still has none.
    fn take_applying(&self, of: u64) -> Option<Applying> {
        let mut introduction = self.introduction.lock();
        match std::mem::replace(&mut *introduction, Introduction::Changing) {
            Introduction::Before(before, ..) => Some(Applying::First(before)),
            Introduction::Removed(its) if its.ensemble == of => Some(Applying::Again),
            Introduction::Member(its) if its.ensemble == of && !its.takes_part() => {
                Some(Applying::Instead)
            }
            other => {
                *introduction = other;
                None
            }
        }
    }

    /// What belongs to no ensemble, for whoever makes something else of it.
    pub(super) fn take_before(&self) -> Option<Before> {
        let mut introduction = self.introduction.lock();
        match std::mem::replace(&mut *introduction, Introduction::Changing) {
            Introduction::Before(before, ..) => Some(*before),
            other => {
                *introduction = other;
                None
            }
        }
    }

    /// The directory has become a member's, as its raft.state says.
    fn changed(&self, done: Result<Result<(), EnsembleError>, tokio::task::JoinError>) {
        let done = match done {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let state = done.and_then(|()| Ok(RaftStateFile::look(&self.directory)?));
        *self.introduction.lock() = match state {
            Ok(state) => Introduction::of(&state.unwrap_or_default(), 0),
            Err(error) => Introduction::Failed(error),
        };
    }

    fn next(
        &self,
        begins: Begins,
        names: Option<u8>,
        directory: &DataDirectory,
    ) -> Result<Next, EnsembleError> {
        let mut introduction = self.introduction.lock();
        if let Introduction::Failed(_) = &*introduction
            && let Introduction::Failed(error) = std::mem::take(&mut *introduction)
        {
            return Err(error);
        }
        Ok(match &mut *introduction {
            Introduction::Member(belonging) if belonging.takes_part() => match belonging.returns {
                true => Next::Returns(belonging.left, belonging.still_asks()),
                false => Next::TakesPart,
            },
            Introduction::Member(belonging) => {
                let text = belonging.waits_for(&directory.tool_command("data leave"));
                Next::Awaits(belonging.awaits, belonging.left, text)
            }
            Introduction::Before(_, holding, _) => {
                (holding.begins, holding.names) = (begins, names);
                Next::Comes(*holding)
            }
            Introduction::Removed(its) => {
                let leave = directory.tool_command("data leave");
                Next::ComesBack(its.left, its.comes_back(&leave))
            }
            Introduction::Reading | Introduction::Changing | Introduction::Failed(_) => Next::Waits,
        })
    }

    /// To which ensemble this server may belong if asked.
    pub(super) fn accepts(&self, welcome: Option<Welcome>) {
        if let Introduction::Before(_, _, accepts) = &mut *self.introduction.lock() {
            *accepts = welcome;
        }
    }

    /// Takes part from here on, if the founder is among those who answered and knows of this server. Whether it does.
    pub(super) async fn take_part_if_known(
        self: &Arc<Self>,
        others: &BTreeMap<u8, Standing>,
    ) -> bool {
        let is_known = match &*self.introduction.lock() {
            Introduction::Member(belonging) => belonging.is_known(self.server, others),
            _ => false,
        };
        if is_known {
            let directory = Arc::clone(&self.directory);
            let done = spawn_blocking(move || Ok(founder_knows(&directory)?)).await;
            self.changed(done);
        }
        is_known
    }

    pub(super) fn standing(&self) -> Option<Standing> {
        match &*self.introduction.lock() {
            Introduction::Before(_, holding, _) => Some(Standing::Before(*holding)),
            Introduction::Member(its) => Some(Standing::Member {
                id: its.id,
                ensemble: its.ensemble,
                asks: its.asks.clone(),
                has_begun: its.has_begun,
                configured_at: its.configured_at.max(self.known.lock().configured_at()),
                of: its.left.of,
            }),
            Introduction::Removed(its) => Some(Standing::Removed { ensemble: its.ensemble }),
            Introduction::Reading => Some(Standing::Busy(Busy::Reads)),
            Introduction::Changing => Some(Standing::Busy(Busy::Joins)),
            Introduction::Failed(_) => None,
        }
    }

    /// Belongs to what another has founded, if it may.
    pub(super) async fn belong(
        self: &Arc<Self>,
        (from, process): (u8, ProcessId),
        founding: Founding,
        handed: Option<Box<HandedSecret>>,
    ) -> Answer {
        let (id, founder) = (member_id(self.server, FIRST_LIFE), member_id(from, FIRST_LIFE));
        let Founding { members, ensemble, .. } = &founding;
        let is_later =
            |left: &Left| founding.line == left.of.line && founding.generation > left.of.generation;
        let is_meant = members.voters.contains(&id) || members.learners.contains(&id);
        let may = match &*self.introduction.lock() {
            Introduction::Before(..) if !is_meant => Err(Unfit::NotListed),
            Introduction::Before(_, _, Some(welcome))
                if let Some(newest) = welcome.shows_more((from, process), &founding) =>
            {
                Err(Unfit::AnotherHasMore { newest, base: founding.base })
            }
            Introduction::Before(_, _, accepts)
                if !accepts.is_some_and(|its| its.is_for((from, process), &founding)) =>
            {
                return Answer::Elsewhere;
            }
            Introduction::Before(before, holding, _) => {
                may_belong(holding.base, before.accepted(), &founding)
            }
            // Its answer was lost, or has not become durable there.
            Introduction::Member(belonging) if belonging.ensemble == *ensemble => {
                return Answer::Founded;
            }
            // Its founder does not know that it was taken out.
            Introduction::Removed(its) if its.ensemble == *ensemble => return Answer::Elsewhere,
            // It is about to find out that its ensemble was left.
            Introduction::Member(its) | Introduction::Removed(its) if is_later(&its.left) => {
                return Answer::Elsewhere;
            }
            // It may leave that, and must be asked then.
            Introduction::Member(its) | Introduction::Removed(its) => {
                return Answer::OfAnother(its.ensemble);
            }
            Introduction::Reading | Introduction::Changing | Introduction::Failed(_) => {
                return Answer::Elsewhere;
            }
        };
        let term = match may {
            Ok(term) => term,
            Err(unfit) => {
                let (ensemble, has_begun) = (founding.ensemble, founding.has_begun());
                return self
                    .decline(Declined { founder: from, ensemble, has_begun, unfit }, &founding);
            }
        };
        // In a later one than that of who asks, if it has promised that.
        let founding = Founding { term, ..founding };
        let ensemble = founding.ensemble;
        let secret = handed.map(|handed| handed_secret::take(&self.security, *handed));
        let Some(before) = self.take_before() else { return Answer::Elsewhere };
        tracing::info!(
            ensemble = format_args!("{ensemble:016x}"),
            "this server joins an ensemble that another server founded"
        );
        let common = Arc::clone(self);
        // Whoever asks may not wait for it: a disk can take its time.
        let changing = tokio::spawn(async move {
            let done =
                spawn_blocking(move || before.belong(id, founder, &founding, secret.as_ref()));
            common.changed(done.await);
        });
        match (changing.await, &*self.introduction.lock()) {
            (Ok(()), Introduction::Member(_)) => Answer::Founded,
            _ => Answer::Elsewhere,
        }
    }

    /// Does not belong to what another one has founded, and says so once.
    fn decline(&self, declined: Declined, founding: &Founding) -> Answer {
        let Declined { founder, ensemble, unfit, .. } = declined;
        if self.declined.lock().replace(declined) != Some(declined) {
            tracing::warn!(
                id = %MessageId::FOUNDING_REFUSED,
                ensemble = format_args!("{ensemble:016x}"),
                reason = %unfit,
                "refused to join an ensemble"
            );
        }
        refusal(unfit, founder, founding)
    }

    /// For an operator: why this server does not belong to what it is asked to, and what ends that.
    fn declined(&self, round: &Round<'_>) -> Option<String> {
        let Declined { founder, ensemble, has_begun, unfit } = (*self.declined.lock())?;
        let newest = round.named().filter(|_| !matches!(unfit, Unfit::HasAccepted { .. }));
        (!has_begun && round.asker().is_some_and(|its| (its.0, its.1) == (founder, ensemble))).then(|| {
            let newest = newest.map(|server| format!(" The newest data is that of server {server}."));
            format!(
                "server {founder} has founded an ensemble that has not begun, and this server does not join that: {unfit}.{} {}",
                newest.unwrap_or_default(),
                unfit.way_out(founder)
            )
        })
    }

    pub(super) async fn seat(&self, applicant: Applicant) -> Answer {
        // Before it has read its directory it does not know of a key.
        if !self.is_introduced_as_member() || self.own().ensemble == 0 {
            return Answer::Elsewhere;
        }
        let secret = self.session_secret.get();
        // Before anything is proposed: a seat is a change of the members, and this server would ask for one after the other.
        if secret.is_some() && !self.security.is_authenticated() {
            let reason = "the ensemble has a session.key, and this member gives it only to servers that \
                 authenticate (sslQuorum, quorum.auth.secretFile, no portUnification)";
            return Answer::Refused(reason.to_owned());
        }
        let (answer, answered) = oneshot::channel();
        self.queue.put_from_peer(FromPeer::Seat(applicant, answer), None);
        match (answered.await, secret) {
            (Ok(Answer::Seat(seat, _)), Some(secret)) => {
                match handed_secret::hand(&self.security, secret) {
                    Ok(handed) => Answer::Seat(seat, Some(handed)),
                    Err(_) => Answer::Elsewhere,
                }
            }
            (answer, _) => answer.unwrap_or(Answer::Elsewhere),
        }
    }
}

/// Answers the question that comes over `stream`.
pub(super) async fn answer(
    common: Arc<Common>,
    mut stream: Stream,
    from: (u8, ProcessId),
) -> io::Result<()> {
    timeout(ANSWER_MAX, answer_at_leisure(&common, &mut stream, from)).await
}

async fn answer_at_leisure(
    common: &Arc<Common>,
    stream: &mut Stream,
    from: (u8, ProcessId),
) -> io::Result<()> {
    let answer = match read(stream, common).await? {
        Said::Question(Question::Standing) => {
            common.standing().map_or(Answer::Elsewhere, Answer::Standing)
        }
        Said::Question(Question::Founded(founding, handed)) => {
            common.belong(from, founding, handed).await
        }
        Said::Question(Question::Seat(applicant)) if applicant.server == from.0 => {
            common.seat(applicant).await
        }
        _ => return Err(io::Error::other("this is not a question")),
    };
    write(stream, &Said::Answer(answer)).await
}

/// The answer, and which process of the peer gave it.
pub(super) async fn ask(
    common: &Common,
    peer: &Peer,
    question: Question,
) -> io::Result<(Answer, ProcessId)> {
    let answered = timeout(ANSWER_MAX, async {
        let (mut stream, called) = dial(common, peer, QUESTION, SILENT_MAX).await?;
        write(&mut stream, &Said::Question(question)).await?;
        match read(&mut stream, common).await? {
            Said::Answer(answer) => Ok((answer, called.process)),
            _ => Err(io::Error::other("this is not an answer")),
        }
    });
    let answered = answered.await;
    answered.inspect_err(|error| peer.complain(error))
}

async fn write(stream: &mut Stream, said: &Said) -> io::Result<()> {
    let mut out = BytesMut::new();
    put_said(&mut out, said);
    stream.write_all(&out).await?;
    stream.flush().await
}

async fn read(stream: &mut Stream, common: &Common) -> io::Result<Said> {
    let mut head = [0; FRAME_HEAD_LEN];
    stream.read_exact(&mut head).await?;
    let (len, checksum) = parse_head(head).map_err(io::Error::other)?;
    if len > SAID_MAX {
        return Err(io::Error::other(format!("a question or an answer cannot have {len} bytes")));
    }
    let mut content = vec![0; len];
    stream.read_exact(&mut content).await?;
    parse_said(&content, checksum, common.clock.monotonic()).map_err(io::Error::other)
}

/// A number that no other ensemble has, and no other process.
pub(super) fn draw() -> u64 {
    let mut bytes = [0; 8];
    // Two of the same number can only not be told apart.
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes) | 1
}
