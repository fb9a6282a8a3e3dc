//! Snapshots, and what can happen to them on their way.

use super::*;

/// What happens to a stream on its way.
#[derive(Clone, Copy)]
enum Fate {
    Arrives,
    /// It ends after so many bytes.
    Cut(usize),
    /// A bit of that byte changes.
    Damage(usize),
}

/// Lets one connection through to `port`, and tells how many bytes went there.
async fn pass_one(between: &TcpListener, port: u16, fate: Fate) -> usize {
    let (caller, _) = between.accept().await.expect("a connection");
    let called = TcpStream::connect(local(port)).await.expect("a connection");
    let (mut from_caller, mut to_caller) = caller.into_split();
    let (mut from_called, mut to_called) = called.into_split();
    let back = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_called, &mut to_caller).await;
    });
    let mut passed = 0;
    let mut piece = vec![0; 4096];
    loop {
        let limit = match fate {
            Fate::Cut(at) => (at - passed).min(piece.len()),
            _ => piece.len(),
        };
        if limit == 0 {
            break;
        }
        let Ok(read @ 1..) = from_caller.read(&mut piece[..limit]).await else { break };
        if let Fate::Damage(at) = fate
            && (passed..passed + read).contains(&at)
        {
            piece[at - passed] ^= 1;
        }
        passed += read;
        if to_called.write_all(&piece[..read]).await.is_err() {
            break;
        }
    }
    drop((from_caller, to_called));
    back.abort();
    passed
}

const ZXID: i64 = 0x1_0000_0005;

fn announcement() -> PeerMessage {
    let mut message = PeerMessage::default();
    message.set_msg_type(raft::eraftpb::MessageType::MsgSnapshot);
    message.mut_snapshot().data = [ZXID.to_be_bytes(), [0; 8]].concat().into();
    message
}

/// Two servers, and what is between them.
struct Way {
    from: Node,
    to: Node,
    between: TcpListener,
    listener: Arc<TcpListener>,
    port: u16,
    /// What the receiver had against it last.
    refusal: String,
}

impl Way {
    /// With a snapshot at the one end.
    async fn with(content: &[u8]) -> Self {
        Self::with_check(content, None).await
    }

    /// And something that the other end has against it.
    async fn with_check(content: &[u8], check: Option<Check>) -> Self {
        let (between, between_port) = listen().await;
        let (listener, port) = listen().await;
        let from = Node::new(1, between_port, &Settings::default());
        let to = Node::new(2, 0, &Settings { check, ..Settings::default() });
        fs::write(from.file("snapshot.100000005"), content).expect("written");
        Self { from, to, between, listener: listener.into(), port, refusal: String::new() }
    }

    /// Sends it. Gives what the sender has to say, and how many bytes went.
    async fn send(&mut self, fate: Fate) -> (SnapshotStatus, usize) {
        let file = SnapshotFile::open(&self.from.peers.0.directory, ZXID).expect("it is there");
        let mut message = announcement();
        message.to = member_id(2, 1);
        let heeded = heed_one(&self.to, Arc::clone(&self.listener));
        self.from.peers.send_snapshot(message, file);
        let passed = pass_one(&self.between, self.port, fate).await;
        let sent = self.from.hears(|what| matches!(what, FromPeer::SnapshotSent(..))).await;
        let FromPeer::SnapshotSent(_, status) = sent else { unreachable!() };
        let heeded = heeded.await.expect("no panic");
        assert_eq!(heeded.is_ok(), status == SnapshotStatus::Finish, "{heeded:?}");
        self.refusal = heeded.map_or_else(|error| error.to_string(), |()| String::new());
        (status, passed)
    }

    async fn received(&mut self) -> ReceivedSnapshot {
        match self.to.hears(|what| matches!(what, FromPeer::Snapshot(..))).await {
            FromPeer::Snapshot(_, received) => received,
            _ => unreachable!(),
        }
    }

    /// How much is kept of what came.
    fn part(&self) -> u64 {
        self.to.peers.0.part.lock().as_ref().map_or(0, Part::received)
    }
}

fn content(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8 ^ seed).collect()
}

