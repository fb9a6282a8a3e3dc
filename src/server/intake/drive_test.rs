use std::net::Ipv4Addr;

use bytes::BytesMut;
use jute::protocol::{RequestHeader, SetDataRequest, WatchRequest, put_frame};
use jute::{OpCode, Record as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::engine::decide::tracker::Heard;
use crate::engine::session::SessionId;
use crate::ensemble::Replica;
use crate::server::client::password::PASSWORD_LEN;
use crate::server::fixture::{attach, connected};
use crate::server::intake::rooms::RoomOf;
use crate::server::{showing, without_orderer};

/// All room is somebody else's, for longer than its session lives without a sign.
#[tokio::test]
async fn who_waits_for_room_for_a_request_is_heard() {
    let (_dir, server) = without_orderer("");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, peer) = listener.accept().await.unwrap();
    let (id, unread) = (server.connections.next_id(), server.connections.unread());
    let connection = Connection::new(id, peer, socket, server.clock, Arc::clone(unread));
    connection.submitted();
    let heard: Arc<Heard> = Arc::default();
    let session = Attached {
        session: SessionId(1),
        timeout_ms: 10_000,
        heard: Arc::clone(&heard),
        previous: None,
        reads_only: false,
    };
    connection.attached(&session, [0; PASSWORD_LEN]);
    let all = server.intake.rooms.share_of(RoomOf::Small, usize::MAX);
    let all = server.intake.rooms.take(all).await;
    let running = tokio::spawn(run(Arc::new(connection), Arc::clone(&server)));
    let mut frames = BytesMut::new();
    let set = SetDataRequest { path: "/".into(), data: None, version: -1 };
    put_frame(&mut frames, |out| {
        RequestHeader { xid: 1, op: OpCode::SetData.code() }.encode(out);
        set.encode(out);
    });
    client.write_all(&frames).await.unwrap();
    // Each ping is heard, however many have been before it.
    for _ in 0..5 {
        let before = heard.last();
        let deadline = Instant::now() + Duration::from_secs(10);
        while heard.last() == before {
            assert!(Instant::now() < deadline, "it is not heard");
            let mut ping = BytesMut::new();
            put_frame(&mut ping, |out| {
                RequestHeader { xid: -2, op: OpCode::Ping.code() }.encode(out);
            });
            client.write_all(&ping).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(server.intake.queue.take(Duration::ZERO).submissions.is_empty());
    drop(all);
    // And it ends with its client.
    drop(client);
    tokio::time::timeout(Duration::from_secs(10), running).await.unwrap().unwrap();
}

/// It ends while it is granted the room that it waited for, and its client reads nothing.
#[tokio::test]
async fn who_leaves_keeps_no_room_of_the_queue() {
    let (_dir, server) = showing("", |database| Replica::of_member(database, 600_000));
    let (_client, connection) = connected(&server).await;
    SockRef::from(connection.socket()).set_send_buffer_size(64 << 10).unwrap();
    attach(&connection);
    assert!(connection.outbox().put(|out| out.resize(out.len() + (8 << 20), 0)));
    let share = server.intake.rooms.share_of(RoomOf::Small, usize::MAX);
    let mut inbox = Inbox::new(Arc::clone(&server));
    inbox.grant_room(server.intake.rooms.take(share).await.unwrap());
    connection.outbox().end();
    let connection = Arc::new(connection);
    let driving = async {
        drive(&connection, &server, &mut inbox).await.unwrap();
    };
    let waiting = server.intake.rooms.take(share);
    tokio::select! {
        () = driving => panic!("it has much to send"),
        room = tokio::time::timeout(LAST_WORDS / 2, waiting) => {
            assert!(room.expect("others get it before the client has read all").is_some());
        }
    }
}

fn put_get(frames: &mut BytesMut) {
    let get = WatchRequest { path: "/".into(), watch: false };
    put_frame(frames, |out| {
        RequestHeader { xid: 1, op: OpCode::GetData.code() }.encode(out);
        get.encode(out);
    });
}

/// What was answered before is more than the sockets take, and the client has not read it yet.
#[tokio::test]
async fn who_waits_in_vain_for_a_round_is_told_what_was_answered_before() {
    const UNREAD: usize = 900_000;
    let (_dir, server) = showing("", |database| Replica::of_member(database, 100));
    let (mut client, connection) = connected(&server).await;
    SockRef::from(&client).set_recv_buffer_size(64 << 10).unwrap();
    SockRef::from(connection.socket()).set_send_buffer_size(64 << 10).unwrap();
    attach(&connection);
    assert!(connection.outbox().put(|out| out.resize(out.len() + UNREAD, 0)));
    let mut told = vec![0; connection.outbox().len()];
    let connection = Arc::new(connection);
    let running = tokio::spawn(run(Arc::clone(&connection), Arc::clone(&server)));
    let mut frames = BytesMut::new();
    put_get(&mut frames);
    client.write_all(&frames).await.unwrap();
    let long = Duration::from_secs(10);
    let is_ended = async {
        while !connection.outbox().is_ended() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(long, is_ended).await.expect("it waits no longer");
    let all = client.read_exact(&mut told);
    tokio::time::timeout(long, all).await.expect("all was sent").unwrap();
    tokio::time::timeout(long, running).await.expect("it ends").unwrap();
    let counted = [Counter::ReadsTooOldWaited, Counter::ReadsTooOldClosed];
    assert_eq!(counted.map(|its| server.stats.series.total(its)), [1, 1]);
}

/// No more of what it sends is read, for longer than its session lives without a sign.
#[tokio::test]
async fn who_waits_for_a_round_with_much_behind_it_is_heard() {
    let (_dir, server) = showing("", |database| Replica::of_member(database, 600_000));
    let (mut client, connection) = connected(&server).await;
    connection.submitted();
    let heard: Arc<Heard> = Arc::default();
    let session = Attached {
        session: SessionId(1),
        timeout_ms: 300,
        heard: Arc::clone(&heard),
        previous: None,
        reads_only: false,
    };
    connection.attached(&session, [0; PASSWORD_LEN]);
    let running = tokio::spawn(run(Arc::new(connection), Arc::clone(&server)));
    let mut frames = BytesMut::new();
    put_get(&mut frames);
    let data = Some(vec![0; 66 << 10].into());
    let set = SetDataRequest { path: "/".into(), data, version: -1 };
    put_frame(&mut frames, |out| {
        RequestHeader { xid: 2, op: OpCode::SetData.code() }.encode(out);
        set.encode(out);
    });
    client.write_all(&frames).await.unwrap();
    for _ in 0..5 {
        let before = heard.last();
        let deadline = Instant::now() + Duration::from_secs(10);
        while heard.last() == before {
            assert!(Instant::now() < deadline, "it is not heard");
            let mut ping = BytesMut::new();
            put_frame(&mut ping, |out| {
                RequestHeader { xid: -2, op: OpCode::Ping.code() }.encode(out);
            });
            client.write_all(&ping).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    // What it sent is a sign once.
    let falls_silent = async {
        let mut before = None;
        while before.replace(heard.last()) != Some(heard.last()) {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), falls_silent).await;
    in_time.expect("it is not heard for ever");
    running.abort();
}
