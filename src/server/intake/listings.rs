//! Long listings, of children and of ephemeral znodes: one is made at a time, in pieces between
//! which everybody else has a turn, and sent in pieces, too.
//!
//! Those who ask for the same one while it is being sent share it.

use std::io;
use std::sync::{Arc, Weak};

use bytes::BytesMut;
use jute::protocol::{LENGTH_LEN, ReplyHeader, Request, RequestHeader, WatchRequest, put_refusal};
use jute::{ErrorCode, IntoStatic as _, Record as _};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::drive;
use super::inbox::Inbox;
use crate::engine::answer::listing::{EphemeralListing, List, Listing, Progress};
use crate::engine::answer::read;
use crate::engine::answer::read::Caller;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Fresh, Shared};
use crate::server::client::connection::Connection;
use crate::server::client::long_list::{LongList, Sending};
use crate::server::client::unread::Claim;
use crate::server::figures::hot_paths::Sample;
use crate::server::figures::namespace::Reads;
use crate::server::figures::series::Counter;
use crate::server::shared::Server;

/// Children that are listed under one hold: some 50 us.
const CHILDREN_A_HOLD: usize = 512;
/// Bytes of paths that are written for ephemeral znodes under one hold.
const EPHEMERALS_A_HOLD: usize = 128 << 10;
/// How often a listing is begun in pieces. When the children have changed each time, it is made
/// under one hold; one of ephemeral znodes then has each that is there when it is looked at.
const ATTEMPTS: u32 = 4;

/// What those who list share.
#[derive(Debug)]
pub(in crate::server) struct Listings {
    making: Semaphore,
    pub(in crate::server) sending: Sending,
    /// What was made last, as long as somebody is sent it.
    last: Mutex<Weak<LongList>>,
}

impl Listings {
    pub(in crate::server) fn new() -> Self {
        Self { making: Semaphore::new(1), sending: Sending::new(), last: Mutex::default() }
    }

    async fn turn_to_make(&self) -> Option<SemaphorePermit<'_>> {
        self.making.acquire().await.ok()
    }
}

/// Answers the long listing, which is first in `inbox`, unless the connection ends before.
pub(in crate::server) async fn answer(
    connection: &Connection,
    server: &Server,
    inbox: &mut Inbox,
    listing: LongListing,
) -> io::Result<()> {
    let received = inbox.take_came();
    let answer = ListAnswer { connection, server, listing, received };
    let listings = &server.intake.listings;
    let turn = drive::wait_for(connection, server, inbox, listings.turn_to_make()).await?;
    let Some(mut turn) = turn else { return Ok(()) };
    let mut room = None;
    let mut begun = 0;
    let mut making = None;
    loop {
        if !server.is_fresh(connection) {
            // Others wait for the round beside this one, not after it.
            drop(turn);
            if !drive::wait_for_round(connection, server, inbox).await? {
                return Ok(());
            }
            let again = drive::wait_for(connection, server, inbox, listings.turn_to_make()).await?;
            let Some(again) = again else { return Ok(()) };
            turn = again;
            continue;
        }
        begun += u32::from(making.is_none());
        match answer.go_on(making.take(), begun > ATTEMPTS, &mut room) {
            Piece::Answered => {
                inbox.listed(connection, &answer.listing);
                return Ok(());
            }
            Piece::TooOld => return Ok(()),
            Piece::Changed => {}
            Piece::More(listing) => {
                // Those that come later may be longer: then it is begun again, with room for twice
                // as much as it had.
                let has_room = room.is_some();
                let needed = if has_room { 2 * listing.len() } else { listing.expected_len() };
                if room.as_ref().is_some_and(|room| room.is_enough_for(listing.len())) {
                    making = Some(listing);
                } else {
                    drop(room.take());
                    room = server.connections.unread().try_take(needed);
                    if !has_room || room.is_some() {
                        making = Some(listing);
                    } else {
                        begun -= 1;
                    }
                    if room.is_none() {
                        // Smaller lists do not wait behind this one.
                        drop(turn);
                        let wait = server.connections.room(needed);
                        room = drive::wait_for(connection, server, inbox, wait).await?;
                        if room.is_none() {
                            return Ok(());
                        }
                        let again = listings.turn_to_make();
                        let again = drive::wait_for(connection, server, inbox, again).await?;
                        let Some(again) = again else { return Ok(()) };
                        turn = again;
                    }
                }
            }
        }
        // Others have a turn.
        let turn_of_others = tokio::task::yield_now();
        if drive::wait_for(connection, server, inbox, turn_of_others).await?.is_none() {
            return Ok(());
        }
    }
}

