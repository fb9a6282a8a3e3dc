//! What waits to be sent on one connection.
//!
//! Whoever finds something to send while nobody else is sending, sends; others only append. So an
//! append never waits for a socket. What waits counts in the budget of all connections
//! ([`Unread`]), by the memory that it takes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};

use super::long_list::LongList;
use super::unread::{Claim, Rank, Unread};
use crate::engine::watch::ConnectionId;
use crate::ensemble::Fresh;

/// Answers that may wait for a client before no more requests of it are read.
pub(super) const OUTBOX_MAX: usize = 1 << 20;
/// Events that may wait for a client before its connection is closed: it reconnects and asks what
/// it missed. Never more than a quarter of what may wait for all.
pub(super) const EVENTS_MAX: usize = 64 << 20;

/// A client reads where its socket takes so much, or a sixteenth of what waits where that is more.
/// Whoever takes less now and then stands still.
const SHARE_LEAST: usize = 64 << 10;
const SHARE_OF_ALL: usize = 16;

/// Bytes of a long list that are sent in one turn.
const LIST_A_TURN: usize = 128 << 10;
/// What waits stands in pieces of about this length: none is moved again, and each is given back
/// once it is sent.
const PIECE: usize = 64 << 10;
/// Events above this length are not copied for each who is told.
const LONG_EVENT: usize = 4 << 10;
/// What such an event takes with each: there can be twice as many places as are used.
const PLACE: usize = 2 * size_of::<Piece>();
/// Answers of this length are not copied into the outbox.
const MOVED: usize = 16 << 10;

#[derive(Debug, Default)]
struct Waiting {
    /// What goes first.
    ahead: Option<Box<Ahead>>,
    bytes: BytesMut,
    /// Someone has taken the bytes ahead of these and is sending them.
    sending: bool,
    /// Bytes that the sender has in hand, and the memory that they take.
    in_hand: usize,
    in_hand_held: usize,
    /// Nothing of it is sent before this number is reached, that of an entry of the audit log; 0
    /// waits for none.
    behind: u64,
    /// Nothing is accepted any more; what waits is still sent.
    ended: bool,
    /// Nothing is sent any more either.
    abandoned: bool,
    /// Someone was told that another is sending, and may sleep until that one is done.
    awaited: bool,
    /// What the budget counts for all this.
    counted: usize,
    /// Where this stands among those that are not read.
    rank: Option<Rank>,
    /// How long it had stood there before it had to wait for a turn or the disk of the server's.
    stood: Duration,
    /// Bytes that the socket took, less than its share.
    taken: usize,
}

/// What waits ahead of the rest, in pieces.
#[derive(Debug, Default)]
struct Ahead {
    pieces: VecDeque<Piece>,
    /// Bytes of all.
    len: usize,
    /// Bytes of those that are no list's, and the memory that they take.
    own: usize,
    held: usize,
    /// So many of the first pieces end in a list, which the connection's task sends.
    listed: usize,
    /// A list stands in memory once for all who are sent it.
    list: Option<Arc<LongList>>,
}

/// Bytes, and the memory that they take here: none for those of a list, and a place for those of a
/// long event.
#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    held: usize,
    _event: Option<Arc<LongEvent>>,
}

/// The frame of an event with a long path: it stands in memory, and counts in the budget, once for
/// all who are told.
#[derive(Debug)]
pub(in crate::server) struct LongEvent {
    frame: Bytes,
    _room: Claim,
}

impl LongEvent {
    /// Takes the frame out of `frame`, with all that it stands in, if it is one that is worth it.
    pub(in crate::server) fn of(frame: &mut BytesMut, unread: &Arc<Unread>) -> Option<Arc<Self>> {
        let room = (frame.len() > LONG_EVENT).then(|| unread.take(frame.capacity()))?;
        Some(Arc::new(Self { frame: std::mem::take(frame).freeze(), _room: room }))
    }
}

impl Piece {
    const fn of(bytes: Bytes, held: usize) -> Self {
        Self { bytes, held, _event: None }
    }
}

/// The outbox.
#[derive(Debug)]
pub(in crate::server) struct Outbox {
    waiting: Mutex<Waiting>,
    owner: ConnectionId,
    unread: Arc<Unread>,
}

/// How a round of sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Sent {
    /// Nothing waits, or what does may not leave yet.
    All,
    /// The socket takes no more now.
    Blocked,
    /// Someone else is sending, and will take what waits along.
    Elsewhere,
    /// A long list is next, which the connection's task sends in pieces.
    List,
}

impl Ahead {
    fn push(&mut self, piece: Piece) {
        self.count(&piece);
        self.pieces.push_back(piece);
    }

    /// Puts a piece first that was first. What is ahead of a list is sent like it.
    fn push_front(&mut self, piece: Piece, of_list: bool) {
        self.count(&piece);
        self.pieces.push_front(piece);
        if of_list || self.listed > 0 {
            self.listed += 1;
        }
    }

    fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.listed = self.listed.saturating_sub(1);
        self.len -= piece.bytes.len();
        if piece.held > 0 {
            self.own -= piece.bytes.len();
            self.held -= piece.held;
        }
        Some(piece)
    }

    fn count(&mut self, piece: &Piece) {
        self.len += piece.bytes.len();
        if piece.held > 0 {
            self.own += piece.bytes.len();
            self.held += piece.held;
        }
    }
}

impl Waiting {
    fn len(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.len) + self.bytes.len() + self.in_hand
    }

    fn own_len(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.own) + self.bytes.len() + self.in_hand
    }

    /// The memory that it takes, but for what an idle connection keeps.
    fn held(&self) -> usize {
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead.held);
        ahead + self.in_hand_held + held_by(&self.bytes)
    }

    fn is_empty(&self) -> bool {
        self.ahead.is_none() && self.bytes.is_empty() && self.in_hand == 0
    }

    fn has_list(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.listed > 0)
    }

    fn ahead(&mut self) -> &mut Ahead {
        self.ahead.get_or_insert_default()
    }

    /// Nothing is appended any more to what waits now.
    fn end_piece(&mut self) {
        if !self.bytes.is_empty() {
            let held = held_by(&self.bytes);
            let bytes = std::mem::take(&mut self.bytes).freeze();
            self.ahead().push(Piece::of(bytes, held));
        }
    }

    fn abandon(&mut self) {
        self.ended = true;
        self.abandoned = true;
        self.ahead = None;
        self.bytes = BytesMut::new();
    }
}

/// The memory that a buffer takes for what is in it. One that is nearly empty is kept by the
/// connection for what comes next.
fn held_by(bytes: &BytesMut) -> usize {
    bytes.capacity().min(2 * bytes.len())
}

impl Outbox {
    /// That of a connection.
    pub(in crate::server) fn new(owner: ConnectionId, unread: Arc<Unread>) -> Self {
        Self { waiting: Mutex::default(), owner, unread }
    }

    /// Tells the budget what waits now, and how it stands: what the socket took, and whether it
    /// takes no more.
    fn count(&self, waiting: &mut Waiting, taken: usize, is_blocked: bool) {
        let (held, counted) = (waiting.held(), waiting.counted);
        if held > counted {
            self.unread.add(held - counted);
        } else if held < counted {
            self.unread.give_back(counted - held);
        }
        waiting.counted = held;
        waiting.taken += taken;
        let is_empty = waiting.is_empty();
        let has_read = is_empty || waiting.taken >= SHARE_LEAST.max(waiting.len() / SHARE_OF_ALL);
        if has_read {
            (waiting.taken, waiting.stood) = (0, Duration::ZERO);
        }
        if is_empty {
            if let Some(rank) = waiting.rank.take() {
                self.unread.leave(rank);
            }
        } else if waiting.rank.map_or(is_blocked, |_| has_read) {
            let stood = std::mem::take(&mut waiting.stood);
            waiting.rank = Some(self.unread.stall(waiting.rank, self.owner, stood));
        }
    }

    /// Nothing is sent until the server has a turn for it: no standstill of the client's.
    pub(in crate::server) fn pause(&self) {
        self.stand_aside(&mut self.waiting.lock());
    }

    fn stand_aside(&self, waiting: &mut Waiting) {
        if let Some(rank) = waiting.rank.take() {
            waiting.stood = self.unread.pause(rank);
        }
    }

    /// Appends what `write` writes; false once the outbox has ended.
    pub(in crate::server) fn put(&self, write: impl FnOnce(&mut BytesMut)) -> bool {
        self.append(&mut self.waiting.lock(), write)
    }

    /// The same for what leaves no sooner than `reached` has this number, and what is there and
    /// comes after it with it.
    pub(super) fn put_behind(
        &self,
        number: u64,
        reached: &AtomicU64,
        write: impl FnOnce(&mut BytesMut),
    ) -> bool {
        let mut waiting = self.waiting.lock();
        // Under the lock: who lets out what waits comes after this.
        if number > reached.load(Ordering::SeqCst) {
            waiting.behind = number;
        }
        self.append(&mut waiting, write)
    }

    /// Whether what waited for a number may leave now.
    pub(super) fn let_out(&self, reached: &AtomicU64) -> bool {
        let mut waiting = self.waiting.lock();
        let may_leave = waiting.behind > 0 && waiting.behind <= reached.load(Ordering::SeqCst);
        if may_leave {
            waiting.behind = 0;
        }
        may_leave
    }

