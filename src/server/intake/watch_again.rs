//! A setWatches of many paths: some are watched under one hold, and in between everybody else has a
//! turn.

use std::io;

use bytes::BytesMut;
use jute::protocol::{LENGTH_LEN, Request, Response, put_event, put_reply};

use super::drive;
use super::inbox::Inbox;
use crate::engine::answer::read::Most;
use crate::engine::answer::watch_again::WatchAgain;
use crate::engine::time::Monotonic;
use crate::ensemble::Fresh;
use crate::server::client::connection::Connection;
use crate::server::figures::series::Counter;
use crate::server::intake::rooms::{RoomOf, SMALL_MAX};
use crate::server::shared::Server;

/// What a path of one byte takes decoded, as a multiple: a long request takes room for it before.
const DECODED: usize = 6;

/// Answers the setWatches that is first in `inbox`, unless the connection ends before. What changed
/// meanwhile is told before it, and once.
pub(in crate::server) async fn answer(
    connection: &Connection,
    server: &Server,
    inbox: &mut Inbox,
) -> io::Result<()> {
    let received = inbox.take_came();
    let Some((header, body)) = inbox.take_first(connection) else {
        connection.close();
        return Ok(());
    };
    let _room = if body.len() > SMALL_MAX {
        let share =
            server.intake.rooms.share_of(RoomOf::Connects, body.len().saturating_mul(DECODED));
        let taken =
            drive::wait_for(connection, server, inbox, server.intake.rooms.take(share)).await?;
        let Some(taken) = taken else { return Ok(()) };
        taken
    } else {
        None
    };
    let Ok(request) = Request::decode(header.op, &body) else {
        connection.close();
        return Ok(());
    };
    let Some(mut again) = WatchAgain::of(&request) else {
        connection.close();
        return Ok(());
    };
    loop {
        if !server.is_fresh(connection) {
            if !drive::wait_for_round(connection, server, inbox).await? {
                return Ok(());
            }
            continue;
        }
        if advance(connection, server, header.xid, &mut again, received) != Advanced::Some {
            return Ok(());
        }
        let turn_of_others = tokio::task::yield_now();
        if drive::wait_for(connection, server, inbox, turn_of_others).await?.is_none() {
            return Ok(());
        }
    }
}

/// How far a setWatches came under a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advanced {
    /// There are further paths.
    Some,
    Answered,
    /// What is not watched for want of memory, or is too old to be told, ends the connection after
    /// what it was told, under the hold: no later event comes first. The client catches up on its
    /// next one.
    Ended,
}

/// Watches some further paths under a hold, and answers after the last of them.
fn advance(
    connection: &Connection,
    server: &Server,
    xid: i32,
    again: &mut WatchAgain<'_>,
    received: Monotonic,
) -> Advanced {
    let (mut events, mut out) = (Vec::new(), BytesMut::new());
    let hold = server.replica.shared();
    let most = Most::USUAL.watched_again;
    let advanced = again.advance(&hold, connection.id(), most, &mut events);
    let Ok(is_done) = advanced else {
        connection.end();
        return Advanced::Ended;
    };
    for event in &events {
        put_event(&mut out, event.zxid.0, event.event_type, &event.path);
    }
    let bytes = out.len() - events.len() * LENGTH_LEN;
    let zxid = hold.last_zxid();
    let before = out.len() + LENGTH_LEN;
    if is_done {
        put_reply(&mut out, xid, zxid.0, &Response::Empty);
    }
    let len = out.len().saturating_sub(before);
    let now = server.clock.monotonic();
    let Some(fresh) = server.fresh(connection, &hold, true, || now) else {
        server.connections.end_too_old(connection);
        return Advanced::Ended;
    };
    // Before the hold ends: what fires from here on comes after it.
    connection.outbox().put_answers(&mut out, None, fresh);
    drop(hold);
    connection.caught_up(&server.stats, events.len() as u64, bytes as u64);
    server.connections.shed(connection);
    if is_done {
        let times = (received, now);
        connection.answered_here(&server.stats, zxid, 1, times, Fresh::NOTHING_READ);
        server.stats.record_response_size(len, len, len);
        server.stats.series.count(Counter::ResponseBytes, len as u64);
    }
    if is_done { Advanced::Answered } else { Advanced::Some }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jute::protocol::{RequestHeader, SetWatchesRequest, put_frame};
    use jute::{OpCode, Record as _};
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::ensemble::Replica;
    use crate::server::fixture::{attach, connected};
    use crate::server::{showing, without_orderer};

    /// A member whose state is too old so far.
    fn member() -> (tempfile::TempDir, Arc<Server>) {
        showing("", |database| Replica::of_member(database, 60_000))
    }

    /// For some holds.
    fn request() -> SetWatchesRequest<'static> {
        let paths = 0..2 * Most::USUAL.watched_again + 1;
        SetWatchesRequest {
            relative_zxid: 0,
            data_watches: vec![],
            exist_watches: paths.map(|path| format!("/{path}").into()).collect(),
            child_watches: vec![],
        }
    }

    /// It ends after what it was told before. How many connections did because that would have
    /// been too old.
    async fn ends(server: &Server) -> u64 {
        let (_client, connection) = connected(server).await;
        attach(&connection);
        let told = connection.outbox().len();
        let request = Request::SetWatches(request());
        let mut again = WatchAgain::of(&request).expect("it is one");
        let advanced = advance(&connection, server, 1, &mut again, Monotonic(0));
        assert_eq!(advanced, Advanced::Ended);
        assert_eq!((connection.outbox().is_ended(), connection.outbox().len()), (true, told));
        server.stats.series.total(Counter::ReadsTooOldClosed)
    }

    #[tokio::test]
    async fn what_is_too_old_ends_the_connection_behind_what_was_told() {
        let (_dir, server) = member();
        assert_eq!(ends(&server).await, 1);
    }

    #[tokio::test]
    async fn what_has_no_room_ends_the_connection_behind_what_was_told() {
        let (_dir, server) = without_orderer("");
        server.replica.shared().watches().lock().set_most(0);
        assert_eq!(ends(&server).await, 0);
    }

    #[tokio::test]
    async fn it_waits_for_a_round_and_is_answered_behind_it() {
        let (_dir, server) = member();
        let (mut client, connection) = connected(&server).await;
        attach(&connection);
        let told = connection.outbox().len();
        let mut frame = BytesMut::new();
        put_frame(&mut frame, |out| {
            RequestHeader { xid: 1, op: OpCode::SetWatches.code() }.encode(out);
            request().encode(out);
        });
        let mut inbox = Inbox::holding(Arc::clone(&server), frame);
        let round = async {
            while !server.intake.queue.take(Duration::ZERO).wants_round {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(!connection.outbox().is_ended());
            server.replica.shows(server.clock.monotonic());
        };
        let both = async { tokio::join!(answer(&connection, &server, &mut inbox), round) };
        let in_time = tokio::time::timeout(Duration::from_secs(20), both).await;
        in_time.expect("it comes to an end").0.expect("the socket is there");
        assert!(!connection.outbox().is_ended());
        connection.send_some();
        drop(connection);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.expect("it ends");
        let mut reply = BytesMut::new();
        put_reply(&mut reply, 1, 0, &Response::Empty);
        assert_eq!(all.get(told..), Some(&*reply));
    }
}
