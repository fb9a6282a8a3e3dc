//! The first words of a connection: by which version two servers speak, whether each is one of the
//! ensemble's, and only then who they are, what for, and whether that is welcome.
//!
//! ```text
//! hello    "ferrokpr", length of the rest u32, lowest version u32, highest version u32,
//!          21 zeros, has a secret u8, nonce 32; later versions may add to it
//! answer   length of a reason u32 and the reason, or 0, version u32, has a secret u8, nonce 32
//! proof    this and the next if both have a secret: 32, of the caller
//! answer   length of a reason u32 and the reason, or 0 and the proof of the called, 32
//!          then, with or without one:
//! caller   length u32, purpose u32, number of the called server u8, process u64, id u64,
//!          ensemble u64, term u64, last entry u64, and from version 7 on where it is reached:
//!          length of the host u16, host, port u16; with a secret a proof over all of it, 32
//! called   0 u8 and the same of itself; or why not u8, length of the reason u32 and the reason
//! ```
//!
//! The id of a server that belongs to no ensemble yet is that of its life 0, and its ensemble is 0.
//! The zeros are for version 3, which reads the caller there and finds that the versions differ.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::address::Address;
use super::admission::{Call, Line};
use super::refusal::{Refusal, RefusalKind};
use super::secret::{NONCE_LEN, PROOF_LEN, Secret, Side, nonce};
use super::secure::Stream;
use super::{Common, Own};
use crate::ensemble::callers::{Claim, ProcessId};
use crate::ensemble::{Promised, server_of};
use crate::old_name;

const MAGIC: &[u8; 8] = b"ferrokpr";
const HEAD_LEN: usize = 8 + 4;
/// What version 3 said of itself before it knew whom it spoke to.
const BLANK_LEN: usize = 4 + 8 + 8 + 1;
/// The rest of the first version's.
const REST_LEN: usize = 4 + 4 + BLANK_LEN + 1 + NONCE_LEN;
/// The longest rest of whatever version.
const REST_MAX: usize = 1000;
const ANSWER_LEN: usize = 4 + 1 + NONCE_LEN;
const INTRODUCTION_LEN: usize = 4 + 1 + 5 * 8;
const REASON_MAX: usize = 1000;
/// How long whoever is refused may take to read why.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
// These two are known by their texts at the other end: they are part of what peers speak, whatever
// their versions are.
/// Why a connection is refused while an ensemble is being founded.
const NO_ENSEMBLE_YET: &str = "one of the two belongs to no ensemble yet";
/// Why one is refused by a member that cannot say yet which one it is.
const STILL_READS: &str = "it still reads its data directory";
/// What a connection is for.
pub(super) const WORDS: u32 = 1;
pub(super) const SNAPSHOT: u32 = 2;
pub(super) const QUESTION: u32 = 3;

/// The versions that a server speaks: its own, and the one before it, as long as that one can
/// follow the same log and says who it is at the same place. Version 6 does not say where it is
/// reached, and knows no word about the list of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Versions {
    lowest: u32,
    highest: u32,
}

const OWN: Versions = Versions { lowest: 6, highest: 7 };
/// The first one in which servers say where they are reached.
const SAYS_ADDRESS: u32 = 7;

impl Versions {
    /// The highest that both speak.
    fn common(self, other: Self) -> Option<u32> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest && highest >= other.lowest).then_some(highest)
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lowest == self.highest {
            true => write!(out, "version {}", self.highest),
            false => write!(out, "versions {} to {}", self.lowest, self.highest),
        }
    }
}

/// Whether a connection was refused because one of the two cannot speak yet.
pub(super) fn is_too_early(error: &io::Error) -> bool {
    let text = error.to_string();
    [NO_ENSEMBLE_YET, STILL_READS].iter().any(|reason| text.contains(reason))
}

/// What a caller says to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hello {
    versions: Versions,
    has_secret: bool,
    nonce: [u8; NONCE_LEN],
}

