use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use jute::persist::SnapshotNode;
use jute::protocol::{RequestHeader, WatchRequest, put_frame};
use jute::{OpCode, Record as _, StatPersisted};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::ensemble::Replica;
use crate::server::client::outbox::Sent;
use crate::server::fixture::{attach, connected};
use crate::server::intake::drive;
use crate::server::{showing, without_orderer};

/// Nothing is left, and these leave something unread: the first one for the longest.
struct Crowd {
    connections: Connections,
    unread: Arc<Unread>,
    began: Instant,
}

impl Crowd {
    fn new(stood: [Duration; 4]) -> Self {
        let unread = Arc::new(Unread::new(1000, 100));
        unread.add(1000);
        let began = Instant::now();
        for (number, stood) in (0..).zip(stood) {
            unread.stall(None, ConnectionId(number), stood);
        }
        let connections = Connections::new(
            0,
            Arc::default(),
            Clock::start(),
            Arc::default(),
            Arc::default(),
            None,
            Arc::clone(&unread),
        );
        Self { connections, unread, began }
    }

    /// Somebody looks for room who has waited for so long.
    fn look(&self, bytes: usize, waited: Duration) {
        assert!(self.connections.look_for_room(bytes, Instant::now() - waited).is_none());
    }

    /// The first one of those that are left; `None` if this took so long that it says nothing.
    fn left(&self) -> Option<u64> {
        let longest = self.unread.longest(Duration::ZERO);
        let left = longest.map_or(4, |longest| longest.connection.0);
        (self.began.elapsed() < STALLED).then_some(left)
    }
}

/// Tries until the machine does not pause meanwhile.
fn left(all: impl Fn() -> Option<Vec<u64>>) -> Vec<u64> {
    std::iter::repeat_with(all).flatten().next().unwrap_or_default()
}

const FRAME: usize = 100;
const NOT_YET: Duration = Duration::from_millis(1000);
const LONG: Duration = Duration::from_secs(10);

#[test]
fn who_has_stood_still_for_long_goes_at_once_and_nobody_else() {
    for bytes in [FRAME, 5 * FRAME] {
        let left = left(|| {
            let crowd = Crowd::new([LONG, LONG, Duration::ZERO, Duration::ZERO]);
            crowd.look(bytes, Duration::ZERO);
            Some(vec![crowd.left()?])
        });
        assert_eq!(left, [2]);
    }
}

#[test]
fn who_stood_still_just_now_goes_when_somebody_has_waited_for_long() {
    let left = left(|| {
        let crowd = Crowd::new([Duration::ZERO; 4]);
        crowd.look(5 * FRAME, NOT_YET);
        let before = crowd.left()?;
        crowd.look(5 * FRAME, PATIENCE);
        Some(vec![before, crowd.left()?])
    });
    assert_eq!(left, [0, 4]);
}

#[test]
fn all_who_wait_for_a_frame_have_one_patience() {
    let left = left(|| {
        let crowd = Crowd::new([Duration::ZERO; 4]);
        crowd.look(FRAME, NOT_YET);
        let mut left = vec![crowd.left()?];
        for _ in 0..3 {
            crowd.look(FRAME, PATIENCE);
            left.push(crowd.left()?);
        }
        // Whoever wants more waits for itself; a frame's turn comes again.
        *crowd.unread.look.lock() = Some(Instant::now() - PATIENCE);
        crowd.look(FRAME, PATIENCE);
        left.push(crowd.left()?);
        crowd.look(5 * FRAME, PATIENCE);
        left.push(crowd.left()?);
        Some(left)
    });
    assert_eq!(left, [0, 1, 1, 1, 2, 4]);
}

/// Looks once whether something is there, and goes on with something else.
fn poll<T>(waiting: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop()))
}

/// Who has the turn is not asked again until the others have what they want.
#[tokio::test]
async fn who_wants_no_more_than_a_znode_does_not_wait_for_the_turn_of_who_wants_much() {
    const DATA: usize = 1_000_000;
    let (_dir, server) = showing("unreadLimitInKb=8192", |mut database| {
        let data = Some(vec![1; DATA].into());
        let node = SnapshotNode { data, acl: -1, stat: StatPersisted::default() };
        database.load_node("/large", &node).expect("a znode");
        Replica::new(database)
    });
    let unread = server.connections.unread();
    // What is left is for those who wait for a frame.
    let taken = [unread.half(), unread.quarter() + 1].map(|bytes| unread.take(bytes));
    let much = || Box::pin(server.connections.room(3 * DATA));
    let (mut at_its_turn, mut behind_it) = (much(), much());
    assert!(poll(&mut at_its_turn).is_pending());

    let (mut client, connection) = connected(&server).await;
    attach(&connection);
    let mut told = vec![0; connection.outbox().len() + DATA];
    let running = tokio::spawn(drive::run(Arc::new(connection), Arc::clone(&server)));
    let mut frames = BytesMut::new();
    put_frame(&mut frames, |out| {
        RequestHeader { xid: 1, op: OpCode::GetData.code() }.encode(out);
        WatchRequest { path: "/large".into(), watch: false }.encode(out);
    });
    client.write_all(&frames).await.expect("it is open");
    let long = Duration::from_secs(20);
    let answer = client.read_exact(&mut told);
    tokio::time::timeout(long, answer).await.expect("no turn is waited for").expect("it is open");
    running.abort();

    // There is room for both now, and they have it one after the other.
    drop(taken);
    assert!(poll(&mut behind_it).is_pending());
    let first = tokio::time::timeout(long, at_its_turn).await.expect("there is room");
    let second = tokio::time::timeout(long, behind_it).await.expect("it is its turn");
    assert!([first, second].iter().all(|taken| taken.is_enough_for(3 * DATA)));
}

