//! The first words of a connection: who calls whom, what for, by which version, and whether it is welcome.
//!
//! ```text
//! hello    "rookeepr", length of the rest u32, lowest version u32, highest version u32, purpose u32,
//!          id of the caller u64, its ensemble u64, number of the called server u8, has a secret u8, nonce 32;
//!          later versions may add to it
//! answer   length of a reason u32 and the reason, or 0, version u32, id of the called u64, has a secret u8, nonce 32
//!          if both have a secret:
//! proof    32, of the caller
//! answer   length of a reason u32 and the reason, or 0 and the proof of the called, 32
//! ```
//!
//! The id of a server that belongs to no ensemble yet is that of its life 0, and its ensemble is 0.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::secret::{NONCE_LEN, PROOF_LEN, Secret, Side, nonce};
use super::secure::Stream;
use super::{Common, Own};
use crate::ensemble::server_of;

const MAGIC: &[u8; 8] = b"rookeepr";
const HEAD_LEN: usize = 8 + 4;
/// The rest of the first version's.
const REST_LEN: usize = 4 + 4 + 4 + 8 + 8 + 1 + 1 + NONCE_LEN;
/// The longest rest of whatever version.
const REST_MAX: usize = 1000;
const ANSWER_LEN: usize = 4 + 8 + 1 + NONCE_LEN;
const REASON_MAX: usize = 1000;
/// How long whoever is refused may take to read why.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
// These two are known by their texts at the other end: they are part of what peers speak, whatever their versions are.
/// Why a connection is refused while an ensemble is being founded.
const NO_ENSEMBLE_YET: &str = "one of the two belongs to no ensemble yet";
/// Why one is refused by a member that cannot say yet which one it is.
const STILL_READS: &str = "it still reads its data directory";
/// What a connection is for.
pub(super) const WORDS: u32 = 1;
pub(super) const SNAPSHOT: u32 = 2;
pub(super) const QUESTION: u32 = 3;

/// The versions that a server speaks: its own, and the one before it, as long as that one can follow the same log. Version 2
/// has the words on trees ([`Word::since_version`](crate::ensemble::Word::since_version)); version 3 has lives that are
/// numbered by the log, which an earlier one cannot follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Versions {
    lowest: u32,
    highest: u32,
}

const OWN: Versions = Versions { lowest: 3, highest: 3 };

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

/// What a caller says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hello {
    versions: Versions,
    purpose: u32,
    from: u64,
    ensemble: u64,
    to: u8,
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
        out.put_u32(self.purpose);
        out.put_u64(self.from);
        out.put_u64(self.ensemble);
        out.put_u8(self.to);
        out.put_u8(self.has_secret.into());
        out.put_slice(&self.nonce);
        out
    }

    /// From the bytes behind the head. What a later version has added is not looked at.
    fn parse(rest: &[u8]) -> Option<Self> {
        let mut rest = rest.first_chunk::<REST_LEN>()?.as_slice();
        let versions = Versions { lowest: rest.get_u32(), highest: rest.get_u32() };
        let (purpose, from, ensemble) = (rest.get_u32(), rest.get_u64(), rest.get_u64());
        let (to, has_secret) = (rest.get_u8(), rest.get_u8() != 0);
        let nonce = *rest.first_chunk()?;
        Some(Self { versions, purpose, from, ensemble, to, has_secret, nonce })
    }
}

/// The length of what follows a hello's head.
fn parse_head(head: [u8; HEAD_LEN]) -> Result<usize, String> {
    let Some((MAGIC, mut len)) = head.split_first_chunk() else {
        let what = "this is the ensemble port of rookeeper; Java servers cannot join the ensemble";
        return Err(what.to_owned());
    };
    match len.get_u32() as usize {
        len @ REST_LEN..=REST_MAX => Ok(len),
        len => Err(format!("a hello cannot have {len} bytes")),
    }
}

/// Whoever is welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) id: u64,
    pub(super) purpose: u32,
    pub(super) version: u32,
}

