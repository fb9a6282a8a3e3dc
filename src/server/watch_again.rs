//! A setWatches of many paths: some are watched under one hold, and in between everybody else has a turn.

use std::io;

use bytes::BytesMut;
use jute::protocol::{LENGTH_LEN, Request, RequestHeader, Response, put_event, put_reply};

use super::connection::Connection;
use super::figures::series::Counter;
use super::inbox::Inbox;
use super::shared::Server;
use crate::engine::read::Most;
use crate::engine::time::Monotonic;
use crate::engine::watch::NoRoom;
use crate::engine::watch_again::WatchAgain;
use crate::ensemble::Fresh;

/// Answers the setWatches that is first in `inbox`, unless the connection ends before. What changed meanwhile is told before
/// it, and once.
pub(super) async fn answer(
    connection: &Connection,
    server: &Server,
    inbox: &mut Inbox,
) -> io::Result<()> {
    let received = server.clock.monotonic();
    let Some(frame) = inbox.take_first(connection) else {
        connection.close();
        return Ok(());
    };
    let request = jute::decode::<RequestHeader>(&frame)
        .and_then(|(header, body)| Ok((header.xid, Request::decode(header.op, body)?)));
    let Ok((xid, request)) = request else {
        connection.close();
        return Ok(());
    };
    let Some(mut again) = WatchAgain::of(&request) else {
        connection.close();
        return Ok(());
    };
    loop {
        match advance(connection, server, xid, &mut again, received) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(Untold) => {
                connection.close();
                return Ok(());
            }
        }
        let turn_of_others = tokio::task::yield_now();
        if connection.wait_for(server, inbox, turn_of_others).await?.is_none() {
            return Ok(());
        }
    }
}

/// What is not watched for want of memory, or is too old to be told, ends the connection: the client catches up on its next one.
struct Untold;

/// Watches some further paths under a hold, and answers behind the last of them; whether it did.
fn advance(
    connection: &Connection,
    server: &Server,
    xid: i32,
    again: &mut WatchAgain<'_>,
    received: Monotonic,
) -> Result<bool, Untold> {
    let (mut events, mut out) = (Vec::new(), BytesMut::new());
    let hold = server.replica.shared();
    let most = Most::USUAL.watched_again;
    let advanced = again.advance(&hold, connection.id(), most, &mut events);
    let is_done = advanced.map_err(|NoRoom| Untold)?;
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
    let fresh = server.replica.fresh(&hold, true, || now).ok_or(Untold)?;
    // Before the hold ends: what fires from here on comes behind it.
    connection.outbox().put_answers(&mut out, None, fresh);
    drop(hold);
    connection.caught_up(server, events.len() as u64, bytes as u64);
    server.connections.shed(connection);
    if is_done {
        let times = (received, now);
        connection.answered_here(server, zxid, 1, times, Fresh::NOTHING_READ);
        server.stats.record_response_size(len, len, len);
        server.stats.series.count(Counter::ResponseBytes, len as u64);
    }
    Ok(is_done)
}