/// What came of a piece.
enum Piece {
    More(Making),
    Changed,
    Answered,
    /// Nobody is told it, and the connection ends.
    TooOld,
}

/// What is being made.
enum Making {
    Children(Listing),
    /// With the time until which the first piece may be told.
    Ephemerals(EphemeralListing, Monotonic),
}

impl Making {
    fn len(&self) -> usize {
        match self {
            Self::Children(its) => its.len(),
            Self::Ephemerals(its, _) => its.len(),
        }
    }

    fn expected_len(&self) -> usize {
        match self {
            Self::Children(its) => its.expected_len(),
            Self::Ephemerals(its, _) => its.expected_len(),
        }
    }
}

/// A long listing that a client asked for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct LongListing {
    xid: i32,
    what: What,
    /// Its path, to be counted when it is answered.
    pub(super) sample: Option<Sample>,
}

impl LongListing {
    /// `None` for what is no listing.
    pub(super) fn of(header: &RequestHeader, request: &Request<'_>) -> Option<Self> {
        let with_stat = matches!(request, Request::GetChildren2(_));
        let what = match request {
            Request::GetChildren(body) | Request::GetChildren2(body) => {
                What::Children { body: body.clone().into_static(), with_stat }
            }
            Request::GetEphemerals(body) => {
                What::Ephemerals { prefix: body.path.clone().into_owned() }
            }
            _ => return None,
        };
        Some(Self { xid: header.xid, what, sample: Sample::of(request) })
    }
}

/// Of what.
#[derive(Debug, PartialEq, Eq)]
enum What {
    Children { body: WatchRequest<'static>, with_stat: bool },
    Ephemerals { prefix: String },
}

/// The answer to it.
struct ListAnswer<'a> {
    connection: &'a Connection,
    server: &'a Server,
    listing: LongListing,
    received: Monotonic,
}