const LEN: usize = 3 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_would_fill_the_disk_is_not_begun() {
    let mut way = Way::with(b"").await;
    let file = fs::File::create(way.from.file("snapshot.100000005")).expect("a file");
    // With a hole in it: more than any disk of a test has free.
    file.set_len(8 << 40).expect("a sparse file");
    let (status, passed) = way.send(Fate::Arrives).await;
    assert_eq!(status, SnapshotStatus::Failure);
    assert!(passed < 10_000, "{passed} bytes were sent");
    assert!(way.refusal.contains("not enough space for the leader's snapshot"), "{}", way.refusal);
    assert!(way.to.handovers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_on_behind_what_came_of_it() {
    let expected = content(1, LEN);
    let mut way = Way::with(&expected).await;
    let mut last = 0;
    // ZK-2872: cut anywhere, the receiver has the old state or the new one.
    for cut in [40, 300, 1 << 20, (1 << 20) + 5] {
        let (status, _) = way.send(Fate::Cut(cut)).await;
        assert_eq!(status, SnapshotStatus::Failure);
        assert!(way.part() >= last);
        last = way.part();
    }
    assert!(last >= 3 << 18, "{last} bytes have come");
    let (status, passed) = way.send(Fate::Arrives).await;
    assert_eq!(status, SnapshotStatus::Finish);
    assert!(passed < LEN - last as usize + 10_000, "{passed} bytes for what was left");
    let received = way.received().await;
    assert_eq!((received.zxid(), received.size()), (ZXID, LEN as u64));
    assert!(way.to.handovers() == [expected]);
    // It is not installed: nothing is left of it.
    drop(received);
    assert!(way.to.handovers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_on_the_way_is_found_and_only_what_was_damaged_comes_again() {
    let expected = content(2, LEN);
    let mut way = Way::with(&expected).await;
    let (status, _) = way.send(Fate::Damage(2 << 20)).await;
    assert_eq!(status, SnapshotStatus::Failure);
    // Everything ahead of the damaged piece.
    assert!(way.part() >= (2 << 20) - (256 << 10));
    let (status, passed) = way.send(Fate::Arrives).await;
    assert_eq!(status, SnapshotStatus::Finish);
    assert!(passed < LEN / 2, "{passed} bytes");
    let _received = way.received().await;
    assert!(way.to.handovers() == [expected]);
}

/// The same zxid and length, and other bytes: as another server would have it.
#[tokio::test(flavor = "multi_thread")]
async fn parts_of_two_files_are_never_put_together() {
    let mut way = Way::with(&content(3, LEN)).await;
    way.send(Fate::Cut(2 << 20)).await;
    assert!(way.part() > 0);
    let other = content(4, LEN);
    fs::write(way.from.file("snapshot.100000005"), &other).expect("written");
    let (status, passed) = way.send(Fate::Arrives).await;
    assert_eq!(status, SnapshotStatus::Finish);
    assert!(passed > LEN, "{passed} bytes: all of it");
    let received = way.received().await;
    assert!(way.to.handovers() == [other]);
    drop(received);
    // A part of another length is of no use, and does not stay beside the new one.
    way.send(Fate::Cut(2 << 20)).await;
    assert!(way.part() > 0);
    let longer = content(5, LEN + 1);
    fs::write(way.from.file("snapshot.100000005"), &longer).expect("written");
    let (status, _) = way.send(Fate::Arrives).await;
    assert_eq!(status, SnapshotStatus::Finish);
    let _received = way.received().await;
    assert!(way.to.handovers() == [longer]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_from_which_no_start_can_be_made_is_not_taken_and_leaves_nothing() {
    for (content, check) in [
        (content(6, LEN), Ensemble::check as Check),
        (content(7, LEN), |_, _, _| Err(StorageError::Poisoned)),
    ] {
        let mut way = Way::with_check(&content, Some(check)).await;
        let (status, passed) = way.send(Fate::Arrives).await;
        assert_eq!(status, SnapshotStatus::Failure);
        assert!(passed > LEN, "{passed} bytes: all of it came");
        assert_eq!(way.part(), 0);
        assert!(way.to.handovers().is_empty());
        let heard = way.to.peers.0.queue.take(Duration::ZERO).from_peers;
        assert!(!heard.iter().any(|(what, _)| matches!(what, FromPeer::Snapshot(..))));
    }
}
