//! How a server without a state comes to an ensemble: it asks the others what they are, and answers
//! them. What follows from what is heard is [`crate::ensemble::introduction`]'s.
//!
//! A question is a connection of its own: a frame there, a frame back.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use super::asking::Asking;
use super::handed_secret;
use super::hello::QUESTION;
use super::refusal::Refusal;
use super::secret::nonce;
use super::secure::Stream;
use super::speak::dial;
use super::{Common, Peer, Peers, SILENT_MAX, timeout};
use crate::config::{self, SessionPasswords};
use crate::ensemble::callers::ProcessId;
use crate::ensemble::founding::{Applicant, Founding, FoundingAnswer, HandedSecret, Question};
use crate::ensemble::introduction::{Asked, Coming, Deed, Founds, Heard, Introduction, Next};
use crate::ensemble::standing::{
    Asks, Left, Refuses, Returning, Standing, refused, without_any_base,
};
use crate::ensemble::{
    Before, EnsembleError, FIRST_LIFE, FRAME_HEAD_LEN, FromPeer, Said, founder_knows, member_id,
    parse_head, parse_said, put_said, speaks_as,
};
use crate::message::MessageId;
use crate::server::{ServerError, data, shared::Server};
use crate::storage::{
    Members, RaftState, RaftStateFile, SESSIONS_BEFORE_MAX, SessionKey, SessionSecret,
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

impl Peers {
    /// This server is a member already. Its last record has this zxid.
    pub(in crate::server) fn is_member(&self, state: &RaftState, last: i64) {
        *self.0.introduction.lock() = Introduction::of_member(state, last);
    }

    /// This server belongs to no ensemble.
    pub(in crate::server) fn is_no_member(&self, before: Before) {
        *self.0.introduction.lock() = Introduction::of_none(before);
    }

    /// Whom the founder of the ensemble still asks, by its disk.
    pub(in crate::server) fn asks(&self, servers: Vec<u8>) {
        self.0.introduction.lock().asks(servers);
    }

    /// This member may have a leader from here on.
    pub(in crate::server) fn has_begun(&self) {
        self.0.introduction.lock().has_begun();
    }

    /// What the ensemble was founded on has come to this member.
    pub(in crate::server) fn has_base(&self) {
        self.0.introduction.lock().has_base();
    }

    /// Of this member, which takes part: says every 10 s, as long as it serves nobody because those
    /// who answer are no majority, or none of them has what the ensemble was founded on, what ends
    /// that.
    pub(in crate::server) fn tell_without_majority(
        &self,
        ensemble: &config::Ensemble,
        server: &Arc<Server>,
    ) {
        let (common, server) = (Arc::clone(&self.0), Arc::clone(server));
        let voters: Vec<u8> = ensemble.ids(false).collect();
        let task = async move {
            let lacks_base = || common.introduction.lock().without_base();
            let serves_nobody = || {
                let serves_nobody = server.role.get().lacks_leader();
                common.introduction.lock().takes_part_in().filter(|_| serves_nobody)
            };
            loop {
                tokio::time::sleep(BETWEEN_COMPLAINTS).await;
                let mut text = None;
                if lacks_base().is_some() || serves_nobody().is_some() {
                    let Heard { standings: others, refusals, .. } = common.hear().await;
                    let (own, voters, others) = (common.server, voters.as_slice(), &others);
                    // It may have what it lacks by now.
                    let nothing =
                        lacks_base().and_then(|left| without_any_base(own, left, voters, others));
                    text = nothing.or_else(|| {
                        let left = serves_nobody()?;
                        Returning { own, left, asks: None, voters, others }.lost_majority()
                    });
                    let refused = refused(own, voters, others, &refusals);
                    text = text.map(|text| refused.unwrap_or(text));
                }
                if let Some(text) = &text {
                    tell_that_it_waits(text, true);
                }
                *server.others.waits_for.lock() = text;
            }
        };
        self.0.runtime.spawn(self.0.ending.clone().run_until_cancelled_owned(task));
    }

    /// Comes to an ensemble with what is there, until this server takes part in one. Whether it
    /// does; not if it ends before.
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
        let leave = directory.tool_command("data leave");
        let voters = ensemble.ids(false).collect();
        let mut coming = Coming::new(common.server, voters, ensemble.init_limit, (data_dir, leave));
        let mut asking = None;
        // Why those gave no seat that were asked for one after the round before.
        let mut no_seats: BTreeMap<u8, Refuses> = BTreeMap::new();
        let began = Instant::now();
        let mut complained = began;
        loop {
            let begins = data::begins(&server.config);
            let next = coming.next(&mut common.introduction.lock(), begins)?;
            let mut heard = match next {
                Next::TakesPart => {
                    *waits.lock() = None;
                    return Ok(true);
                }
                Next::Waits => Heard::default(),
                // Who is asked waits for this one. It asks each of them first what it is.
                Next::Returns(_, Some(Asks::Alone)) => common.hear().await,
                // Nobody is waited for who is not needed: an address may not answer for seconds.
                Next::Returns(..) => {
                    let is_enough = |heard: &Heard| coming.is_enough(&next, heard, began.elapsed());
                    asking.get_or_insert_with(|| Asking::all(common)).round(is_enough).await
                }
                Next::Awaits(..) | Next::Comes(_) | Next::ComesBack(..) => common.hear().await,
            };
            no_seats.retain(|server, _| heard.standings.contains_key(server));
            heard.refusals.append(&mut no_seats);
            let declined = *common.declined.lock();
            let (deed, text) = coming.heard(
                &mut common.introduction.lock(),
                declined,
                next,
                &heard,
                began.elapsed(),
            );
            match deed {
                Deed::Waits => {}
                Deed::GoesOn => continue,
                Deed::Leaves(left) => {
                    asking = None;
                    common.leaves(left).await;
                    continue;
                }
                Deed::TakesPart => common.take_part().await,
                Deed::Founds(founds) => {
                    let passwords = server.config.session_passwords;
                    common.found(founds, ensemble, passwords).await;
                }
                Deed::AsksForSeat { members, was, ends_with } => {
                    let applicant = Applicant { server: common.server, was, ends_with };
                    no_seats = common.ask_for_seat(members, applicant).await;
                }
                Deed::Ends { zxid, has_left } => {
                    let command = directory.aside_command();
                    let directory = directory.snapshots().display().to_string();
                    return Err(ServerError::NotEmpty { directory, command, zxid, has_left });
                }
            }
            if let Some(text) = text {
                if complained.elapsed() >= BETWEEN_COMPLAINTS {
                    complained = Instant::now();
                    tell_that_it_waits(&text, common.is_introduced_as_member());
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
            let Some(peer) = self.0.others.get(server) else { continue };
            let common = Arc::clone(&self.0);
            let task = async move { common.ask_to_belong(&peer).await };
            self.0.runtime.spawn(self.0.ending.clone().run_until_cancelled_owned(task));
        }
    }
}

fn tell_that_it_waits(reason: &str, is_member: bool) {
    let id = MessageId::WAITING_FOR_ENSEMBLE;
    match is_member {
        true => {
            tracing::warn!(%id, reason, "this server is a member of an ensemble but knows no \
                leader; it is waiting");
        }
        false => {
            tracing::warn!(%id, reason, "this server is not a member of an ensemble yet; it is \
                waiting");
        }
    }
}

impl Common {
    pub(super) fn is_introduced_as_member(&self) -> bool {
        self.introduction.lock().is_member()
    }

    /// What the others are, as far as they answer: each has been asked once.
    async fn hear(self: &Arc<Self>) -> Heard {
        let mut asked = JoinSet::new();
        for peer in self.others.to_ask() {
            let common = Arc::clone(self);
            asked
                .spawn(async move { (peer.server, ask(&common, &peer, Question::Standing).await) });
        }
        let mut heard = Heard::default();
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok((server, Ok((FoundingAnswer::Standing(standing), process)))) => {
                    heard.standings.insert(server, standing);
                    heard.processes.insert(server, process);
                }
                Ok((server, Err(error))) => {
                    heard.refusals.extend(Refusal::tell(&error).map(|refusal| (server, refusal)));
                }
                Ok((_, Ok(_))) | Err(_) => {}
            }
        }
        heard
    }

    /// A majority left the ensemble, and a later one of its line was founded: this server left it
    /// too.
    async fn leaves(self: &Arc<Self>, left: Left) {
        tracing::warn!(
            id = %MessageId::ENSEMBLE_LEFT,
            ensemble = format_args!("{:016x}", left.ensemble),
            "ZooKeeper went on with the data of a majority of this ensemble, and a later ensemble \
             was founded on the result: this server leaves this ensemble"
        );
        self.introduction.lock().leaves();
        let common = Arc::clone(self);
        let read = move || Before::of_member(Arc::clone(&common.directory), &common.ensemble, left);
        let read = match spawn_blocking(read).await {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        self.introduction.lock().left(read);
    }

    /// Founds an ensemble: this server is then a member that asks the others to belong to it.
    async fn found(
        self: &Arc<Self>,
        founds: Founds,
        ensemble: &config::Ensemble,
        passwords: Option<SessionPasswords>,
    ) {
        let fresh = nonce().inspect_err(|error| {
            tracing::warn!(id = %MessageId::NO_RANDOM_BYTES, %error, "cannot get random bytes");
        });
        let Ok(fresh) = fresh else { return };
        let ids = |observers| ensemble.ids(observers).map(|id| member_id(id, FIRST_LIFE)).collect();
        let members = Members { voters: ids(false), learners: ids(true), ..Members::default() };
        let founded = self.introduction.lock().found(draw(), members, founds);
        let Some((before, founding)) = founded else { return };
        tracing::info!(
            ensemble = format_args!("{:016x}", founding.ensemble),
            generation = founding.generation,
            zxid = format_args!("{:#x}", founding.base.zxid),
            "founding an ensemble"
        );
        let id = member_id(self.server, FIRST_LIFE);
        let common = Arc::clone(self);
        let done = spawn_blocking(move || {
            let secret = common.secret_to_share(&before, SessionKey::new(fresh), passwords)?;
            before.found(id, &founding, secret.as_ref())
        });
        self.changed(done.await);
    }

    /// What every member is to make passwords of sessions with, if it can be handed to all of them,
    /// and ZooKeeper's are not wanted.
    fn secret_to_share(
        &self,
        before: &Before,
        fresh: SessionKey,
        wanted: Option<SessionPasswords>,
    ) -> Result<Option<SessionSecret>, EnsembleError> {
        let Some(secret) = before.secret(fresh)? else {
            if before.lost_key()? {
                tracing::warn!(
                    id = %MessageId::SESSIONS_END_AT_FOUNDING,
                    sessions = before.sessions().count(),
                    "of the open sessions, those from before ZooKeeper took over the data will \
                     end: their passwords depend on session.key, which ZooKeeper does not know; \
                     from now on, passwords are ZooKeeper's"
                );
            }
            return Ok(None);
        };
        let older: HashSet<i64> = secret.before.iter().copied().collect();
        let ending = before.sessions().filter(|session| !older.contains(&session.0)).count();
        // Where some depend on the key, it counts, and the start says so.
        if wanted == Some(SessionPasswords::ZooKeepers) && ending == 0 {
            return Ok(None);
        }
        let is_too_much = secret.before.len() > SESSIONS_BEFORE_MAX;
        if self.security.is_authenticated() && !is_too_much {
            return Ok(Some(secret));
        }
        if ending > 0 {
            tracing::warn!(
                id = %MessageId::SESSIONS_END_AT_FOUNDING,
                sessions = ending,
                "these sessions end: their passwords depend on session.key, which {}; from now on, \
                 passwords are ZooKeeper's",
                match is_too_much {
                    true => "lists too many sessions from before the seal to be sent to the other \
                        servers",
                    false =>
                        "is given only to servers that authenticate (sslQuorum, \
                         quorum.auth.secretFile)",
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
                Ok(FoundingAnswer::Founded) => break,
                Ok(FoundingAnswer::Refused(reason)) => {
                    tracing::warn!(
                        id = %MessageId::PEER_NOT_IN_NEW_ENSEMBLE,
                        peer = peer.server,
                        reason,
                        "a server refused to join the new ensemble"
                    );
                    break;
                }
                // Others may belong to it first, or leave what they have.
                Ok(FoundingAnswer::NotYet(reason))
                    if peer.complaints.lock().is_due(reason.clone()) =>
                {
                    tracing::warn!(
                        id = %MessageId::PEER_NOT_IN_NEW_ENSEMBLE,
                        peer = peer.server,
                        reason,
                        "a server does not join the new ensemble yet"
                    );
                }
                Ok(FoundingAnswer::OfAnother(other)) => {
                    let other = format!("{other:016x}");
                    if peer.complaints.lock().is_due(other.clone()) {
                        tracing::warn!(
                            id = %MessageId::PEER_OF_ANOTHER_ENSEMBLE,
                            peer = peer.server,
                            belongs_to = other,
                            founded = format_args!("{:016x}", founding.ensemble),
                            "a server in the list belongs to a different ensemble than this one"
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
        let offers = self.introduction.lock().offers_to(server, &founding.members);
        offers.then_some(founding)
    }

    pub(super) async fn ask_once(
        &self,
        peer: &Peer,
        founding: &Founding,
    ) -> io::Result<FoundingAnswer> {
        let secret = self.session_secret.get();
        // It was founded when servers still had to authenticate.
        if secret.is_some() && !self.security.is_authenticated() {
            let error = io::Error::other(
                "it is not asked to join the ensemble: the ensemble has a session.key, which is \
                 given only to servers that authenticate (sslQuorum, quorum.auth.secretFile, no \
                 portUnification)",
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
    /// For an operator, who gives none and says why.
    async fn ask_for_seat(
        self: &Arc<Self>,
        members: Vec<(u8, u64)>,
        applicant: Applicant,
    ) -> BTreeMap<u8, Refuses> {
        let mut refusals = BTreeMap::new();
        for (server, ensemble) in members {
            let Some(peer) = self.others.get(server) else { continue };
            let answer = ask(self, &peer, Question::Seat(applicant)).await;
            match answer.map(|(answer, _)| answer) {
                Ok(FoundingAnswer::Seat(seat, handed)) if seat.ensemble == ensemble => {
                    let secret = handed.map(|handed| handed_secret::take(&self.security, *handed));
                    let applies = self.introduction.lock().take_applying(seat.ensemble);
                    let Some(applies) = applies else { return BTreeMap::new() };
                    tracing::info!(
                        member = format_args!("{:#x}", seat.id),
                        "this server has joined the ensemble"
                    );
                    let directory = Arc::clone(&self.directory);
                    let done =
                        spawn_blocking(move || applies.take(&directory, seat, secret.as_ref()));
                    self.changed(done.await);
                    return BTreeMap::new();
                }
                Ok(FoundingAnswer::Refused(reason)) => {
                    if peer.complaints.lock().is_due(reason.clone()) {
                        tracing::warn!(
                            id = %MessageId::NO_SEAT,
                            peer = peer.server,
                            reason,
                            "cannot join the ensemble"
                        );
                    }
                    let said = format!("does not admit this server: {reason}");
                    refusals.insert(server, said.into());
                }
                Ok(FoundingAnswer::NotYet(reason)) => {
                    let said = format!("does not admit this server yet: {reason}");
                    refusals.insert(server, said.into());
                }
                // From here on it is data that the ensemble has not.
                Ok(FoundingAnswer::Lacking) => {
                    self.introduction.lock().is_lacked();
                    return refusals;
                }
                _ => {}
            }
        }
        refusals
    }

    /// The directory has become a member's, as its raft.state says.
    fn changed(&self, done: Result<Result<(), EnsembleError>, tokio::task::JoinError>) {
        let done = match done {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let state = done.and_then(|()| Ok(RaftStateFile::look(&self.directory)?));
        self.introduction.lock().changed(state);
    }

    /// Takes part from here on: the founder knows of this server.
    pub(super) async fn take_part(self: &Arc<Self>) {
        let directory = Arc::clone(&self.directory);
        let done = spawn_blocking(move || Ok(founder_knows(&directory)?)).await;
        self.changed(done);
    }

    pub(super) fn standing(&self) -> Option<Standing> {
        self.introduction.lock().standing()
    }

    /// Belongs to what another has founded, if it may.
    pub(super) async fn belong(
        self: &Arc<Self>,
        (from, process): (u8, ProcessId),
        founding: Founding,
        handed: Option<Box<HandedSecret>>,
    ) -> FoundingAnswer {
        let (ensemble, caller) = (founding.ensemble, (from, process));
        let asked = self.introduction.lock().asked_to_belong(self.server, caller, &founding);
        let (before, founding) = match asked {
            // In a later one than that of who asks, if it has promised that.
            Asked::Belongs(before, term) => (before, Founding { term, ..founding }),
            Asked::Answers(answer) => return answer,
            Asked::Declines(declined, answer) => {
                // Once.
                if self.declined.lock().replace(declined) != Some(declined) {
                    tracing::warn!(
                        id = %MessageId::FOUNDING_REFUSED,
                        ensemble = format_args!("{:016x}", declined.ensemble),
                        reason = %declined.unfit,
                        "refused to join an ensemble"
                    );
                }
                return answer;
            }
        };
        let secret = handed.map(|handed| handed_secret::take(&self.security, *handed));
        let (id, founder) = (member_id(self.server, FIRST_LIFE), member_id(from, FIRST_LIFE));
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
            (Ok(()), Introduction::Member(_)) => FoundingAnswer::Founded,
            _ => FoundingAnswer::Elsewhere,
        }
    }

    pub(super) async fn seat(&self, applicant: Applicant, process: ProcessId) -> FoundingAnswer {
        // Before it has read its directory it does not know of a key.
        if !self.is_introduced_as_member() || self.own().ensemble == 0 {
            return FoundingAnswer::Elsewhere;
        }
        let secret = self.session_secret.get();
        // Before anything is proposed: a seat is a change of the members, and this server would ask
        // for one after the other.
        if secret.is_some() && !self.security.is_authenticated() {
            let reason = "the ensemble has a session.key, and this member gives it only to servers \
                that authenticate (sslQuorum, quorum.auth.secretFile, no portUnification)";
            return FoundingAnswer::Refused(reason.to_owned());
        }
        let (answer, answered) = oneshot::channel();
        self.queue.put_from_peer(FromPeer::Seat(applicant, answer), None);
        match (answered.await, secret) {
            (Ok(FoundingAnswer::Seat(seat, _)), Some(secret)) => {
                match handed_secret::hand(&self.security, secret) {
                    Ok(handed) => FoundingAnswer::Seat(seat, Some(handed)),
                    Err(_) => FoundingAnswer::Elsewhere,
                }
            }
            (answer, _) => match answer.unwrap_or(FoundingAnswer::Elsewhere) {
                FoundingAnswer::Elsewhere => self.speaks_already(applicant.server, process),
                answer => answer,
            },
        }
    }

    /// What to answer who asks for a seat where this member gives none: the leader may have the
    /// same number as who asks, which does not ask it then.
    fn speaks_already(&self, server: u8, process: ProcessId) -> FoundingAnswer {
        match self.heard.lock().get(&server).and_then(|its| its.another(process)) {
            Some(address) => FoundingAnswer::NotYet(speaks_as(server, Some(address))),
            None => FoundingAnswer::Elsewhere,
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
            common.standing().map_or(FoundingAnswer::Elsewhere, FoundingAnswer::Standing)
        }
        Said::Question(Question::Founded(founding, handed)) => {
            common.belong(from, founding, handed).await
        }
        Said::Question(Question::Seat(applicant)) if applicant.server == from.0 => {
            common.seat(applicant, from.1).await
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
) -> io::Result<(FoundingAnswer, ProcessId)> {
    let answered = timeout(ANSWER_MAX, async {
        let (mut stream, called) = dial(common, peer, QUESTION, SILENT_MAX).await?;
        write(&mut stream, &Said::Question(question)).await?;
        match read(&mut stream, common).await? {
            Said::Answer(answer) => Ok((answer, called.process)),
            _ => Err(io::Error::other("this is not an answer")),
        }
    });
    answered.await.inspect_err(|error| peer.complain(error))
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