impl ListAnswer<'_> {
    /// Goes on under a hold. With the last piece the answer goes into the outbox before the hold
    /// ends.
    fn go_on(&self, making: Option<Making>, is_last: bool, room: &mut Option<Claim>) -> Piece {
        match (&self.listing.what, making) {
            (What::Children { body, with_stat }, making) => {
                let making = match making {
                    Some(Making::Children(listing)) => Some(listing),
                    _ => None,
                };
                let most = if is_last { usize::MAX } else { CHILDREN_A_HOLD };
                self.children(body, *with_stat, making, most, room)
            }
            (What::Ephemerals { prefix }, making) => {
                let making = match making {
                    Some(Making::Ephemerals(listing, until)) => Some((listing, until)),
                    _ => None,
                };
                self.ephemerals(prefix, making, !is_last, room)
            }
        }
    }

    /// Lists further ephemeral znodes.
    fn ephemerals(
        &self,
        prefix: &str,
        making: Option<(EphemeralListing, Monotonic)>,
        is_instant: bool,
        room: &mut Option<Claim>,
    ) -> Piece {
        let hold = self.server.replica.shared();
        let session = self.connection.session_id();
        let begin = || EphemeralListing::begin(&hold, session, prefix);
        let (listing, until) =
            making.unwrap_or_else(|| (begin(), self.server.fresh_until(self.connection)));
        // Without an instant of its own, it is as old as what was looked at first.
        let is_too_old = || !is_instant && self.server.clock.monotonic() >= until;
        if is_too_old() {
            return self.end();
        }
        match listing.advance(&hold, CHILDREN_A_HOLD, EPHEMERALS_A_HOLD, is_instant) {
            Progress::More(listing) => Piece::More(Making::Ephemerals(listing, until)),
            Progress::Changed => Piece::Changed,
            Progress::Done(list) => {
                let list = Arc::new(self.long_list(list, room));
                if is_too_old() {
                    return self.end();
                }
                let Some((zxid, len)) = self.put(&hold, list, &[]) else { return Piece::TooOld };
                drop(hold);
                self.finish(zxid, len, prefix);
                Piece::Answered
            }
        }
    }

    /// A list with its room.
    fn long_list(&self, list: List, room: &mut Option<Claim>) -> LongList {
        let unread = self.server.connections.unread();
        let mut room = room.take().unwrap_or_else(|| unread.take(list.len()));
        room.resize(list.len());
        LongList::new(list, room)
    }

    /// Lists further children.
    fn children(
        &self,
        body: &WatchRequest<'static>,
        with_stat: bool,
        making: Option<Listing>,
        most: usize,
        room: &mut Option<Claim>,
    ) -> Piece {
        let identities = self.connection.identities();
        let caller = Caller {
            connection: self.connection.id(),
            session: self.connection.session_id(),
            identities: &identities,
        };
        let hold = self.server.replica.shared();
        let parent = match read::parent(&hold, &caller, body) {
            Ok(parent) => parent,
            Err(error) => {
                return self.refuse(&hold, error);
            }
        };
        let mut last = self.server.intake.listings.last.lock();
        let list = match last.upgrade() {
            Some(list) if list.list().is_current(&hold, parent) => list,
            _ => {
                let listing = making.unwrap_or_else(|| Listing::begin(&hold, parent));
                match listing.advance(&hold, parent, most) {
                    Progress::More(listing) => return Piece::More(Making::Children(listing)),
                    Progress::Changed => return Piece::Changed,
                    Progress::Done(list) => {
                        let list = Arc::new(self.long_list(list, room));
                        *last = Arc::downgrade(&list);
                        list
                    }
                }
            }
        };
        drop(last);
        if let Err(error) = read::watch_children(&hold, &caller, body) {
            return self.refuse(&hold, error);
        }
        let mut tail = BytesMut::new();
        if with_stat {
            hold.tree().stat(parent).encode(&mut tail);
        }
        let names_len = list.list().names_len();
        let Some((zxid, len)) = self.put(&hold, list, &tail) else { return Piece::TooOld };
        drop(hold);
        Reads::default().count(&self.server.stats.series, &body.path, names_len);
        self.finish(zxid, len, &body.path);
        Piece::Answered
    }

    /// Puts the answer into the outbox; of which zxid it is, and how long. None where it is too old
    /// by now and the connection ends.
    fn put(&self, hold: &Shared<'_>, list: Arc<LongList>, tail: &[u8]) -> Option<(Zxid, usize)> {
        let fresh = self.fresh(hold)?;
        let zxid = hold.last_zxid();
        let (mut head, mut header) = (BytesMut::new(), BytesMut::new());
        ReplyHeader { xid: self.listing.xid, zxid: zxid.0, err: 0 }.encode(&mut header);
        let len = header.len() + list.list().len() + tail.len();
        i32::try_from(len).unwrap_or(i32::MAX).encode(&mut head);
        head.unsplit(header);
        self.connection.outbox().put_list(&head, list, tail, fresh);
        Some((zxid, len))
    }

    fn fresh<'h>(&self, hold: &'h Shared<'_>) -> Option<Fresh<'h>> {
        let now = || self.server.clock.monotonic();
        let fresh = self.server.fresh(self.connection, hold, true, now);
        if fresh.is_none() {
            self.end();
        }
        fresh
    }

    /// Ends the connection after what it was told; under the hold, so that no watch that was left
    /// fires first.
    fn end(&self) -> Piece {
        self.server.connections.end_too_old(self.connection);
        Piece::TooOld
    }

    fn finish(&self, zxid: Zxid, len: usize, path: &str) {
        self.server.connections.made(self.connection, len, || Some(path), self.received);
        self.count(zxid, len);
    }

    fn refuse(&self, hold: &Shared<'_>, error: ErrorCode) -> Piece {
        let Some(fresh) = self.fresh(hold) else { return Piece::TooOld };
        let zxid = hold.last_zxid();
        let mut out = BytesMut::new();
        put_refusal(&mut out, self.listing.xid, zxid.0, error);
        let len = out.len() - LENGTH_LEN;
        self.connection.outbox().put_answers(&mut out, None, fresh);
        self.count(zxid, len);
        Piece::Answered
    }

    fn count(&self, zxid: Zxid, len: usize) {
        let times = (self.received, self.server.clock.monotonic());
        self.connection.answered_here(&self.server.stats, zxid, 1, times, Fresh::NOTHING_READ);
        self.server.stats.record_response_size(len, len, len);
        self.server.stats.series.count(Counter::ResponseBytes, len as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jute::protocol::{EphemeralsRequest, RequestHeader, put_frame};
    use jute::{OpCode, StatPersisted};
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::ensemble::Replica;
    use crate::server::fixture::{attach, connected};
    use crate::server::showing;

    const LIMIT_MS: u64 = 1000;

    /// A member whose state is too old so far, and may be so old. Session 1 has ephemeral znodes
    /// for some pieces.
    fn member(limit_ms: u64) -> (tempfile::TempDir, Arc<Server>) {
        showing("", |mut database| {
            let stat = StatPersisted { ephemeral_owner: 1, ..StatPersisted::default() };
            let node = jute::persist::SnapshotNode { data: None, acl: -1, stat };
            for number in 0..4 * CHILDREN_A_HOLD {
                database.load_node(&format!("/{number}"), &node).expect("a znode");
            }
            Replica::of_member(database, limit_ms)
        })
    }

    /// What a client asks for, of either kind.
    fn frames() -> [BytesMut; 2] {
        let children = WatchRequest { path: "/".into(), watch: false };
        let ephemerals = EphemeralsRequest { path: "/".into() };
        let mut frames = [BytesMut::new(), BytesMut::new()];
        let mut put = |number: usize, op: OpCode, body: &dyn Fn(&mut BytesMut)| {
            put_frame(&mut frames[number], |out| {
                RequestHeader { xid: 1, op: op.code() }.encode(out);
                body(out);
            });
        };
        put(0, OpCode::GetChildren, &|out| children.encode(out));
        put(1, OpCode::GetEphemerals, &|out| ephemerals.encode(out));
        frames
    }

    fn listing_in(frame: &[u8]) -> LongListing {
        let (header, body) = jute::decode::<RequestHeader>(&frame[LENGTH_LEN..]).expect("a header");
        let request = Request::decode(header.op, body).expect("a request");
        LongListing::of(&header, &request).expect("it is one")
    }

    /// The first piece is too old before the last one is made, and a round is over between. With
    /// how many pieces were looked at.
    async fn last_step(is_last_attempt: bool) -> (Piece, usize, usize) {
        let (_dir, server) = member(LIMIT_MS);
        let (_client, connection) = connected(&server).await;
        attach(&connection);
        let before = connection.outbox().len();
        let (replica, received) = (&server.replica, server.clock.monotonic());
        // From when its clock began.
        replica.shows(Monotonic(0));
        let what = What::Ephemerals { prefix: String::new() };
        let listing = LongListing { xid: 1, what, sample: None };
        let answer = ListAnswer { connection: &connection, server: &server, listing, received };
        let mut step = answer.go_on(None, is_last_attempt, &mut None);
        while replica.is_fresh(server.clock.monotonic()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        replica.shows(server.clock.monotonic());
        let mut pieces = 1;
        while let Piece::More(making) = step {
            pieces += 1;
            assert!(pieces <= 6);
            step = answer.go_on(Some(making), is_last_attempt, &mut None);
        }
        (step, pieces, connection.outbox().len() - before)
    }

    /// All of one instant are as old as the last piece, and else as the first.
    #[tokio::test]
    async fn a_list_is_told_only_as_long_as_its_oldest_piece_is_young() {
        let (step, pieces, len) = last_step(true).await;
        assert!(matches!(step, Piece::TooOld));
        assert_eq!((pieces, len), (2, 0), "nobody is told the rest, and it is not made");
        let (step, pieces, len) = last_step(false).await;
        assert!(matches!(step, Piece::Answered));
        assert!(pieces > 2 && len > 4 * CHILDREN_A_HOLD);
    }

    /// While it waits, another one can be made.
    #[tokio::test]
    async fn a_list_that_would_be_too_old_waits_for_a_round_before_it_is_made() {
        for frame in frames() {
            let (_dir, server) = member(60_000);
            let (_client, connection) = connected(&server).await;
            attach(&connection);
            let before = connection.outbox().len();
            let listing = listing_in(&frame);
            let mut inbox = Inbox::holding(Arc::clone(&server), frame);
            let round = async {
                while !server.intake.queue.take(Duration::ZERO).wants_round {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                assert_eq!(server.intake.listings.making.available_permits(), 1);
                assert!(server.intake.listings.last.lock().strong_count() == 0, "it was made");
                server.replica.shows(server.clock.monotonic());
            };
            let both =
                async { tokio::join!(answer(&connection, &server, &mut inbox, listing), round) };
            let in_time = tokio::time::timeout(Duration::from_secs(20), both).await;
            in_time.expect("it comes to an end").0.expect("the socket is there");
            assert!(!connection.outbox().is_ended());
            assert!(connection.outbox().len() > before + 4 * CHILDREN_A_HOLD);
            assert_eq!(server.stats.series.total(Counter::ReadsTooOldWaited), 1);
        }
    }

    #[tokio::test]
    async fn a_list_that_is_too_old_by_now_ends_the_connection_behind_what_was_told() {
        let (_dir, server) = member(LIMIT_MS);
        for frame in frames() {
            let (_client, connection) = connected(&server).await;
            attach(&connection);
            let before = connection.outbox().len();
            let listing = listing_in(&frame);
            let received = server.clock.monotonic();
            let answer = ListAnswer { connection: &connection, server: &server, listing, received };
            let mut step = answer.go_on(None, false, &mut None);
            while let Piece::More(making) = step {
                step = answer.go_on(Some(making), false, &mut None);
            }
            assert!(matches!(step, Piece::TooOld));
            assert_eq!((connection.outbox().is_ended(), connection.outbox().len()), (true, before));
        }
    }

    #[tokio::test]
    async fn a_list_that_stays_too_old_ends_the_connection_and_is_not_made() {
        let (_dir, server) = member(LIMIT_MS);
        for frame in frames() {
            let (mut client, connection) = connected(&server).await;
            attach(&connection);
            let before = connection.outbox().len();
            let listing = listing_in(&frame);
            let mut inbox = Inbox::holding(Arc::clone(&server), frame);
            let answered = answer(&connection, &server, &mut inbox, listing);
            let in_time = tokio::time::timeout(Duration::from_secs(20), answered).await;
            in_time.expect("it comes to an end").expect("the socket is there");
            assert!(connection.outbox().is_ended());
            connection.send_some();
            drop(connection);
            let mut told = Vec::new();
            client.read_to_end(&mut told).await.expect("it ends");
            assert_eq!(told.len(), before, "that it has its session");
        }
    }
}