impl Hello {
    fn encode(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(HEAD_LEN + REST_LEN);
        out.put_slice(MAGIC);
        out.put_u32(u32::try_from(REST_LEN).unwrap_or(u32::MAX));
        out.put_u32(self.versions.lowest);
        out.put_u32(self.versions.highest);
        out.put_bytes(0, BLANK_LEN);
        out.put_u8(self.has_secret.into());
        out.put_slice(&self.nonce);
        out
    }

    /// From the bytes after the head. What a later version has added is not looked at.
    fn parse(rest: &[u8]) -> Option<Self> {
        let mut rest = rest.first_chunk::<REST_LEN>()?.as_slice();
        let versions = Versions { lowest: rest.get_u32(), highest: rest.get_u32() };
        rest.advance(BLANK_LEN);
        let has_secret = rest.get_u8() != 0;
        let nonce = *rest.first_chunk()?;
        Some(Self { versions, has_secret, nonce })
    }
}

/// The length of what follows a hello's head.
fn parse_head(head: [u8; HEAD_LEN]) -> Result<usize, String> {
    if head.starts_with(old_name::HELLO) {
        let what = "it runs a release from before the product was renamed to ferrokeeper; all \
                    servers of an ensemble must run later releases";
        return Err(what.to_owned());
    }
    let Some((MAGIC, mut len)) = head.split_first_chunk() else {
        let what =
            "this is the ensemble port of ferrokeeper; Java servers cannot join the ensemble";
        return Err(what.to_owned());
    };
    match len.get_u32() as usize {
        len @ REST_LEN..=REST_MAX => Ok(len),
        len => Err(format!("a hello cannot have {len} bytes")),
    }
}

/// What one of the two says to who has proved to be of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Introduction {
    purpose: u32,
    /// The server that it is for.
    to: u8,
    claim: Claim,
    ensemble: u64,
    /// Where it is reached, if it says so.
    address: Option<Address>,
}

impl Introduction {
    fn encode(&self, version: u32) -> BytesMut {
        let Claim { process, id, promised } = self.claim;
        let mut rest = Vec::with_capacity(INTRODUCTION_LEN);
        rest.put_u32(self.purpose);
        rest.put_u8(self.to);
        for number in [process.0, id, self.ensemble, promised.term, promised.last] {
            rest.put_u64(number);
        }
        if version >= SAYS_ADDRESS {
            Address::put(self.address.as_ref(), &mut rest);
        }
        let mut out = BytesMut::with_capacity(4 + rest.len());
        out.put_u32(u32::try_from(rest.len()).unwrap_or(u32::MAX));
        out.put_slice(&rest);
        out
    }

    /// From the bytes after the length. What a later version has added is not looked at.
    fn parse(rest: &[u8], version: u32) -> Option<Self> {
        let (rest, more) = rest.split_first_chunk::<INTRODUCTION_LEN>()?;
        let mut rest = rest.as_slice();
        let (purpose, to) = (rest.get_u32(), rest.get_u8());
        let (process, id, ensemble) = (ProcessId(rest.get_u64()), rest.get_u64(), rest.get_u64());
        let promised = Promised { term: rest.get_u64(), last: rest.get_u64() };
        let address = if version >= SAYS_ADDRESS { Address::parse(more)? } else { None };
        Some(Self { purpose, to, claim: Claim { process, id, promised }, ensemble, address })
    }
}

/// A conversation up to where both have proved that they know the secret, if both have one.
struct Proved<'a> {
    secret: Option<&'a Secret>,
    /// Of what is spoken.
    version: u32,
    /// All that was said but the proofs.
    said: Vec<u8>,
}

