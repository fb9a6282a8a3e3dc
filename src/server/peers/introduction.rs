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

use super::handed_secret;
use super::hello::QUESTION;
use super::secret::nonce;
use super::secure::Stream;
use super::speak::dial;
use super::{Common, Own, Peer, Peers, SILENT_MAX, timeout};
use crate::config;
use crate::ensemble::founding::{Answer, Founding, HandedSecret, Question, may_belong};
use crate::ensemble::standing::{Base, Holding, Round, Standing, Step};
use crate::ensemble::{
    Before, EnsembleError, FRAME_HEAD_LEN, FromPeer, Said, member_id, parse_head, parse_said,
    put_said,
};
use crate::message::MessageId;
use crate::server::member::FIRST_LIFE;
use crate::server::shared::Server;
use crate::server::{ServerError, data};
use crate::storage::{Members, SESSIONS_BEFORE_MAX, SessionKey, SessionSecret};

/// Between two rounds of questions.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(100);
/// A founder asks the others for no longer than this; they can still get a seat.
const ASKS_MAX: Duration = Duration::from_secs(10);
/// Whoever waits says so this often.
const BETWEEN_COMPLAINTS: Duration = Duration::from_secs(10);
/// A question and its answer take no longer than this.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes of a question or an answer.
const SAID_MAX: usize = (64 << 10) + 8 * SESSIONS_BEFORE_MAX;

/// What this server is to those that ask.
#[derive(Debug, Default)]
pub(super) enum Introduction {
    /// It is about to be another.
    #[default]
    Changing,
    /// It belongs to no ensemble, and says this of itself.
    Before(Box<Before>, Holding),
    /// It belongs to one, and as its founder is about to ask these.
    Member(Vec<u8>),
    /// The disk refused.
    Failed(EnsembleError),
}

impl Peers {
    /// This server is a member already.
    pub(in crate::server) fn is_member(&self) {
        *self.0.introduction.lock() = Introduction::Member(Vec::new());
    }

    /// Comes to an ensemble with what is there. Whether it has; not if the server ends before.
    ///
    /// # Errors
    /// When the disk refuses, or what is there belongs to none.
    pub(in crate::server) async fn come_to_ensemble(
        &self,
        before: Before,
        ensemble: &config::Ensemble,
        server: &Server,
    ) -> Result<bool, ServerError> {
        let (common, waits) = (&self.0, &server.others.waits_for);
        let (base, directory) = (before.base(), Arc::clone(before.directory()));
        let begins = || data::begins(&server.config);
        let data_dir = server.config.data_dir.display().to_string();
        let voters: Vec<u8> = ensemble.ids(false).collect();
        let mut holding = Holding { base, begins: begins(), names: None };
        *common.introduction.lock() = Introduction::Before(Box::new(before), holding);
        let began = Instant::now();
        let mut complained = began;
        loop {
            match &mut *common.introduction.lock() {
                Introduction::Member(_) => {
                    *waits.lock() = None;
                    return Ok(true);
                }
                failed @ Introduction::Failed(_) => {
                    if let Introduction::Failed(error) = std::mem::take(failed) {
                        return Err(error.into());
                    }
                }
                Introduction::Before(_, told) => *told = holding,
                Introduction::Changing => {}
            }
            let others = common.standings().await;
            let is_late = began.elapsed() >= ensemble.init_limit;
            holding.begins = begins();
            let round = Round { own: common.server, holding, voters: &voters, others: &others };
            holding.names = round.named();
            match round.step(is_late) {
                Step::Found => common.found(base, ensemble, &others).await,
                Step::Join if base.is_empty() => common.ask_for_seat(&others).await,
                Step::Join if is_late => {
                    return Err(ServerError::NotEmpty {
                        directory: directory.snapshots().display().to_string(),
                        zxid: base.zxid,
                    });
                }
                Step::Join | Step::Wait => {}
            }
            let text = round.waits_for(is_late, &data_dir);
            if complained.elapsed() >= BETWEEN_COMPLAINTS {
                complained = Instant::now();
                tracing::warn!(
                    id = %MessageId::WAITING_FOR_ENSEMBLE,
                    reason = text,
                    "this server belongs to no ensemble yet and waits"
                );
            }
            *waits.lock() = Some(text);
            tokio::select! {
                () = server.ending.cancelled() => return Ok(false),
                () = tokio::time::sleep(BETWEEN_ROUNDS) => {}
            }
        }
    }
}

impl Common {
    pub(super) fn is_introduced_as_member(&self) -> bool {
        matches!(*self.introduction.lock(), Introduction::Member(_))
    }

