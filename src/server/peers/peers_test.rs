//! Two servers' connections within one process, and what can happen to them on their way.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::admission::Probe;
use super::asking::Asking;
use super::hear::heed;
use super::hello::{QUESTION, WORDS};
use super::refusal::{Refusal, RefusalKind};
use super::secure::Stream;
use super::speak::dial;
use super::*;
use crate::config::{self, QuorumSecurity, SessionsLive};
use crate::engine::database::Rules;
use crate::ensemble::Before;
use crate::ensemble::founding::{Applicant, Founding, FoundingAnswer, Question};
use crate::ensemble::introduction::Welcome;
use crate::ensemble::standing::{Acceptance, Base, Busy, Holding, OfLine, Standing};
use crate::list::ServerList;
use crate::storage::{
    DirectoryOptions, Members, Over, RaftState, RaftStateFile, RealDisk, ReceivedSnapshot,
    RecoveryOptions, SessionKey,
};

#[path = "peers_test/listed.rs"]
mod listed;
#[path = "peers_test/snapshots.rs"]
mod snapshots;
#[path = "peers_test/taken_out.rs"]
mod taken_out;
#[path = "peers_test/unlisted.rs"]
mod unlisted;
#[path = "peers_test/versions.rs"]
mod versions;

const DEADLINE: Duration = Duration::from_secs(20);

/// One of two servers, 1 and 2, whose other one is at `port` of 127.0.0.1.
struct Node {
    dir: TempDir,
    peers: Peers,
    heard: Vec<FromPeer>,
}

/// How a server keeps its data.
fn starts(server: u8) -> Ensemble {
    Ensemble {
        server,
        recovery: RecoveryOptions::default(),
        rules: Rules::default(),
        seed: 1,
        zxids_a_term: u32::MAX,
        list: None,
        standalone_enabled: true,
    }
}

fn own(id: u64, ensemble: u64) -> Own {
    Own { id, ensemble, promised: Promised { term: 5, last: 90 } }
}

/// What differs from a server as it is by default.
#[derive(Default)]
struct Settings {
    security: QuorumSecurity,
    look_up: Option<LookUp>,
    check: Option<Check>,
    /// Bytes a second.
    pace: u64,
    process: Option<u64>,
    /// Where server 3 listens, if there is one.
    third: Option<u16>,
    /// Whether it talks to servers that are not in its list.
    reconfig: bool,
}