impl Proved<'_> {
    async fn introduce(
        &mut self,
        stream: &mut Stream,
        introduction: &Introduction,
        side: Side,
    ) -> io::Result<()> {
        let introduction = introduction.encode(self.version);
        let mut out = introduction.clone();
        if let Some(secret) = self.secret {
            out.put_slice(&secret.proof(side, &self.said, &introduction));
        }
        self.said.extend(introduction);
        write(stream, &out).await
    }

    async fn hear_introduction(
        &mut self,
        stream: &mut Stream,
        side: Side,
    ) -> io::Result<Introduction> {
        let len = stream.read_u32().await?;
        let malformed = || io::Error::other("its introduction is malformed");
        if !(INTRODUCTION_LEN..=REST_MAX).contains(&(len as usize)) {
            return Err(malformed());
        }
        let mut introduction = len.to_be_bytes().to_vec();
        introduction.resize(4 + len as usize, 0);
        let rest = introduction.get_mut(4..).unwrap_or_default();
        stream.read_exact(rest).await?;
        let parsed = Introduction::parse(rest, self.version).ok_or_else(malformed)?;
        if let Some(secret) = self.secret {
            let mut proof = [0; PROOF_LEN];
            stream.read_exact(&mut proof).await?;
            if !secret.is_proof(&proof, side, &self.said, &introduction) {
                return Err(io::Error::other("its proof does not match its introduction"));
            }
        }
        self.said.extend(introduction);
        Ok(parsed)
    }
}

/// Whoever is welcome.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) id: u64,
    pub(super) process: ProcessId,
    pub(super) purpose: u32,
    /// On which it is heard, if it came to speak.
    pub(super) line: Option<Line>,
}

/// Whoever welcomes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    pub(super) id: u64,
    pub(super) process: ProcessId,
    /// What is spoken.
    pub(super) version: u32,
}

/// Says hello to a server at `address`, and hears whether it is welcome.
pub(super) async fn say(
    common: &Common,
    stream: &mut Stream,
    address: SocketAddr,
    to: u8,
    purpose: u32,
) -> io::Result<Called> {
    let own_secret = common.security.secret.as_ref();
    let hello = Hello { versions: OWN, has_secret: own_secret.is_some(), nonce: nonce()? };
    let hello = hello.encode();
    write(stream, &hello).await?;
    welcome(stream).await?;
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).await?;
    let mut rest = answer.as_slice();
    let (version, has_secret) = (rest.get_u32(), rest.get_u8() != 0);
    if !(OWN.lowest..=OWN.highest).contains(&version) {
        return Err(io::Error::other(format!(
            "it chose version {version}, but this server has {OWN}"
        )));
    }
    let secret = own_secret.filter(|_| has_secret);
    match (secret, own_secret) {
        (Some(secret), _) => {
            write(stream, &secret.proof(Side::Caller, &hello, &answer)).await?;
            welcome(stream).await?;
            let mut proof = [0; PROOF_LEN];
            stream.read_exact(&mut proof).await?;
            if !secret.is_proof(&proof, Side::Called, &hello, &answer) {
                let what = "its secret differs from this server's (quorum.auth.secretFile)";
                return Err(io::Error::other(what));
            }
        }
        (None, Some(_)) if !common.security.is_lenient => {
            let what = "it has no secret, but this server has one (quorum.auth.secretFile)";
            return Err(io::Error::other(what));
        }
        _ => {}
    }
    let mut proved = Proved { secret, version, said: [hello.as_ref(), &answer].concat() };
    let own = common.introduction_to(to, purpose);
    proved.introduce(stream, &own, Side::CallerItself).await?;
    match stream.read_u8().await? {
        0 => {}
        number => {
            let reason = reason(stream).await?;
            return Err(Refusal::new(RefusalKind::of(number), reason).into());
        }
    }
    let Introduction { claim, .. } = proved.hear_introduction(stream, Side::CalledItself).await?;
    if server_of(claim.id) != to {
        return Err(io::Error::other(format!("it is server {}, not {to}", server_of(claim.id))));
    }
    if purpose != QUESTION {
        // It is the other one that is not welcome.
        let refused = |refusal: Refusal| io::Error::other(format!("refused: {}", refusal.reason));
        common.accept_called(claim, address).await.map_err(refused)?;
    }
    Ok(Called { id: claim.id, process: claim.process, version })
}

/// Reads whether the other side has a reason to refuse a stranger.
async fn welcome(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    match reason(stream).await? {
        reason if reason.is_empty() => Ok(()),
        reason => Err(Refusal::of_stranger(reason).into()),
    }
}

