use jute::protocol::{
    AddWatchMode, AddWatchRequest, EphemeralsRequest, SetWatchesRequest, WatchRequest,
};

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