/// Says hello to a server, and hears whether it is welcome. Gives its id and the version to speak.
pub(super) async fn say(
    common: &Common,
    stream: &mut Stream,
    to: u8,
    purpose: u32,
) -> io::Result<(u64, u32)> {
    let secret = common.security.secret.as_ref();
    let Own { id, ensemble } = common.own();
    let hello = Hello {
        versions: OWN,
        purpose,
        from: id,
        ensemble,
        to,
        has_secret: secret.is_some(),
        nonce: nonce()?,
    };
    let hello = hello.encode();
    write(stream, &hello).await?;
    welcome(stream).await?;
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).await?;
    let mut rest = answer.as_slice();
    let (version, called, has_secret) = (rest.get_u32(), rest.get_u64(), rest.get_u8() != 0);
    if !(OWN.lowest..=OWN.highest).contains(&version) {
        return Err(io::Error::other(format!(
            "it chose version {version}, but this server has {OWN}"
        )));
    }
    match secret {
        Some(secret) if has_secret => {
            write(stream, &secret.proof(Side::Caller, &hello, &answer)).await?;
            welcome(stream).await?;
            let mut proof = [0; PROOF_LEN];
            stream.read_exact(&mut proof).await?;
            if !secret.is_proof(&proof, Side::Called, &hello, &answer) {
                let what = "its secret differs from this server's (quorum.auth.secretFile)";
                return Err(io::Error::other(what));
            }
        }
        Some(_) if !common.security.is_lenient => {
            let what = "it has no secret, but this server has one (quorum.auth.secretFile)";
            return Err(io::Error::other(what));
        }
        _ => {}
    }
    Ok((called, version))
}

/// Reads whether the other side has a reason to refuse.
async fn welcome(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let len = stream.read_u32().await?;
    if len == 0 {
        return Ok(());
    }
    let mut reason = vec![0; REASON_MAX.min(len as usize)];
    stream.read_exact(&mut reason).await?;
    let reason = String::from_utf8_lossy(&reason).replace(char::is_control, " ");
    Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("it refuses: {reason}")))
}