async fn reason(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let len = stream.read_u32().await?;
    let mut reason = vec![0; REASON_MAX.min(len as usize)];
    stream.read_exact(&mut reason).await?;
    Ok(String::from_utf8_lossy(&reason).replace(char::is_control, " "))
}

/// Hears who calls from `address`, and answers. `Ok(Err(_))` is why it is not welcome, which it has
/// not been told.
pub(super) async fn hear(
    common: &Arc<Common>,
    stream: &mut Stream,
    address: SocketAddr,
    number: u64,
) -> io::Result<Result<Caller, Refusal>> {
    let mut head = [0; HEAD_LEN];
    stream.read_exact(&mut head).await?;
    let len = match parse_head(head) {
        Ok(len) => len,
        Err(reason) => return Ok(Err(Refusal::of_stranger(reason))),
    };
    let mut hello = head.to_vec();
    hello.resize(HEAD_LEN + len, 0);
    let rest = hello.get_mut(HEAD_LEN..).unwrap_or_default();
    stream.read_exact(rest).await?;
    let Some(Hello { versions, has_secret, nonce: _ }) = Hello::parse(rest) else {
        return Ok(Err(Refusal::of_stranger("the hello is malformed".to_owned())));
    };
    let version = match common.take_stranger(versions, has_secret) {
        Ok(version) => version,
        Err(reason) => return Ok(Err(Refusal::of_stranger(reason))),
    };
    let own_secret = common.security.secret.as_ref();
    let mut answer = BytesMut::with_capacity(ANSWER_LEN);
    answer.put_u32(version);
    answer.put_u8(own_secret.is_some().into());
    answer.put_slice(&nonce()?);
    let mut out = BytesMut::from([0; 4].as_slice());
    out.put_slice(&answer);
    write(stream, &out).await?;
    let secret = own_secret.filter(|_| has_secret);
    if let Some(secret) = secret
        && let Err(reason) = check(stream, secret, &hello, &answer).await?
    {
        return Ok(Err(Refusal::of_stranger(reason)));
    }
    let mut proved = Proved { secret, version, said: [hello.as_slice(), &answer].concat() };
    let caller = proved.hear_introduction(stream, Side::CallerItself).await?;
    if let Err(refusal) = common.take_caller(&caller, stream) {
        return Ok(Err(refusal));
    }
    let Introduction { purpose, claim, .. } = caller;
    let line = match purpose {
        WORDS => common.accept_caller(claim, Call { number, address, version }).await.map(Some),
        SNAPSHOT => common.accept_called(claim, address).await.map(|()| None),
        _ => Ok(None),
    };
    let line = match line {
        Ok(line) => line,
        Err(refusal) => return Ok(Err(refusal)),
    };
    // Who only asks may be a copy of the process that speaks, and is not judged.
    if let Err(refusal) = common.meet(claim, caller.address, purpose != QUESTION) {
        return Ok(Err(refusal));
    }
    stream.write_u8(0).await?;
    let own = common.introduction_to(server_of(claim.id), purpose);
    proved.introduce(stream, &own, Side::CalledItself).await?;
    Ok(Ok(Caller { id: claim.id, process: claim.process, purpose, line }))
}

/// Lets the caller prove that it knows the secret, and proves the same.
async fn check(
    stream: &mut Stream,
    secret: &Secret,
    hello: &[u8],
    answer: &[u8],
) -> io::Result<Result<(), String>> {
    let mut proof = [0; PROOF_LEN];
    stream.read_exact(&mut proof).await?;
    if !secret.is_proof(&proof, Side::Caller, hello, answer) {
        return Ok(Err("the secrets differ (quorum.auth.secretFile)".to_owned()));
    }
    let mut out = BytesMut::from([0; 4].as_slice());
    out.put_slice(&secret.proof(Side::Called, hello, answer));
    write(stream, &out).await?;
    Ok(Ok(()))
}