impl Node {
    fn new(id: u8, port: u16, settings: &Settings) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = DirectoryOptions {
            data_dir: dir.path().to_owned(),
            data_log_dir: dir.path().to_owned(),
            create: true,
        };
        let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("a directory");
        let lines = [(1, port), (2, port)].into_iter().chain(settings.third.map(|port| (3, port)));
        let lines = lines.map(|(id, port)| format!("server.{id}=peer:{port}:1\n"));
        let list = ServerList::parse(&lines.collect::<String>()).expect("a list");
        let ensemble = config::Ensemble {
            standalone_enabled: true,
            my_id: id,
            list,
            init_limit: Duration::from_secs(1),
            sync_limit: Duration::from_secs(1),
            security: settings.security.clone(),
            snap_sync_bytes: std::num::NonZeroU64::new(settings.pace),
            linearizable_reads: false,
            read_only_mode: false,
            leader_serves: true,
            sessions: SessionsLive::Everywhere,
        };
        let peers = Peers::new(
            (&ensemble, settings.reconfig),
            Security::load(&ensemble.security).expect("good files"),
            Arc::default(),
            Arc::new(directory),
            starts(id),
            Clock::start(),
            CancellationToken::new(),
        );
        let mut common = Arc::into_inner(peers.0).expect("nobody else has it");
        common.process = ProcessId(settings.process.unwrap_or_else(|| id.into()));
        *common.own.lock() = own(member_id(id, 1), 7);
        // What is sent here is not always a snapshot.
        common.check = settings.check.unwrap_or(|_, _, _| Ok(()));
        common.look_up = settings.look_up.unwrap_or(|_, port| Ok(vec![local(port)]));
        Self { dir, peers: Peers(Arc::new(common)), heard: Vec::new() }
    }

    fn common(&self) -> Arc<Common> {
        Arc::clone(&self.peers.0)
    }

    fn other(&self) -> Arc<Peer> {
        Arc::clone(self.peers.0.others.to_ask().first().expect("one other"))
    }

    async fn dial(&self) -> io::Result<u32> {
        dial(&self.common(), &self.other(), WORDS, SILENT_MAX)
            .await
            .map(|(_, called)| called.version)
    }

    /// Waits for something from the other one.
    async fn hears(&mut self, is_it: impl Fn(&FromPeer) -> bool) -> FromPeer {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let queue = Arc::clone(&self.peers.0.queue);
            let batch = queue.take(Duration::ZERO);
            self.heard.extend(batch.from_peers.into_iter().map(|(what, _)| what));
            if let Some(at) = self.heard.iter().position(&is_it) {
                return self.heard.drain(..=at).next_back().expect("it is there");
            }
            assert!(Instant::now() < deadline, "it does not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Takes whoever calls.
    fn answer(&self, listener: TcpListener) {
        let accept = accept(listener, self.common());
        tokio::spawn(self.common().ending.clone().run_until_cancelled_owned(accept));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("version-2").join(name)
    }

    /// What lies there of snapshots on their way in.
    fn handovers(&self) -> Vec<Vec<u8>> {
        let files = fs::read_dir(self.file("")).expect("a folder").map(|file| file.expect("one"));
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with("tmp.handover."))
            .map(|file| fs::read(file.path()).expect("a file"))
            .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.peers.0.ending.cancel();
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind(local(0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

/// The one connection that comes, as the server called sees it.
fn heed_one(node: &Node, listener: Arc<TcpListener>) -> JoinHandle<io::Result<()>> {
    let common = node.common();
    tokio::spawn(async move {
        let (socket, address) = listener.accept().await.expect("a connection");
        let place = common.strangers.enter(1);
        heed(common, socket, address, 1, place).await
    })
}

/// What both sides say of a connection from a server with the one security to one with the other;
/// "" is nothing bad.
async fn meet(caller: &QuorumSecurity, called: &QuorumSecurity) -> (String, String) {
    let (listener, port) = listen().await;
    let settings =
        |security: &QuorumSecurity| Settings { security: security.clone(), ..Settings::default() };
    let (one, two) = (Node::new(1, port, &settings(caller)), Node::new(2, 0, &settings(called)));
    let heed = heed_one(&two, listener.into());
    let said = one.dial().await.map_or_else(|error| error.to_string(), |_| String::new());
    let heard = heed.await.expect("no panic").expect_err("the connection has ended");
    let ended = heard.kind() == io::ErrorKind::UnexpectedEof;
    (said, if ended { String::new() } else { heard.to_string() })
}

fn secret_of(dir: &Path, secret: &str) -> QuorumSecurity {
    let path = dir.join(secret);
    fs::write(&path, secret.repeat(32)).expect("written");
    QuorumSecurity { secret_file: Some(path), ..QuorumSecurity::default() }
}

/// CVE-2018-8012: whoever reaches the port joins. Each mixture of servers with and without a
/// secret, and both told why.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_known_to_both_or_the_connection_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (secret_of(dir.path(), "a"), secret_of(dir.path(), "b"));
    let none = QuorumSecurity::default();
    let lenient = |of: &QuorumSecurity| QuorumSecurity { is_lenient: true, ..of.clone() };
    let wrong = "the secrets differ (quorum.auth.secretFile)";
    let called_has =
        "the called server has a secret, but the caller has none (quorum.auth.secretFile)";
    let caller_has =
        "the caller has a secret, but the called server has none (quorum.auth.secretFile)";
    for (caller, called, reason) in [
        (&none, &none, ""),
        (&a, &a, ""),
        (&a, &b, wrong),
        (&none, &a, called_has),
        (&a, &none, caller_has),
        // The way from none to one: whoever is lenient takes both, a wrong one never.
        (&lenient(&a), &lenient(&none), ""),
        (&lenient(&none), &lenient(&a), ""),
        (&none, &lenient(&a), ""),
        (&lenient(&a), &lenient(&a), ""),
        (&lenient(&a), &lenient(&b), wrong),
        (&lenient(&a), &none, caller_has),
    ] {
        let expected = match reason {
            "" => Default::default(),
            _ => (format!("it refuses: {reason}"), format!("refused: {reason}")),
        };
        assert_eq!(meet(caller, called).await, expected);
    }
    // Whoever is called is lenient, and the caller is not.
    let (said, _) = meet(&a, &lenient(&none)).await;
    assert_eq!(said, "it has no secret, but this server has one (quorum.auth.secretFile)");
}

async fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).await.expect("bytes");
    bytes
}

/// Who has listened to two servers that know the secret cannot say the same again.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_overheard_proves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings { security: secret_of(dir.path(), "a"), ..Settings::default() };
    let (between, port) = listen().await;
    let (one, two) = (Node::new(1, port, &settings), Node::new(2, 0, &settings));
    let (listener, two_port) = listen().await;
    let heeded = heed_one(&two, listener.into());
    let caller = tokio::spawn({
        let (common, peer) = (one.common(), one.other());
        async move {
            let called = dial(&common, &peer, WORDS, SILENT_MAX).await;
            called.map(|(_, called)| called.version)
        }
    });
    let (mut caller_side, _) = between.accept().await.expect("a connection");
    let mut called_side = TcpStream::connect(local(two_port)).await.expect("a connection");
    let hello = read(&mut caller_side, 12 + 62).await;
    called_side.write_all(&hello).await.expect("sent");
    let answer = read(&mut called_side, 4 + 37).await;
    caller_side.write_all(&answer).await.expect("sent");
    let proof = read(&mut caller_side, 32).await;
    called_side.write_all(&proof).await.expect("sent");
    let own_proof = read(&mut called_side, 4 + 32).await;
    caller_side.write_all(&own_proof).await.expect("sent");
    // It says that it is at peer:port.
    let introduction = read(&mut caller_side, 4 + 45 + 2 + 4 + 2 + 32).await;
    called_side.write_all(&introduction).await.expect("sent");
    // Its line has no port.
    let own_introduction = read(&mut called_side, 1 + 4 + 45 + 2 + 2 + 32).await;
    caller_side.write_all(&own_introduction).await.expect("sent");
    assert_eq!(caller.await.expect("no panic").expect("welcome"), 7);
    drop(called_side);
    let _ = heeded.await;

    // The same to server 2 again, by somebody who knows what was said.
    for proof in [&proof, &own_proof[4..].to_vec()] {
        let (listener, two_port) = listen().await;
        let heeded = heed_one(&two, listener.into());
        let mut replay = TcpStream::connect(local(two_port)).await.expect("a connection");
        replay.write_all(&hello).await.expect("sent");
        assert_ne!(read(&mut replay, 4 + 37).await, answer);
        replay.write_all(proof).await.expect("sent");
        let refusal = read(&mut replay, 5).await;
        assert_ne!(refusal, [0; 4]);
        drop(replay);
        let error = heeded.await.expect("no panic").expect_err("refused").to_string();
        assert_eq!(error, "refused: the secrets differ (quorum.auth.secretFile)");
    }

    // And to server 1, by somebody who pretends to be 2.
    let common = one.common();
    let peer = one.other();
    let caller = tokio::spawn(async move {
        dial(&common, &peer, WORDS, SILENT_MAX).await.map(|(_, called)| called.version)
    });
    let (mut caller_side, _) = between.accept().await.expect("a connection");
    read(&mut caller_side, 12 + 62).await;
    caller_side.write_all(&answer).await.expect("sent");
    let new_proof = read(&mut caller_side, 32).await;
    assert_ne!(new_proof, proof);
    // Its own proof back, or the overheard one.
    caller_side.write_all(&own_proof).await.expect("sent");
    let error = caller.await.expect("no panic").expect_err("not server 2").to_string();
    assert_eq!(error, "its secret differs from this server's (quorum.auth.secretFile)");
}

