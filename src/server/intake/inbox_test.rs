use std::time::Duration;

use bytes::BytesMut;
use jute::Record as _;
use jute::protocol::{SetDataRequest, WatchRequest, put_frame};

use super::*;
use crate::ensemble::Replica;
use crate::server::fixture::{attach, connected};
use crate::server::{showing, without_orderer};

/// With the orderer, others would wait behind it, or it would fail. What shows nothing of the
/// tree goes there as ever.
#[tokio::test]
async fn a_read_behind_a_write_waits_here_while_the_state_is_too_old() {
    let (_dir, server) = showing("", |database| Replica::of_member(database, 1000));
    let (_client, connection) = connected(&server).await;
    attach(&connection);
    let mut inbox = Inbox::new(Arc::clone(&server));
    let set = SetDataRequest { path: "/".into(), data: None, version: -1 };
    let get = WatchRequest { path: "/".into(), watch: false };
    let mut put = |op: OpCode, body: &dyn Fn(&mut BytesMut)| {
        put_frame(inbox.frames.bytes_mut(), |out| {
            RequestHeader { xid: 1, op: op.code() }.encode(out);
            body(out);
        });
    };
    for _ in 0..2 {
        put(OpCode::SetData, &|out| set.encode(out));
        put(OpCode::Ping, &|_| {});
        put(OpCode::GetData, &|out| get.encode(out));
    }
    let queued = || server.intake.queue.take(Duration::ZERO).submissions.len();
    assert_eq!((inbox.process(&connection), queued()), (Step::Drain, 2));
    assert_eq!((inbox.process(&connection), queued()), (Step::Drain, 0));
    (0..2).for_each(|_| connection.answered());
    assert_eq!((inbox.process(&connection), queued()), (Step::NeedsRound, 0));
}

#[tokio::test]
async fn a_read_that_waits_for_a_round_takes_as_long() {
    const WAITED_MS: u64 = 50;
    let (_dir, server) = showing("", |database| Replica::of_member(database, 60_000));
    let (_client, connection) = connected(&server).await;
    attach(&connection);
    let mut inbox = Inbox::new(Arc::clone(&server));
    let get = WatchRequest { path: "/".into(), watch: false };
    put_frame(inbox.frames.bytes_mut(), |out| {
        RequestHeader { xid: 1, op: OpCode::GetData.code() }.encode(out);
        get.encode(out);
    });
    assert_eq!(inbox.process(&connection), Step::NeedsRound);
    let end = server.clock.monotonic().plus(WAITED_MS);
    while server.clock.monotonic() < end {
        assert_eq!(inbox.process(&connection), Step::NeedsRound);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.replica.shows(end);
    assert_eq!(inbox.process(&connection), Step::NeedsBytes);
    let latency = server.stats.latency();
    assert_eq!(latency.count, 1);
    assert!(latency.max >= WAITED_MS, "{latency:?}");
    // What comes later has not waited.
    assert!(inbox.requests.came().is_none());
}

/// They come at once after an outage, and the others' requests are not to stand behind them.
#[tokio::test]
async fn clients_that_connect_take_a_quarter_of_what_requests_may_and_none_of_theirs() {
    const CLIENTS: usize = 200;
    let (_dir, server) = without_orderer("globalOutstandingLimit=40\n");
    let mut all = Vec::new();
    for _ in 0..=CLIENTS {
        all.push(connected(&server).await);
    }
    let mut taken = 0;
    let mut connect = |connection: &Connection| {
        let mut inbox = Inbox::new(Arc::clone(&server));
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: 10_000,
            session_id: 0,
            password: None,
            read_only: None,
        };
        put_frame(inbox.frames.bytes_mut(), |out| request.encode(out));
        match inbox.process(connection) {
            Step::Drain => taken += 1,
            Step::NeedsRoom(..) => {}
            step => panic!("{step:?}"),
        }
    };
    let ((_, own), others) = all.split_last().expect("they are some");
    others.iter().for_each(|(_, connection)| connect(connection));
    assert_eq!(taken, 10);

    attach(own);
    let mut inbox = Inbox::new(Arc::clone(&server));
    let set = SetDataRequest { path: "/".into(), data: None, version: -1 };
    for xid in 0..=40 {
        put_frame(inbox.frames.bytes_mut(), |out| {
            RequestHeader { xid, op: OpCode::SetData.code() }.encode(out);
            set.encode(out);
        });
    }
    assert!(matches!(inbox.process(own), Step::NeedsRoom(_)));
    let queued = server.intake.queue.take(Duration::ZERO).submissions;
    let is_open = |its: &Submission| matches!(its.work, Work::Open { .. });
    assert_eq!((queued.iter().take_while(|its| is_open(its)).count(), queued.len()), (10, 50));
}