    fn append(&self, waiting: &mut Waiting, write: impl FnOnce(&mut BytesMut)) -> bool {
        if waiting.ended {
            return false;
        }
        write(&mut waiting.bytes);
        if waiting.bytes.len() >= PIECE {
            waiting.end_piece();
        }
        self.count(waiting, 0, false);
        true
    }

    /// Appends an event. False if more of them wait than may.
    pub(in crate::server) fn put_event(&self, frame: &[u8]) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.ended {
            return true;
        }
        let len = waiting.bytes.len();
        if len >= PIECE / 2 && len + frame.len() > PIECE {
            waiting.end_piece();
        }
        waiting.bytes.extend_from_slice(frame);
        self.count(&mut waiting, 0, false);
        self.has_place_for_events(&waiting)
    }

    /// The same for one that others are told, too.
    pub(super) fn put_long_event(&self, event: &Arc<LongEvent>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.ended {
            return true;
        }
        waiting.end_piece();
        let (bytes, room) = (event.frame.clone(), Some(Arc::clone(event)));
        waiting.ahead().push(Piece { bytes, held: PLACE, _event: room });
        self.count(&mut waiting, 0, false);
        self.has_place_for_events(&waiting)
    }

    fn has_place_for_events(&self, waiting: &Waiting) -> bool {
        waiting.own_len() <= EVENTS_MAX.min(self.unread.quarter())
    }

    /// Appends answers, for which `taken` was taken, and leaves `answers` empty.
    pub(in crate::server) fn put_answers(
        &self,
        answers: &mut BytesMut,
        taken: Option<Claim>,
        _: Fresh<'_>,
    ) {
        let mut waiting = self.waiting.lock();
        if waiting.ended {
            answers.clear();
            return;
        }
        if answers.len() < MOVED {
            waiting.bytes.extend_from_slice(answers);
            answers.clear();
        } else {
            waiting.end_piece();
            let held = held_by(answers).min(self.unread.half());
            let bytes = std::mem::take(answers).freeze();
            waiting.ahead().push(Piece::of(bytes, held));
        }
        waiting.counted += taken.map_or(0, Claim::hand_over);
        self.count(&mut waiting, 0, false);
    }

    /// Appends a reply: `head`, the list, `tail`. False once the outbox has ended.
    pub(in crate::server) fn put_list(
        &self,
        head: &[u8],
        list: Arc<LongList>,
        tail: &[u8],
        _: Fresh<'_>,
    ) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.ended {
            return false;
        }
        waiting.bytes.extend_from_slice(head);
        waiting.end_piece();
        let ahead = waiting.ahead();
        ahead.pieces.reserve(list.chunks().len());
        for bytes in list.chunks() {
            ahead.push(Piece::of(bytes.clone(), 0));
        }
        ahead.listed = ahead.pieces.len();
        ahead.list = Some(list);
        waiting.bytes.extend_from_slice(tail);
        self.count(&mut waiting, 0, false);
        true
    }

    /// Bytes that wait.
    pub(in crate::server) fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Bytes that wait and are nobody else's.
    pub(super) fn own_len(&self) -> usize {
        self.waiting.lock().own_len()
    }

    /// Whether as much waits as may lie there, with `more` that is about to come. A long list is as
    /// much by itself.
    pub(in crate::server) fn is_full(&self, more: usize) -> bool {
        let waiting = self.waiting.lock();
        waiting.has_list() || waiting.own_len() + more >= OUTBOX_MAX
    }

    /// Nothing more is accepted.
    pub(in crate::server) fn end(&self) {
        self.waiting.lock().ended = true;
    }

    /// Whether nothing more is accepted.
    pub(in crate::server) fn is_ended(&self) -> bool {
        self.waiting.lock().ended
    }

    /// Whether nothing more is accepted and everything was sent.
    pub(in crate::server) fn is_done(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.ended && waiting.is_empty()
    }

    /// Drops what waits: the client is gone.
    pub(in crate::server) fn abandon(&self) {
        let mut waiting = self.waiting.lock();
        waiting.abandon();
        self.count(&mut waiting, 0, false);
    }

    /// Drops what waits if it still has this rank among those that are not read. Gives how much it
    /// was.
    pub(super) fn abandon_at(&self, rank: Rank) -> Option<usize> {
        let mut waiting = self.waiting.lock();
        if waiting.rank != Some(rank) {
            return None;
        }
        let len = waiting.len();
        waiting.abandon();
        // Whoever sends has something in hand still, and is not waited for.
        self.unread.leave(rank);
        waiting.rank = None;
        self.count(&mut waiting, 0, false);
        Some(len)
    }

    /// Whether someone was turned away by [`Sent::Elsewhere`] since the last call.
    pub(super) fn take_awaited(&self) -> bool {
        std::mem::take(&mut self.waiting.lock().awaited)
    }

    /// Sends what waits by `write`, which never blocks, up to a long list.
    ///
    /// # Errors
    /// What `write` fails with, but for [`io::ErrorKind::WouldBlock`].
    pub(in crate::server) fn send(
        &self,
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Sent> {
        let mut waiting = self.waiting.lock();
        if waiting.sending {
            waiting.awaited = true;
            return Ok(Sent::Elsewhere);
        }
        let (mut result, mut taken) = (Ok(Sent::All), 0);
        while matches!(result, Ok(Sent::All)) {
            if waiting.behind > 0 {
                // It is the server's disk that is waited for.
                self.stand_aside(&mut waiting);
                break;
            } else if waiting.has_list() {
                result = Ok(Sent::List);
            } else if let Some(piece) = waiting.ahead.as_mut().and_then(|ahead| ahead.pop()) {
                result = Self::send_piece(&mut waiting, piece, false, &mut write, &mut taken);
            } else if waiting.bytes.is_empty() {
                break;
            } else {
                let mut hand = std::mem::take(&mut waiting.bytes);
                let (held, len) = (held_by(&hand), hand.len());
                result = write_unlocked(&mut waiting, &mut hand, held, &mut write);
                taken += len - hand.len();
                if waiting.abandoned {
                    break;
                }
                if hand.has_remaining() {
                    waiting.ahead().push_front(Piece::of(hand.freeze(), held), false);
                } else if waiting.is_empty() && hand.capacity() <= KEPT {
                    hand.clear();
                    waiting.bytes = hand;
                }
            }
            if waiting.abandoned {
                break;
            }
        }
        self.count(&mut waiting, taken, matches!(result, Ok(Sent::Blocked)));
        result
    }

    /// Sends some of a long list that is next. [`Sent::List`] where the socket may take more.
    ///
    /// # Errors
    /// What `write` fails with, but for [`io::ErrorKind::WouldBlock`].
    pub(in crate::server) fn send_of_list(
        &self,
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Sent> {
        let (mut result, mut taken) = (Ok(Sent::All), 0);
        let mut sent = 0;
        let mut waiting = self.waiting.lock();
        while matches!(result, Ok(Sent::All)) && sent < LIST_A_TURN {
            if waiting.sending {
                waiting.awaited = true;
                return Ok(Sent::Elsewhere);
            }
            if waiting.behind > 0 {
                return Ok(Sent::All);
            }
            let ahead = waiting.ahead.as_mut().filter(|ahead| ahead.listed > 0);
            let Some(piece) = ahead.and_then(|ahead| ahead.pop()) else { break };
            sent += piece.bytes.len();
            result = Self::send_piece(&mut waiting, piece, true, &mut write, &mut taken);
        }
        self.count(&mut waiting, taken, matches!(result, Ok(Sent::Blocked)));
        match result {
            Ok(Sent::All) => Ok(Sent::List),
            result => result,
        }
    }

    /// Sends the first piece ahead, which was taken out. What the socket leaves of it is the first
    /// one again.
    fn send_piece(
        waiting: &mut MutexGuard<'_, Waiting>,
        mut piece: Piece,
        of_list: bool,
        write: impl FnMut(&[u8]) -> io::Result<usize>,
        taken: &mut usize,
    ) -> io::Result<Sent> {
        let len = piece.bytes.len();
        let result = write_unlocked(waiting, &mut piece.bytes, piece.held, write);
        *taken += len - piece.bytes.len();
        if let Some(ahead) = &mut waiting.ahead {
            if piece.bytes.has_remaining() {
                ahead.push_front(piece, of_list);
            }
            if ahead.listed == 0 {
                ahead.list = None;
            }
            if ahead.pieces.is_empty() {
                waiting.ahead = None;
            }
        }
        result
    }

    /// Gives back the memory of an idle connection.
    pub(in crate::server) fn shrink(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() && !waiting.sending {
            waiting.bytes = BytesMut::new();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Writes what is in hand while others may append.
fn write_unlocked(
    waiting: &mut MutexGuard<'_, Waiting>,
    hand: &mut impl Buf,
    held: usize,
    write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<Sent> {
    waiting.sending = true;
    waiting.in_hand = hand.remaining();
    waiting.in_hand_held = held;
    let result = MutexGuard::unlocked(waiting, || write_out(hand, write));
    waiting.sending = false;
    waiting.in_hand = 0;
    waiting.in_hand_held = 0;
    result
}

/// Writes until there is nothing left or the socket takes no more.
fn write_out(
    hand: &mut impl Buf,
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<Sent> {
    while hand.has_remaining() {
        match write(hand.chunk()) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => hand.advance(sent),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Blocked),
            Err(error) => return Err(error),
        }
    }
    Ok(Sent::All)
}

/// Capacity that a busy connection keeps from one round to the next.
const KEPT: usize = 64 << 10;

#[cfg(test)]
#[path = "outbox_test.rs"]
mod outbox_test;