/// Tells whoever called why it is not welcome, and waits until it has read that: what is closed
/// with something unread is lost.
pub(super) async fn refuse(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    Refusal { kind, reason }: &Refusal,
) {
    let len = reason.len().min(REASON_MAX);
    let mut out = BytesMut::new();
    out.extend(kind.map(RefusalKind::number));
    out.put_u32(u32::try_from(len).unwrap_or_default());
    out.put_slice(reason.as_bytes().get(..len).unwrap_or_default());
    let tell = async {
        write(stream, &out).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        for _ in 0..64 {
            if stream.read(&mut unread).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    // Whoever does not want to know need not.
    let _ = tokio::time::timeout(FAREWELL_MAX, tell).await;
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

impl Common {
    /// Who was taken out of the ensemble is not heard any more. An earlier life of a server is,
    /// until it is taken out: as long as it votes, it may be needed, and a later one may never have
    /// come.
    fn may_speak(&self, from: u64) -> Result<(), String> {
        match self.known.lock().has_removed(from) {
            false => Ok(()),
            true => Err(format!(
                "member {from:#x} was removed from the ensemble: server {} has rejoined it with \
                 another data directory, or was no longer listed",
                server_of(from)
            )),
        }
    }

    /// What a server says to who has proved to be of the ensemble.
    fn introduction_to(&self, to: u8, purpose: u32) -> Introduction {
        let Own { id, ensemble, promised } = self.own();
        let claim = Claim { process: self.process, id, promised };
        Introduction { purpose, to, claim, ensemble, address: self.others.own_address() }
    }

    /// The version to speak, if the two can at all.
    fn take_stranger(&self, versions: Versions, has_secret: bool) -> Result<u32, String> {
        let Some(version) = OWN.common(versions) else {
            return Err(format!("the caller speaks {versions}, and the called server {OWN}"));
        };
        let has_own = self.security.secret.is_some();
        if has_secret != has_own && !self.security.is_lenient {
            let who = match has_own {
                true => "the called server has a secret, but the caller has none",
                false => "the caller has a secret, but the called server has none",
            };
            return Err(format!("{who} (quorum.auth.secretFile)"));
        }
        Ok(version)
    }

    /// Whether who calls may speak of that, if it is who it says.
    fn take_caller(&self, caller: &Introduction, stream: &Stream) -> Result<(), Refusal> {
        let Introduction { purpose, to, claim, ensemble, .. } = *caller;
        let refuse = |reason| Err(Refusal::new(RefusalKind::Reason, reason));
        let (own, server) = (self.own(), server_of(claim.id));
        if server == self.server {
            return refuse(format!("myid {server} is in use twice"));
        }
        let said = caller.address.clone().filter(|_| self.meets_unlisted);
        let Some(address) = self.others.place_of(server, said) else {
            let more = match self.meets_unlisted {
                true => ", and does not say where other servers can reach it",
                false => "",
            };
            let own = self.server;
            return refuse(format!("server {server} is not in the list of server {own}{more}"));
        };
        if let Err(reason) = self.security.check_caller(stream, address.host.as_str()) {
            return refuse(reason);
        }
        if to != self.server {
            return refuse(format!(
                "the caller looks for server {to}, but this is server {}",
                self.server
            ));
        }
        if ensemble != 0 && own.ensemble != 0 && ensemble != own.ensemble {
            let (own, called) = (own.ensemble, self.server);
            let reason = format!(
                "server {server} belongs to ensemble {ensemble:016x}, and server {called} to \
                 {own:016x}: their data has nothing in common. A server that kept running while \
                 ZooKeeper was using the data of the others needs a restart"
            );
            return Err(Refusal::new(RefusalKind::OfAnother, reason));
        }
        match purpose {
            QUESTION => Ok(()),
            WORDS | SNAPSHOT if own.ensemble == 0 && self.is_introduced_as_member() => {
                refuse(STILL_READS.to_owned())
            }
            WORDS | SNAPSHOT if own.ensemble == 0 || ensemble == 0 => {
                refuse(NO_ENSEMBLE_YET.to_owned())
            }
            WORDS | SNAPSHOT => self
                .may_speak(claim.id)
                .map_err(|reason| Refusal::new(RefusalKind::Removed, reason)),
            _ => refuse(format!("it does not know the purpose {purpose}")),
        }
    }
}

#[cfg(test)]
#[path = "hello_test.rs"]
mod hello_test;