#[tokio::test]
async fn an_answer_that_is_too_old_drops_none_before_it_and_is_counted_once() {
    let (_dir, server) = without_orderer("");
    let connections = &server.connections;
    let ended_by = async |end: fn(&Connections, ConnectionId)| {
        let (_client, connection) = connected(&server).await;
        attach(&connection);
        let told = connection.outbox().len();
        assert!(told > 0);
        let connection = Arc::new(connection);
        connections.add(&connection);
        (0..2).for_each(|_| end(connections, connection.id()));
        assert!(connection.outbox().is_ended());
        connection.outbox().len() == told
    };
    assert!(ended_by(|all, its| all.end(its)).await);
    assert!(!ended_by(|all, its| all.close(its)).await);
    assert_eq!(server.stats.series.total(Counter::ReadsTooOldClosed), 1);
}

/// As `/metrics` does, each time that it is asked for.
#[tokio::test]
async fn who_looks_at_all_connections_holds_nothing_meanwhile() {
    const COUNT: usize = 2 * LOOKED_AT + 1;
    let unread = Arc::new(Unread::new(1 << 20, 1 << 20));
    let (queue, stats, passwords) = (Arc::default(), Arc::default(), Arc::default());
    let connections = Connections::new(0, queue, Clock::start(), stats, passwords, None, unread);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("it is known");
    let mut sockets = Vec::new();
    for _ in 0..=COUNT {
        let socket = TcpStream::connect(address).await.expect("a connection");
        let (_, peer) = listener.accept().await.expect("a connection");
        sockets.push((socket, peer));
    }
    let add = |(socket, peer)| {
        let (id, unread) = (connections.next_id(), Arc::clone(connections.unread()));
        let connection = Connection::new(id, peer, socket, connections.clock, unread);
        connections.add(&Arc::new(connection));
    };
    let mut late = sockets.pop();
    sockets.into_iter().for_each(add);
    let mut seen = 0;
    connections.each(|_| {
        seen += 1;
        assert!(connections.open.try_write().is_some());
        assert!(connections.in_order.try_lock().is_some());
        // Who comes meanwhile is not looked at: what ends all of them is over for it.
        late.take().into_iter().for_each(add);
    });
    assert_eq!(seen, COUNT);
    assert_eq!(connections.after(None).len(), LOOKED_AT);
}

/// Each has the same bytes to read.
#[tokio::test]
async fn an_event_of_a_long_path_is_there_once_for_all_who_are_told() {
    const COUNT: usize = 300;
    const LEN: usize = 1_000_000;
    let unread = Arc::new(Unread::new(64 << 20, LEN));
    let (queue, stats, passwords) = (Arc::default(), Arc::default(), Arc::default());
    let connections = Connections::new(0, queue, Clock::start(), stats, passwords, None, unread);
    let unread = Arc::clone(connections.unread());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("it is known");
    let mut receivers = Vec::new();
    for _ in 0..COUNT {
        let socket = TcpStream::connect(address).await.expect("a connection");
        let (_, peer) = listener.accept().await.expect("a connection");
        let id = connections.next_id();
        let connection = Connection::new(id, peer, socket, connections.clock, Arc::clone(&unread));
        connections.add(&Arc::new(connection));
        receivers.push(id);
    }
    let path = format!("/{}", "x".repeat(LEN));
    let mut expected = BytesMut::new();
    for (zxid, path) in [(1, "/short"), (2, path.as_str()), (3, "/short")] {
        put_event(&mut expected, zxid, EventType::NodeCreated, path);
        connections.events(&[Event {
            receivers: receivers.clone(),
            event_type: EventType::NodeCreated,
            path: path.into(),
            zxid: Zxid(zxid),
            readers: None,
        }]);
    }
    let held = unread.bytes();
    assert!((LEN..LEN + (64 << 10)).contains(&held), "{held} bytes");
    for receiver in receivers {
        let connection = connections.get(receiver).expect("it is there");
        assert!(!connection.outbox().is_ended(), "{receiver:?} was closed");
        assert_eq!(connection.outbox().len(), expected.len());
        let mut read = Vec::new();
        let sent = connection.outbox().send(|bytes| {
            read.extend_from_slice(bytes);
            Ok(bytes.len())
        });
        assert_eq!(sent.expect("it takes all"), Sent::All);
        assert!(read == expected);
    }
    assert_eq!(unread.bytes(), 0);
}