/// Lets one connection through to `port`, and gives what went there and what came back.
async fn overhear(between: TcpListener, port: u16) -> (Vec<u8>, Vec<u8>) {
    let (caller, _) = between.accept().await.expect("a connection");
    let called = TcpStream::connect(local(port)).await.expect("a connection");
    let (mut from_caller, mut to_caller) = caller.into_split();
    let (mut from_called, mut to_called) = called.into_split();
    let pass = async |from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf| {
        let (mut passed, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            passed.extend(&piece[..read]);
            // Whoever has hung up hears no more.
            let _ = to.write_all(&piece[..read]).await;
        }
        let _ = to.shutdown().await;
        passed
    };
    tokio::join!(pass(&mut from_caller, &mut to_called), pass(&mut from_called, &mut to_caller))
}

/// Who has not proved that it knows the secret hears nothing of ids, ensembles and lists, whichever
/// of the two has called.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_learns_an_id_before_both_have_proved_the_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    for (other_secret, is_right) in [("a", true), ("b", false)] {
        let settings =
            |secret| Settings { security: secret_of(dir.path(), secret), ..Settings::default() };
        let (between, port) = listen().await;
        let (listener, two_port) = listen().await;
        let (one, two) =
            (Node::new(1, port, &settings("a")), Node::new(2, 0, &settings(other_secret)));
        let ensemble = 0x1122_3344_5566_7788_u64;
        one.common().own.lock().ensemble = ensemble;
        // Ids that no number beside them, and no random one, begins with by chance.
        let ids = [1, 2].map(|server| member_id(server, 0x0055_6677_8899_aabb));
        for (node, id) in [&one, &two].into_iter().zip(ids) {
            node.common().own.lock().id = id;
        }
        // They are of two ensembles where the one is a stranger to the other.
        two.common().own.lock().ensemble = if is_right { ensemble } else { ensemble + 1 };
        let heeded = heed_one(&two, listener.into());
        let overheard = tokio::spawn(overhear(between, two_port));
        let dialed = one.dial().await;
        assert_eq!(dialed.is_ok(), is_right, "{dialed:?}");
        drop(dialed);
        let _ = heeded.await;
        let (there, back) = overheard.await.expect("no panic");
        let shows = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|its| its == what);
        let numbers = [ensemble, ensemble + 1, ids[0], ids[1]].map(u64::to_be_bytes);
        for bytes in [&there, &back] {
            let is_told =
                numbers.iter().any(|number| shows(bytes, number)) || shows(bytes, b"11223344");
            assert_eq!(is_told, is_right, "{}", bytes.escape_ascii());
        }
    }
}

/// A server that is moved gets a new address under its name: it is looked up at each dial.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_changes_its_address_is_found_again() {
    static LAST: AtomicU8 = AtomicU8::new(2);
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        assert_eq!(host, "peer");
        ASKED.fetch_add(1, Ordering::Relaxed);
        match LAST.load(Ordering::Relaxed) {
            0 => Err(io::Error::other("no such name")),
            last => Ok(vec![(Ipv4Addr::new(127, 0, 0, last), port).into()]),
        }
    }
    let first = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).await.expect("a port");
    let port = first.local_addr().expect("an address").port();
    let second = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 3), port)).await.expect("a port");
    let mut one = Node::new(1, port, &Settings { look_up: Some(look_up), ..Settings::default() });
    let two = Node::new(2, 0, &Settings::default());
    two.answer(first);
    tokio::spawn(
        one.common().ending.clone().run_until_cancelled_owned(speak(one.common(), one.other())),
    );
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;

    // It goes, and for a while its name does not resolve at all: it is tried again for ever.
    LAST.store(0, Ordering::Relaxed);
    drop(two);
    one.hears(|what| matches!(what, FromPeer::Speaks(_, false))).await;
    let asked = ASKED.load(Ordering::Relaxed);
    let deadline = Instant::now() + DEADLINE;
    while ASKED.load(Ordering::Relaxed) < asked + 5 {
        assert!(Instant::now() < deadline, "it is not looked up again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let two = Node::new(2, 0, &Settings::default());
    two.answer(second);
    LAST.store(3, Ordering::Relaxed);
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
}

/// A large directory takes minutes, in which the others are not to look for a wrong list.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_reads_its_directory_says_so() {
    let (listener, port) = listen().await;
    let caller = Node::new(1, port, &Settings::default());
    let called = Node::new(2, port, &Settings::default());
    *called.common().own.lock() = own(member_id(2, 0), 0);
    called.answer(listener);
    let error = caller.dial().await.expect_err("refused");
    assert!(error.to_string().contains("belongs to no ensemble yet"), "{error}");
    called.peers.is_member(&RaftState::default(), 0);
    let error = caller.dial().await.expect_err("refused");
    assert!(error.to_string().contains("it still reads its data directory"), "{error}");
    // Servers that are started together say nothing of it.
    assert!(speak::is_of_a_start(&error));
    called.peers.start(member_id(2, 1), 7, Promised::default(), None, Default::default());
    assert!(caller.dial().await.is_ok());
}

