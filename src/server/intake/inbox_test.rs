use std::time::Duration;

use jute::Record as _;
use jute::protocol::{
    AddWatchMode, AddWatchRequest, EphemeralsRequest, SetDataRequest, SetWatchesRequest,
    WatchRequest, put_frame,
};

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
        put_frame(&mut inbox.bytes, |out| {
            RequestHeader { xid: 1, op: op.code() }.encode(out);
            body(out);
        });
    };
    for _ in 0..2 {
        put(OpCode::SetData, &|out| set.encode(out));
        put(OpCode::Ping, &|_| {});
        put(OpCode::GetData, &|out| get.encode(out));
    }
    let queued = || server.queue.take(Duration::ZERO).submissions.len();
    assert_eq!((inbox.process(&connection, &mut None), queued()), (Step::Drain, 2));
    assert_eq!((inbox.process(&connection, &mut None), queued()), (Step::Drain, 0));
    (0..2).for_each(|_| connection.answered());
    assert_eq!((inbox.process(&connection, &mut None), queued()), (Step::NeedsRound, 0));
}

#[tokio::test]
async fn an_answer_that_is_too_old_by_now_is_not_told_and_those_before_it_are() {
    let (_dir, server) = showing("", |database| Replica::of_member(database, 1000));
    let (_client, connection) = connected(&server).await;
    attach(&connection);
    let (told, received) = (connection.outbox().len(), server.clock.monotonic());
    let mut reads = Reads::default();
    let mut answers = Answers::new(&connection, &server, received, None, &mut reads);
    let get = Request::GetData(WatchRequest { path: "/".into(), watch: false });
    assert_eq!(answers.take(1, &get), None);
    assert!(!answers.publish());
    drop(answers);
    assert_eq!((connection.outbox().is_ended(), connection.outbox().len()), (true, told));
    assert_eq!(server.stats.series.total(Counter::ReadsTooOldClosed), 1);
}

#[tokio::test]
async fn a_read_that_waits_for_a_round_takes_as_long() {
    const WAITED_MS: u64 = 50;
    let (_dir, server) = showing("", |database| Replica::of_member(database, 60_000));
    let (_client, connection) = connected(&server).await;
    attach(&connection);
    let mut inbox = Inbox::new(Arc::clone(&server));
    let get = WatchRequest { path: "/".into(), watch: false };
    put_frame(&mut inbox.bytes, |out| {
        RequestHeader { xid: 1, op: OpCode::GetData.code() }.encode(out);
        get.encode(out);
    });
    assert_eq!(inbox.process(&connection, &mut None), Step::NeedsRound);
    let end = server.clock.monotonic().plus(WAITED_MS);
    while server.clock.monotonic() < end {
        assert_eq!(inbox.process(&connection, &mut None), Step::NeedsRound);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.replica.shows(end);
    assert_eq!(inbox.process(&connection, &mut None), Step::NeedsBytes);
    let latency = server.stats.latency();
    assert_eq!(latency.count, 1);
    assert!(latency.max >= WAITED_MS, "{latency:?}");
    // What comes later has not waited.
    assert!(inbox.came.is_none());
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
        put_frame(&mut inbox.bytes, |out| request.encode(out));
        match inbox.process(connection, &mut None) {
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
        put_frame(&mut inbox.bytes, |out| {
            RequestHeader { xid, op: OpCode::SetData.code() }.encode(out);
            set.encode(out);
        });
    }
    assert!(matches!(inbox.process(own, &mut None), Step::NeedsRoom(_)));
    let queued = server.queue.take(Duration::ZERO).submissions;
    let is_open = |its: &Submission| matches!(its.work, Work::Open { .. });
    assert_eq!((queued.iter().take_while(|its| is_open(its)).count(), queued.len()), (10, 50));
}

#[test]
fn what_may_look_at_much_and_answer_little_has_a_hold_for_itself() {
    let many = |request: &Request<'_>| {
        let mut holds = 1;
        let mut spent = 0;
        for _ in 0..640 {
            if spent >= ANSWERS_A_HOLD {
                (holds, spent) = (holds + 1, 0);
            }
            spent += share_of_hold(request);
        }
        holds
    };
    let path = "/none/of/them";
    let read = Request::GetData(WatchRequest { path: path.into(), watch: false });
    assert_eq!(many(&read), 10);
    // However many ephemeral znodes the session has, each is held against the path.
    assert_eq!(many(&Request::GetEphemerals(EphemeralsRequest { path: path.into() })), 640);
    let again = SetWatchesRequest {
        relative_zxid: 0,
        data_watches: vec![path.into()],
        exist_watches: vec![],
        child_watches: vec![],
    };
    assert_eq!(many(&Request::SetWatches(again)), 640);
    // To find a znode every byte of its path is hashed.
    let path = format!("/{}", "x".repeat(64 * ANSWERS_A_HOLD));
    let body = || WatchRequest { path: path.as_str().into(), watch: false };
    assert_eq!(many(&Request::GetData(body())), 640);
    assert_eq!(many(&Request::Exists(body())), 640);
    assert_eq!(many(&Request::MultiRead(vec![ReadOp::GetData(path.as_str().into())])), 640);
    let add = AddWatchRequest { path: path.as_str().into(), mode: AddWatchMode::Persistent };
    assert_eq!(many(&Request::AddWatch(add)), 640);
    let few = vec![ReadOp::GetData("/a".into()); 7];
    assert_eq!(many(&Request::MultiRead(few)), 80);
}