    /// What the others are, as far as they answer.
    async fn standings(self: &Arc<Self>) -> BTreeMap<u8, Standing> {
        let mut asked = JoinSet::new();
        for peer in self.peers.values() {
            let (common, peer) = (Arc::clone(self), Arc::clone(peer));
            asked
                .spawn(async move { (peer.server, ask(&common, &peer, Question::Standing).await) });
        }
        let mut standings = BTreeMap::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok((server, Ok(Answer::Standing(standing)))) = answer {
                standings.insert(server, standing);
            }
        }
        standings
    }

    /// Founds an ensemble, and has the others asked to belong to it.
    async fn found(
        self: &Arc<Self>,
        base: Base,
        ensemble: &config::Ensemble,
        others: &BTreeMap<u8, Standing>,
    ) {
        let fresh = nonce().inspect_err(|error| {
            tracing::warn!(id = %MessageId::NO_RANDOM_BYTES, %error, "cannot get random bytes");
        });
        let Ok(fresh) = fresh else { return };
        let Some(before) = self.take_before() else { return };
        let heard = others.values().filter_map(|standing| match standing {
            Standing::Before(holding) => Some(holding.base.accepted),
            Standing::Member { .. } => None,
        });
        let newest = heard.fold(base.accepted, i64::max);
        let members =
            |observers| ensemble.ids(observers).map(|id| member_id(id, FIRST_LIFE)).collect();
        let founding = Founding {
            ensemble: draw(),
            term: u64::try_from(newest).unwrap_or(0) + 1,
            base,
            index: before.index(),
            members: Members {
                voters: members(false),
                learners: members(true),
                ..Members::default()
            },
        };
        let asks: Vec<u8> = others.keys().copied().collect();
        tracing::info!(
            ensemble = format_args!("{:016x}", founding.ensemble),
            zxid = format_args!("{:#x}", base.zxid),
            "founding an ensemble"
        );
        let id = member_id(self.server, FIRST_LIFE);
        let (common, founded) = (Arc::clone(self), founding.clone());
        let done = spawn_blocking(move || {
            let secret = common.secret_to_share(&before, SessionKey::new(fresh))?;
            before.found(id, &founded, secret.as_ref())?;
            Ok(secret)
        });
        let (done, secret) = match done.await {
            Ok(Ok(secret)) => (Ok(Ok(())), secret),
            Ok(Err(error)) => (Ok(Err(error)), None),
            Err(panic) => (Err(panic), None),
        };
        self.changed(done, asks.clone());
        for server in asks {
            let Some(peer) = self.peers.get(&server).map(Arc::clone) else { continue };
            let (common, founding, secret) = (Arc::clone(self), founding.clone(), secret.clone());
            tokio::spawn(async move {
                common.ask_to_belong(&peer, founding, secret.as_ref()).await;
                if let Introduction::Member(asks) = &mut *common.introduction.lock() {
                    asks.retain(|asked| *asked != peer.server);
                }
            });
        }
    }

    /// What every member is to make passwords of sessions with, if it can be handed to all of them.
    fn secret_to_share(
        &self,
        before: &Before,
        fresh: SessionKey,
    ) -> Result<Option<SessionSecret>, EnsembleError> {
        let Some(secret) = before.secret(fresh)? else { return Ok(None) };
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

    async fn ask_to_belong(&self, peer: &Peer, founding: Founding, secret: Option<&SessionSecret>) {
        let began = Instant::now();
        while began.elapsed() < ASKS_MAX {
            let handed = secret.map(|secret| handed_secret::hand(&self.security, secret));
            let Ok(handed) = handed.transpose() else { return };
            match ask(self, peer, Question::Founded(founding.clone(), handed)).await {
                Ok(Answer::Founded) => return,
                Ok(Answer::Refused(reason)) => {
                    tracing::warn!(
                        id = %MessageId::PEER_NOT_IN_NEW_ENSEMBLE,
                        peer = peer.server,
                        reason,
                        "a server refused to join the new ensemble"
                    );
                    return;
                }
                _ => tokio::time::sleep(BETWEEN_ROUNDS).await,
            }
        }
    }

    /// Asks members for a seat until one gives it.
    async fn ask_for_seat(self: &Arc<Self>, others: &BTreeMap<u8, Standing>) {
        let members = others.iter().filter(|(_, its)| matches!(its, Standing::Member { .. }));
        for (server, _) in members {
            let Some(peer) = self.peers.get(server) else { continue };
            match ask(self, peer, Question::Seat(self.server)).await {
                Ok(Answer::Seat(seat, handed)) => {
                    let secret = handed.map(|handed| handed_secret::take(&self.security, *handed));
                    let Some(before) = self.take_before() else { return };
                    tracing::info!(
                        member = format_args!("{:#x}", seat.id),
                        "this server has joined the ensemble"
                    );
                    let done = spawn_blocking(move || before.take(seat, secret.as_ref())).await;
                    self.changed(done, Vec::new());
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

    /// What belongs to no ensemble, for whoever makes something else of it.
    fn take_before(&self) -> Option<Before> {
        let mut introduction = self.introduction.lock();
        match std::mem::take(&mut *introduction) {
            Introduction::Before(before, _) => Some(*before),
            other => {
                *introduction = other;
                None
            }
        }
    }

    fn changed(
        &self,
        done: Result<Result<(), EnsembleError>, tokio::task::JoinError>,
        asks: Vec<u8>,
    ) {
        *self.introduction.lock() = match done {
            Ok(Ok(())) => Introduction::Member(asks),
            Ok(Err(error)) => Introduction::Failed(error),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
    }

    fn standing(&self) -> Option<Standing> {
        let Own { id, ensemble, .. } = self.own();
        match &*self.introduction.lock() {
            Introduction::Before(_, holding) => Some(Standing::Before(*holding)),
            Introduction::Member(asks) => {
                Some(Standing::Member { id, ensemble, asks: asks.clone() })
            }
            Introduction::Changing | Introduction::Failed(_) => None,
        }
    }

    /// Belongs to what another has founded, if it may.
    pub(super) async fn belong(
        self: &Arc<Self>,
        founding: Founding,
        handed: Option<Box<HandedSecret>>,
    ) -> Answer {
        let id = member_id(self.server, FIRST_LIFE);
        let Founding { members, ensemble, .. } = &founding;
        let is_meant = members.voters.contains(&id) || members.learners.contains(&id);
        let may = match &*self.introduction.lock() {
            Introduction::Before(_, holding) if is_meant => may_belong(holding.base, &founding),
            Introduction::Before(..) => {
                Err("the founder's server list does not include it".to_owned())
            }
            Introduction::Member(_) => Err("it belongs to an ensemble".to_owned()),
            Introduction::Changing | Introduction::Failed(_) => return Answer::Elsewhere,
        };
        if let Err(reason) = may {
            tracing::warn!(
                id = %MessageId::FOUNDING_REFUSED,
                ensemble = format_args!("{ensemble:016x}"),
                reason,
                "refused to join an ensemble"
            );
            return Answer::Refused(reason);
        }
        let secret = handed.map(|handed| handed_secret::take(&self.security, *handed));
        let Some(before) = self.take_before() else { return Answer::Elsewhere };
        tracing::info!(
            ensemble = format_args!("{ensemble:016x}"),
            "this server joins an ensemble that another server founded"
        );
        let common = Arc::clone(self);
        // Whoever asks may not wait for it: a disk can take its time.
        let changing = tokio::spawn(async move {
            let done = spawn_blocking(move || before.belong(id, &founding, secret.as_ref())).await;
            common.changed(done, Vec::new());
        });
        match (changing.await, &*self.introduction.lock()) {
            (Ok(()), Introduction::Member(_)) => Answer::Founded,
            _ => Answer::Elsewhere,
        }
    }

    pub(super) async fn seat(&self, server: u8) -> Answer {
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
        self.queue.put_from_peer(FromPeer::Seat(server, answer), None);
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
pub(super) async fn answer(common: Arc<Common>, mut stream: Stream, from: u8) -> io::Result<()> {
    timeout(ANSWER_MAX, answer_at_leisure(&common, &mut stream, from)).await
}

async fn answer_at_leisure(common: &Arc<Common>, stream: &mut Stream, from: u8) -> io::Result<()> {
    let answer = match read(stream, common).await? {
        Said::Question(Question::Standing) => {
            common.standing().map_or(Answer::Elsewhere, Answer::Standing)
        }
        Said::Question(Question::Founded(founding, handed)) => {
            common.belong(founding, handed).await
        }
        Said::Question(Question::Seat(server)) if server == from => common.seat(server).await,
        _ => return Err(io::Error::other("this is not a question")),
    };
    write(stream, &Said::Answer(answer)).await
}

async fn ask(common: &Common, peer: &Peer, question: Question) -> io::Result<Answer> {
    let answered = timeout(ANSWER_MAX, async {
        let (mut stream, _) = dial(common, peer, QUESTION, SILENT_MAX).await?;
        write(&mut stream, &Said::Question(question)).await?;
        match read(&mut stream, common).await? {
            Said::Answer(answer) => Ok(answer),
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