/// Hears who calls, and answers. `Ok(Err(_))` is why it is not welcome, which it has not been told.
pub(super) async fn hear(
    common: &Common,
    stream: &mut Stream,
) -> io::Result<Result<Caller, String>> {
    let mut head = [0; HEAD_LEN];
    stream.read_exact(&mut head).await?;
    let len = match parse_head(head) {
        Ok(len) => len,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut said = head.to_vec();
    said.resize(HEAD_LEN + len, 0);
    let rest = said.get_mut(HEAD_LEN..).unwrap_or_default();
    stream.read_exact(rest).await?;
    let Some(hello) = Hello::parse(rest) else {
        return Ok(Err("the hello is malformed".to_owned()));
    };
    let caller = match common.caller(&hello, stream) {
        Ok(caller) => caller,
        Err(reason) => return Ok(Err(reason)),
    };
    let secret = common.security.secret.as_ref();
    let mut answer = BytesMut::with_capacity(ANSWER_LEN);
    answer.put_u32(caller.version);
    answer.put_u64(common.own().id);
    answer.put_u8(secret.is_some().into());
    answer.put_slice(&nonce()?);
    let mut out = BytesMut::from([0; 4].as_slice());
    out.put_slice(&answer);
    write(stream, &out).await?;
    match secret {
        Some(secret) if hello.has_secret => {
            Ok(check(stream, secret, &said, &answer).await?.map(|()| caller))
        }
        _ => Ok(Ok(caller)),
    }
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

/// Tells whoever called why it is not welcome, and waits until it has read that: what is closed with something unread
/// is lost.
pub(super) async fn refuse(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), reason: &str) {
    let len = reason.len().min(REASON_MAX);
    let mut out = BytesMut::new();
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
    /// Who was taken out of the ensemble is not heard any more. An earlier life of a server is, until it is taken out: as
    /// long as it votes, it may be needed, and a later one may never have come.
    fn may_speak(&self, from: u64) -> Result<(), String> {
        match self.known.lock().has_removed(from) {
            false => Ok(()),
            true => Err(format!(
                "member {from:#x} has been taken out of the ensemble: server {} has rejoined it with another data directory, \
                 or was not listed any more. With an empty data directory it can join again",
                server_of(from)
            )),
        }
    }

    /// Who calls, and what for.
    fn caller(&self, hello: &Hello, stream: &Stream) -> Result<Caller, String> {
        let Hello { versions, purpose, from, ensemble, to, has_secret, nonce: _ } = *hello;
        let (own, server) = (self.own(), server_of(from));
        let Some(version) = OWN.common(versions) else {
            return Err(format!("it speaks {versions}, this server speaks {OWN}"));
        };
        if server == self.server {
            return Err(format!("myid {server} is in use twice"));
        }
        if to != self.server {
            return Err(format!("it looks for server {to}, but this is server {}", self.server));
        }
        let Some(peer) = self.peers.get(&server) else {
            return Err(format!("server {server} is not in this server's list"));
        };
        if ensemble != 0 && own.ensemble != 0 && ensemble != own.ensemble {
            let own = own.ensemble;
            return Err(format!(
                "it belongs to ensemble {ensemble:016x}, but this server belongs to {own:016x}: their data has nothing in \
                 common. The one that should not be there needs an empty data directory"
            ));
        }
        match purpose {
            QUESTION => {}
            WORDS | SNAPSHOT if own.ensemble == 0 && self.is_introduced_as_member() => {
                return Err(STILL_READS.to_owned());
            }
            WORDS | SNAPSHOT if own.ensemble == 0 || ensemble == 0 => {
                return Err(NO_ENSEMBLE_YET.to_owned());
            }
            WORDS | SNAPSHOT => self.may_speak(from)?,
            _ => return Err(format!("it does not know the purpose {purpose}")),
        }
        self.security.check_caller(stream, &peer.host)?;
        let has_own = self.security.secret.is_some();
        if has_secret != has_own && !self.security.is_lenient {
            let who = match has_own {
                true => "this server has a secret, but the caller has none",
                false => "the caller has a secret, but this server has none",
            };
            return Err(format!("{who} (quorum.auth.secretFile)"));
        }
        Ok(Caller { id: from, purpose, version })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn versions(lowest: u32, highest: u32) -> Versions {
        Versions { lowest, highest }
    }

    #[test]
    fn two_servers_speak_the_highest_version_that_both_know() {
        // A server of version N speaks N and N-1: any two releases next to each other have one in common.
        assert_eq!(versions(1, 1).common(versions(1, 1)), Some(1));
        assert_eq!(versions(1, 1).common(versions(1, 2)), Some(1));
        assert_eq!(versions(1, 2).common(versions(2, 3)), Some(2));
        assert_eq!(versions(2, 3).common(versions(1, 2)), Some(2));
        assert_eq!(versions(2, 3).common(versions(2, 3)), Some(3));
        assert_eq!(versions(1, 2).common(versions(3, 4)), None);
        assert_eq!(versions(3, 4).common(versions(1, 2)), None);
        // Nonsense.
        assert_eq!(versions(1, 1).common(versions(2, 0)), None);
        assert_eq!(versions(1, 1).common(versions(0, 0)), None);
        assert_eq!(versions(1, 1).common(versions(0, u32::MAX)), Some(1));
    }

    proptest! {
        /// A stranger can say anything: it is refused or understood, and the room that it gets is bounded.
        #[test]
        fn no_head_makes_it_panic_or_wait_for_much(head in any::<[u8; HEAD_LEN]>(), len in any::<u32>()) {
            prop_assert!(parse_head(head).is_err() || head.starts_with(MAGIC));
            let mut head = [0; HEAD_LEN];
            head[..8].copy_from_slice(MAGIC);
            head[8..].copy_from_slice(&len.to_be_bytes());
            match parse_head(head) {
                Ok(taken) => prop_assert!(taken == len as usize && taken <= 1000),
                Err(_) => prop_assert!(!(62..=1000).contains(&len)),
            }
        }

        #[test]
        fn no_rest_makes_it_panic(rest in prop::collection::vec(any::<u8>(), 0..1100)) {
            prop_assert_eq!(Hello::parse(&rest).is_some(), rest.len() >= REST_LEN);
        }

        /// What a later version adds does not matter to this one.
        #[test]
        fn a_hello_is_read_as_it_was_written(
            numbers in any::<(u32, u32, u32, u64, u64, u8, bool, [u8; NONCE_LEN])>(),
            more in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let (lowest, highest, purpose, from, ensemble, to, has_secret, nonce) = numbers;
            let hello =
                Hello { versions: versions(lowest, highest), purpose, from, ensemble, to, has_secret, nonce };
            let bytes = hello.encode();
            let (head, rest) = bytes.split_first_chunk().expect("a head");
            prop_assert_eq!(parse_head(*head), Ok(rest.len()));
            prop_assert_eq!(Hello::parse(&[rest, &more].concat()), Some(hello));
        }
    }
}