/// Whoever cannot be given the key is refused before a change of the members is asked for, of which
/// nothing would come.
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_given_the_key_gets_no_seat() {
    let node = Node::new(2, 0, &Settings::default());
    let common = node.common();
    node.peers.is_member(&RaftState::default(), 0);
    let secret = SessionSecret { key: SessionKey::new([7; 32]), before: Vec::new() };
    common.session_secret.set(secret).expect("is new");
    for _ in 0..3 {
        let answer = tokio::time::timeout(
            DEADLINE,
            common.seat(Applicant { server: 1, was: None, ends_with: None }, ProcessId(1)),
        )
        .await
        .expect("an answer at once");
        assert!(
            matches!(&answer, FoundingAnswer::Refused(why) if why.contains("session.key")),
            "{answer:?}"
        );
    }
    let batch = common.queue.take(Duration::ZERO);
    assert!(batch.from_peers.is_empty(), "{:?}", batch.from_peers);
}

/// An address that does not answer leaves time for the next one of the same name.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_address_that_answers_is_taken() {
    let (listener, port) = listen().await;
    // Nobody is at the first; the second is of a net that leads nowhere.
    let look_up: LookUp = |_, port| {
        Ok(vec![
            (Ipv4Addr::new(127, 0, 0, 9), port).into(),
            (Ipv4Addr::new(192, 0, 2, 1), port).into(),
            local(port),
        ])
    };
    let one = Node::new(1, port, &Settings { look_up: Some(look_up), ..Settings::default() });
    let two = Node::new(2, 0, &Settings::default());
    let heeded = heed_one(&two, listener.into());
    assert_eq!(one.dial().await.expect("welcome"), 7);
    let _ = heeded.await;
}

