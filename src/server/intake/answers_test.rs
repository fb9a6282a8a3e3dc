use jute::protocol::{
    AddWatchMode, AddWatchRequest, EphemeralsRequest, ReplyHeader, SetWatchesRequest, WatchRequest,
};
use tokio::io::AsyncReadExt as _;

use super::*;
use crate::ensemble::Replica;
use crate::server::fixture::{attach, connected};
use crate::server::showing;

#[tokio::test]
async fn an_answer_that_is_too_old_by_now_is_not_told_and_those_before_it_are() {
    let (_dir, server) = showing("", |database| Replica::of_member(database, 1000));
    let (_client, connection) = connected(&server).await;
    attach(&connection);
    let (told, received) = (connection.outbox().len(), server.clock.monotonic());
    let mut reads = Reads::default();
    let mut answers = Answers::new(&connection, &server, received, None, &mut reads);
    let get = Request::GetData(WatchRequest { path: "/".into(), watch: false });
    assert_eq!(
        answers.take(&RequestHeader { xid: 1, op: OpCode::GetData.code() }, Effect::of(&get), &get),
        None
    );
    assert!(!answers.publish());
    drop(answers);
    assert_eq!((connection.outbox().is_ended(), connection.outbox().len()), (true, told));
    assert_eq!(server.stats.series.total(Counter::ReadsTooOldClosed), 1);
}

/// Its client would not be told of events up to there when it sets its watches again, and has not
/// seen them.
#[tokio::test]
async fn what_is_refused_shows_no_transaction_whose_events_are_still_to_come() {
    let (_dir, server) = showing("", Replica::new);
    let (mut client, connection) = connected(&server).await;
    attach(&connection);
    connection.socket().writable().await.expect("it is there");
    connection.send_some();
    let mut frame = [0; LENGTH_LEN + 37];
    client.read_exact(&mut frame[..LENGTH_LEN + 36]).await.expect("the session");
    let shown = server.replica.applied();
    server.replica.publish_ahead(Zxid(shown.0 + 1));
    let mut reads = Reads::default();
    let received = server.clock.monotonic();
    let mut answers = Answers::new(&connection, &server, received, None, &mut reads);
    answers.refuse_shown(7, ErrorCode::NotReadOnly);
    assert!(answers.publish());
    drop(answers);
    connection.send_some();
    let reply = &mut frame[..LENGTH_LEN + 16];
    client.read_exact(reply).await.expect("the reply");
    let (header, _) = jute::decode::<ReplyHeader>(&reply[LENGTH_LEN..]).expect("a header");
    assert_eq!((header.xid, header.zxid, header.err), (7, shown.0, -119));
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