/// A server that calls anew takes the place of its old connection, which is not kept open beside
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_ends_the_old_one_of_the_same_peer() {
    let (listener, port) = listen().await;
    let one = Node::new(1, port, &Settings::default());
    let mut two = Node::new(2, 0, &Settings::default());
    two.answer(listener);
    let (common, peer) = (one.common(), one.other());
    let (mut old, ..) = dial(&common, &peer, WORDS, SILENT_MAX).await.expect("welcome");
    two.hears(|what| matches!(what, FromPeer::Hears(_, true))).await;
    let _new = dial(&common, &peer, WORDS, SILENT_MAX).await.expect("welcome");
    two.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
    two.hears(|what| matches!(what, FromPeer::Hears(_, true))).await;
    let ended = tokio::time::timeout(DEADLINE, old.read(&mut [0])).await.expect("it ends");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

/// Each may be as long as a list of sessions, and whoever asks says nothing for as long as it
/// wants.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_ask_few_questions_at_once() {
    let (listener, port) = listen().await;
    let one = Node::new(1, port, &Settings::default());
    let two = Node::new(2, 0, &Settings::default());
    two.answer(listener);
    let question = async || dial(&one.common(), &one.other(), QUESTION, SILENT_MAX).await;
    let mut asked = Vec::new();
    for _ in 0..QUESTIONS_MAX {
        asked.push(question().await.expect("welcome").0);
    }
    let (mut more, _) = question().await.expect("welcome");
    let ended = tokio::time::timeout(DEADLINE, more.read(&mut [0])).await.expect("it ends");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    // Who has gone makes room for another one.
    let gone = asked.pop();
    drop(gone);
    let answered = async {
        loop {
            let answer = introduction::ask(&one.common(), &one.other(), Question::Standing).await;
            if let Ok((answer, _)) = answer {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(DEADLINE, answered).await.expect("an answer");
    assert!(matches!(answer, FoundingAnswer::Standing(_)), "{answer:?}");
}

/// Server 1, or another process of it, that calls at `port`.
fn process(number: u64, port: u16) -> Node {
    Node::new(1, port, &Settings { process: Some(number), ..Settings::default() })
}

/// Keeps a connection, as a server does.
fn keep_speaking(node: &Node) {
    let speak = speak(node.common(), node.other());
    tokio::spawn(node.common().ending.clone().run_until_cancelled_owned(speak));
}

/// What a call is refused for.
async fn refused(node: &Node) -> (Option<RefusalKind>, String) {
    let error = node.dial().await.expect_err("refused");
    (Refusal::kind_of(&error), error.to_string())
}

/// Says that it speaks, and something that is heard.
async fn say(stream: &mut Stream, message: PeerMessage) {
    let mut out = BytesMut::new();
    put_said(&mut out, &Said::Alive(0));
    put_said(&mut out, &Said::Message(message));
    stream.write_all(&out).await.expect("sent");
    stream.flush().await.expect("sent");
}

async fn connect(node: &Node) -> Stream {
    dial(&node.common(), &node.other(), WORDS, SILENT_MAX).await.expect("welcome").0
}

fn acknowledged(term: u64, index: u64) -> PeerMessage {
    let mut message = PeerMessage { term, index, ..PeerMessage::default() };
    message.set_msg_type(raft::eraftpb::MessageType::MsgAppendResponse);
    message
}

fn is_said(what: &FromPeer) -> bool {
    matches!(what, FromPeer::Said(..))
}

/// As with a copy of its directory that is started beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused_as_long_as_the_first_answers() {
    let (listener, port) = listen().await;
    let (of_copy, copy_port) = listen().await;
    let mut two = Node::new(2, copy_port, &Settings::default());
    two.answer(listener);
    let (mut first, second) = (process(11, port), process(22, port));
    keep_speaking(&first);
    first.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    first.peers.send(PeerMessage { to: member_id(2, 1), ..acknowledged(5, 90) });
    two.hears(is_said).await;
    // There is plenty that waits to be sent, too.
    let mut message = PeerMessage { to: member_id(2, 1), ..PeerMessage::default() };
    message.set_msg_type(raft::eraftpb::MessageType::MsgAppend);
    let data = vec![7; 1 << 20].into();
    message.entries = vec![raft::eraftpb::Entry { data, ..Default::default() }].into();
    (0..32).for_each(|_| first.peers.send(message.clone()));
    for _ in 0..5 {
        let began = Instant::now();
        let (kind, reason) = refused(&second).await;
        assert_eq!(kind, Some(RefusalKind::InUse), "{reason}");
        assert!(reason.contains("another process runs as server 1 from 127.0.0.1:"), "{reason}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    // Where it is called, it is no more welcome; and that it is not is no word about who calls.
    second.answer(of_copy);
    let (kind, reason) = refused(&two).await;
    assert_eq!(kind, None, "{reason}");
    assert!(reason.contains("myid 1 is in use"), "{reason}");
    two.hears(is_said).await;
    assert!(!two.heard.iter().any(|what| matches!(what, FromPeer::Hears(_, false))));
    assert!(first.peers.0.queue.take(Duration::ZERO).from_peers.is_empty(), "nothing broke");
}

/// As after a loss of power, or while it is frozen.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_answer_is_replaced_and_stays_so() {
    let (listener, port) = listen().await;
    let mut two = Node::new(2, 0, &Settings::default());
    two.answer(listener);
    let (first, second) = (process(11, port), process(22, port));
    let mut frozen = connect(&first).await;
    say(&mut frozen, acknowledged(5, 90)).await;
    two.hears(is_said).await;
    let began = Instant::now();
    let silent = connect(&second).await;
    let took = began.elapsed();
    assert!((900..1900).contains(&took.as_millis()), "{took:?}");
    let mut asked = [0; Probe::LEN];
    frozen.read_exact(&mut asked).await.expect("it was asked");
    assert_eq!(Probe::parse(&asked).other.ip(), Ipv4Addr::LOCALHOST);
    // It may be refused elsewhere: as long as it says nothing, the first may come back.
    let mut again = connect(&first).await;
    say(&mut again, acknowledged(5, 90)).await;
    two.hears(is_said).await;
    drop((silent, again, frozen));
    two.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
    let began = Instant::now();
    let mut speaks = connect(&second).await;
    assert!(began.elapsed() < Duration::from_millis(900), "nobody is there to be asked");
    say(&mut speaks, acknowledged(5, 90)).await;
    two.hears(is_said).await;
    for _ in 0..2 {
        let (kind, reason) = refused(&first).await;
        assert_eq!(kind, Some(RefusalKind::Replaced), "{reason}");
    }
    drop(speaks);
    two.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
    assert_eq!(refused(&first).await.0, Some(RefusalKind::Replaced));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_holds_less_than_its_member_acknowledged_is_refused_by_name() {
    let (listener, port) = listen().await;
    let mut two = Node::new(2, 0, &Settings::default());
    two.answer(listener);
    let first = process(11, port);
    let mut speaks = connect(&first).await;
    say(&mut speaks, acknowledged(6, 80)).await;
    two.hears(is_said).await;
    // It says what it began with.
    first.common().own.lock().promised = Promised { term: 6, last: 70 };
    let again = connect(&first).await;
    drop((speaks, again));
    let is_gone = || two.peers.0.heard.lock()[&1].is_silent();
    let deadline = Instant::now() + DEADLINE;
    while !is_gone() {
        assert!(Instant::now() < deadline, "it is heard for ever");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = process(22, port);
    for (term, last, is_older) in [(6, 79, true), (5, 200, true), (6, 80, false), (7, 10, false)] {
        second.common().own.lock().promised = Promised { term, last };
        let dialed = second.dial().await;
        let kind = dialed.as_ref().err().and_then(Refusal::kind_of);
        assert_eq!(kind, is_older.then_some(RefusalKind::Older), "{term} {last} {dialed:?}");
    }
    // Another life of the server has another disk.
    *second.common().own.lock() = Own { id: member_id(1, 70), ..own(0, 7) };
    second.common().own.lock().promised = Promised::default();
    assert!(second.dial().await.is_ok());
}

/// One that refuses is enough.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_speak_says_nothing_to_anybody() {
    let (listener, port) = listen().await;
    let mut two = Node::new(2, 0, &Settings::default());
    two.answer(listener);
    let mut one = process(11, port);
    one.common().voice.answered(3, true, std::time::Instant::now());
    keep_speaking(&one);
    two.hears(|what| matches!(what, FromPeer::Hears(_, true))).await;
    one.peers.send(PeerMessage { to: member_id(2, 1), ..acknowledged(5, 90) });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let heard = two.peers.0.queue.take(Duration::ZERO).from_peers;
    assert!(heard.is_empty() && one.peers.0.queue.take(Duration::ZERO).from_peers.is_empty());
    one.common().voice.answered(3, false, std::time::Instant::now());
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    one.peers.send(PeerMessage { to: member_id(2, 1), ..acknowledged(5, 90) });
    two.hears(is_said).await;
    one.common().voice.answered(3, true, std::time::Instant::now());
    one.hears(|what| matches!(what, FromPeer::Speaks(_, false))).await;
    two.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
}

/// Whoever takes nothing has so much waiting for it and no more, on either side, and has to begin
/// anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_too_slow_is_let_go_before_memory_ends() {
    const MIB: usize = 1 << 20;
    let (listener, port) = listen().await;
    let mut one = Node::new(1, port, &Settings::default());
    let mut two = Node::new(2, 0, &Settings::default());
    // Nobody takes what server 2 hears.
    two.answer(listener);
    let speak = speak(one.common(), one.other());
    tokio::spawn(one.common().ending.clone().run_until_cancelled_owned(speak));
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    let mut message = PeerMessage { to: member_id(2, 1), ..PeerMessage::default() };
    message.set_msg_type(raft::eraftpb::MessageType::MsgAppend);
    let data = vec![7; MIB].into();
    message.entries = vec![raft::eraftpb::Entry { data, ..Default::default() }].into();
    let peer = one.other();
    let deadline = Instant::now() + DEADLINE;
    let mut most = 0;
    while peer.unsent.lock().is_up {
        assert!(Instant::now() < deadline, "it goes on without end");
        one.peers.send(message.clone());
        most = most.max(peer.unsent.lock().len());
        // What is on its way is as much as the sockets and one turn of the sender take.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!((UNSENT_MAX..UNSENT_MAX + 2 * MIB).contains(&most), "{most} bytes wait");
    one.hears(|what| matches!(what, FromPeer::Speaks(_, false))).await;
    two.hears(|what| matches!(what, FromPeer::Hears(_, true))).await;
    let messages =
        |heard: &[FromPeer]| heard.iter().filter(|what| matches!(what, FromPeer::Said(..))).count();
    assert!(messages(&two.heard) <= 64, "{} MiB are held", messages(&two.heard));
    // It is dialled again and hears what is said then.
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
}

/// A founder that does not wait for the answer leaves nobody between two states.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_asked_to_belong_does_so_even_if_nobody_waits() {
    let two = Node::new(2, 0, &Settings::default());
    let common = two.common();
    let how = starts(2);
    let before = Before::read(Arc::clone(&common.directory), &how).expect("an empty directory");
    let base = before.base();
    *common.introduction.lock() = Introduction::Before(Box::new(before), Holding::default(), to(7));
    let voters = vec![member_id(1, 1), member_id(2, 1)];
    let members = Members { voters, ..Members::default() };
    let founding = Founding { ensemble: 7, term: 1, base, members, ..Founding::default() };
    tokio::select! {
        biased;
        _ = common.belong((1, ProcessId(1)), founding, None) => {}
        // It has begun.
        () = std::future::ready(()) => {}
    }
    let deadline = Instant::now() + DEADLINE;
    while !matches!(&*common.introduction.lock(), Introduction::Member(_)) {
        assert!(Instant::now() < deadline, "{:?}", common.introduction);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What `from` asks of server 2, as the founder of ensemble 7.
fn offer(from: u8, ensemble: u64) -> Question {
    let voters = [1, 2, 3].map(|server| member_id(server, 1)).to_vec();
    let members = Members { voters, ..Members::default() };
    assert!(from < 4);
    let founding = Founding { ensemble, term: 1, founded_in: 1, members, ..Founding::default() };
    Question::Founded(founding, None)
}

/// Leave to belong to an ensemble where nobody else has data, if the only process of server 1 asks.
fn to(ensemble: u64) -> Option<Welcome> {
    let acceptance = Acceptance { founder: 1, ensemble, newest: Base::default(), configured_at: 0 };
    Some(Welcome { acceptance, process: ProcessId(1) })
}

/// An acceptance that counted before its founder knew of it could be made twice, by two directories
/// of one server.
#[tokio::test(flavor = "multi_thread")]
async fn who_accepts_takes_part_when_the_founder_says_that_it_knows() {
    let two = Node::new(2, 0, &Settings::default());
    let common = two.common();
    let read = || Before::read(Arc::clone(&common.directory), &starts(2)).expect("an empty one");
    two.peers.is_no_member(read());
    let belong = async |from: u8, ensemble: u64| {
        let Question::Founded(founding, secret) = offer(from, ensemble) else { unreachable!() };
        common.belong((from, ProcessId(from.into())), founding, secret).await
    };
    // It has not heard who there is, or heard of another ensemble.
    assert_eq!(belong(1, 7).await, FoundingAnswer::Elsewhere);
    common.introduction.lock().accepts(to(8));
    assert_eq!(belong(1, 7).await, FoundingAnswer::Elsewhere);
    // Somebody has data, and it was founded on nothing.
    let newest = Base { epoch: 1, zxid: 1, accepted: 1 };
    let acceptance = Acceptance { founder: 1, ensemble: 7, newest, configured_at: 0 };
    common.introduction.lock().accepts(Some(Welcome { acceptance, process: ProcessId(1) }));
    let answer = belong(1, 7).await;
    assert!(matches!(answer, FoundingAnswer::NotYet(reason) if reason.contains("newer")));
    // Another process was reached as the founder: this one may have lost its place.
    common.introduction.lock().accepts(to(7).map(|its| Welcome { process: ProcessId(9), ..its }));
    assert_eq!(belong(1, 7).await, FoundingAnswer::Elsewhere);
    // The one that asks knows earlier members than others do.
    let welcome = to(7).expect("leave");
    let acceptance = Acceptance { configured_at: 3, ..welcome.acceptance };
    common.introduction.lock().accepts(Some(Welcome { acceptance, ..welcome }));
    assert_eq!(belong(1, 7).await, FoundingAnswer::Elsewhere);
    // And it is another server that was heard of.
    common.introduction.lock().accepts(to(7));
    assert_eq!(belong(3, 7).await, FoundingAnswer::Elsewhere);
    assert_eq!(belong(1, 7).await, FoundingAnswer::Founded);
    // An operator gives back what it held, and its founder was not lost after all.
    RaftStateFile::leave(&common.directory).expect("leaves");
    two.peers.is_no_member(read());
    let acceptance =
        Acceptance { founder: 3, ensemble: 8, newest: Base::default(), configured_at: 0 };
    common.introduction.lock().accepts(Some(Welcome { acceptance, process: ProcessId(3) }));
    assert!(matches!(belong(3, 8).await, FoundingAnswer::NotYet(_)), "the term may be another's");
    common.introduction.lock().accepts(to(7));
    assert_eq!(belong(1, 7).await, FoundingAnswer::Founded);
    // Asked again, and by somebody else: it may leave the first ensemble, and is to be asked then.
    assert_eq!(belong(1, 7).await, FoundingAnswer::Founded);
    assert_eq!(belong(3, 8).await, FoundingAnswer::OfAnother(7));
    let on_disk = || RaftStateFile::look(&common.directory).expect("looks").expect("is there");
    let member = |server: u8, life: u64, ensemble: u64, asks: &[u8]| {
        let (id, asks, of) = (member_id(server, life), asks.to_vec(), OfLine::default());
        (server, Standing::Member { id, ensemble, asks, has_begun: true, configured_at: 0, of })
    };
    for (heard, takes_part) in [
        (vec![], false),
        // It does not know, or it is another one.
        (vec![member(1, 1, 7, &[2])], false),
        (vec![member(1, 1, 8, &[])], false),
        (vec![member(1, 9, 7, &[])], false),
        (vec![member(3, 1, 7, &[])], false),
        (vec![member(3, 1, 7, &[]), member(1, 1, 7, &[3])], true),
    ] {
        // As after a restart.
        two.peers.is_member(&on_disk(), 0);
        if common.introduction.lock().is_known(2, &heard.into_iter().collect()) {
            common.take_part().await;
        }
        assert_eq!(on_disk().awaits == 0, takes_part);
        let introduction = common.introduction.lock();
        assert!(
            matches!(&*introduction, Introduction::Member(its) if its.takes_part() == takes_part),
            "{introduction:?}"
        );
    }
}

/// It has none of its data. Nothing may say that an ensemble has begun that has not; in one that
/// has, it follows.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_accepted_a_later_epoch_belongs_once_the_ensemble_has_begun() {
    let two = Node::new(2, 0, &Settings::default());
    let common = two.common();
    fs::create_dir_all(two.file("")).expect("a folder");
    fs::write(two.file("acceptedEpoch"), "9").expect("written");
    let directory = Arc::clone(&common.directory);
    two.peers.is_no_member(Before::read(directory, &starts(2)).expect("an empty directory"));
    common.introduction.lock().accepts(to(7));
    let Question::Founded(founding, _) = offer(1, 7) else { unreachable!() };
    let belong =
        async |founding: &Founding| common.belong((1, ProcessId(1)), founding.clone(), None).await;
    let FoundingAnswer::NotYet(reason) = belong(&founding).await else { panic!("it belongs") };
    assert!(reason.contains("already accepted epoch 9"), "{reason}");
    assert!(reason.contains("stop server 1, run `ferrokeeper data leave"), "{reason}");
    assert!(!two.file("raft.state").exists());
    let founding = Founding { term: founding.founded_in + 1, ..founding };
    assert_eq!(belong(&founding).await, FoundingAnswer::Founded);
    let state = RaftStateFile::look(&common.directory).expect("looks").expect("is there");
    assert_eq!((state.term, state.founded_in, state.vote), (9, founding.founded_in, 0));
}

/// Who is there is not silent, whatever it does.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_its_directory_or_becomes_a_member_says_so() {
    let two = Node::new(2, 0, &Settings::default());
    let common = two.common();
    assert_eq!(common.standing(), Some(Standing::Busy(Busy::Reads)));
    let directory = Arc::clone(&common.directory);
    two.peers.is_no_member(Before::read(directory, &starts(2)).expect("an empty directory"));
    assert_eq!(common.standing(), Some(Standing::Before(Holding::default())));
    let before = common.introduction.lock().take_before().expect("it belongs to none");
    assert_eq!(common.standing(), Some(Standing::Busy(Busy::Joins)));
    let Question::Founded(founding, _) = offer(2, 7) else { unreachable!() };
    before.found(member_id(2, 1), &founding, None).expect("founds");
    let state = RaftStateFile::look(&common.directory).expect("looks").expect("is there");
    two.peers.is_member(&state, 0);
    assert!(matches!(
        common.standing(),
        Some(Standing::Member { ensemble: 7, asks, has_begun: false, .. }) if asks == [1, 3]
    ));
}

/// It hears what one becomes while the first question to another one, which takes it and does not
/// answer, still waits.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_keeps_nobody_from_hearing_the_others() {
    let (listener, port) = listen().await;
    let (silent, third) = listen().await;
    let one = Node::new(1, port, &Settings { third: Some(third), ..Settings::default() });
    let two = Node::new(2, port, &Settings::default());
    two.answer(listener);
    let mut asking = Asking::all(&one.common());
    let deadline = Instant::now() + DEADLINE;
    let mut hears = async |is: fn(&Standing) -> bool| {
        loop {
            let heard = asking.round(|heard| heard.standings.get(&2).is_some_and(is)).await;
            if heard.standings.get(&2).is_some_and(is) {
                return;
            }
            assert!(Instant::now() < deadline, "{heard:?}");
        }
    };
    hears(|its| matches!(its, Standing::Busy(_))).await;
    let directory = Arc::clone(&two.common().directory);
    two.peers.is_no_member(Before::read(directory, &starts(2)).expect("an empty directory"));
    hears(|its| matches!(its, Standing::Before(_))).await;
    let _first = silent.accept().await.expect("it is asked");
    let again = tokio::time::timeout(Duration::ZERO, silent.accept()).await;
    assert!(again.is_err(), "it is asked once more: the others were heard only then");
}

/// A founder asks until it has an answer, and knows only then.
#[tokio::test(flavor = "multi_thread")]
async fn a_founder_asks_until_it_is_answered() {
    let (listener, port) = listen().await;
    let mut one = Node::new(1, port, &Settings::default());
    let two = Node::new(2, port, &Settings::default());
    for node in [&one, &two] {
        let server = node.common().server;
        *node.common().own.lock() = own(member_id(server, 0), 0);
    }
    let Question::Founded(founding, _) = offer(1, 7) else { unreachable!() };
    one.peers.is_member(&RaftState { asks: vec![2], ..RaftState::default() }, 0);
    // Whoever is no more among them is not asked.
    one.common().voice.has_waited();
    one.peers.offers(Founding { members: Members::default(), ..founding.clone() });
    one.peers.ask_to_belong(vec![2]);
    one.hears(|what| matches!(what, FromPeer::Answered(2))).await;
    one.peers.offers(founding.clone());
    one.peers.ask_to_belong(vec![2]);
    // It still reads its directory.
    two.answer(listener);
    tokio::time::sleep(4 * Duration::from_millis(100)).await;
    let batch = one.common().queue.take(Duration::ZERO);
    assert!(batch.from_peers.is_empty(), "it has not answered");
    // Meanwhile the members change, and another process speaks in its place.
    one.peers.offers(Founding { configured_at: 9, ..founding });
    one.common().voice.answered(2, true, std::time::Instant::now());
    tokio::time::sleep(4 * Duration::from_millis(100)).await;
    let directory = Arc::clone(&two.common().directory);
    two.peers.is_no_member(Before::read(directory, &starts(2)).expect("an empty directory"));
    two.common().introduction.lock().accepts(to(7));
    tokio::time::sleep(4 * Duration::from_millis(100)).await;
    assert!(RaftStateFile::look(&two.common().directory).expect("looks").is_none(), "is not asked");
    one.common().voice.answered(2, false, std::time::Instant::now());
    one.hears(|what| matches!(what, FromPeer::Answered(2))).await;
    let state = RaftStateFile::look(&two.common().directory).expect("looks").expect("is there");
    assert_eq!((state.ensemble, state.awaits, state.configured_at), (7, member_id(1, 1), 9));
}

/// The setting may have gone since the ensemble was founded.
#[tokio::test(flavor = "multi_thread")]
async fn a_founder_hands_no_key_to_who_does_not_authenticate() {
    let (listener, port) = listen().await;
    let one = Node::new(1, port, &Settings::default());
    let two = Node::new(2, port, &Settings::default());
    for node in [&one, &two] {
        let server = node.common().server;
        *node.common().own.lock() = own(member_id(server, 0), 0);
    }
    two.answer(listener);
    let directory = Arc::clone(&two.common().directory);
    two.peers.is_no_member(Before::read(directory, &starts(2)).expect("an empty directory"));
    two.common().introduction.lock().accepts(to(7));
    let Question::Founded(founding, _) = offer(1, 7) else { unreachable!() };
    let secret = SessionSecret { key: SessionKey::new([7; SessionKey::LEN]), before: Vec::new() };
    let _ = one.common().session_secret.set(secret);
    let asked = one.common().ask_once(&one.other(), &founding).await;
    assert!(asked.is_err_and(|error| error.to_string().contains("authenticate")));
    assert!(matches!(&*two.common().introduction.lock(), Introduction::Before(..)));
}
