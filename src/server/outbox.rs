//! What waits to be sent on one connection.
//!
//! Whoever finds something to send while nobody else is sending, sends; others only append. So an append never waits
//! for a socket.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;

use super::listings::LongList;

/// Answers that may wait for a client before no more requests of it are read.
pub(super) const OUTBOX_MAX: usize = 1 << 20;
/// Events that may wait for a client before its connection is closed: it reconnects and asks what it missed.
pub(super) const EVENTS_MAX: usize = 64 << 20;

/// Bytes of a long list that are sent in one turn.
const LIST_A_TURN: usize = 128 << 10;

#[derive(Debug, Default)]
struct Waiting {
    /// What goes first.
    ahead: Option<Box<Ahead>>,
    bytes: BytesMut,
    /// Someone has taken the bytes ahead of these and is sending them.
    sending: bool,
    /// Bytes that the sender has in hand.
    in_hand: usize,
    /// Nothing is accepted any more; what waits is still sent.
    ended: bool,
    /// Nothing is sent any more either.
    abandoned: bool,
    /// Someone was told that another is sending, and may sleep until that one is done.
    awaited: bool,
}

/// A reply with a long list, which stands in memory once for all who are sent it, and what waited when it came.
#[derive(Debug)]
struct Ahead {
    pieces: VecDeque<Bytes>,
    _list: Arc<LongList>,
}

/// The outbox.
#[derive(Debug, Default)]
pub(super) struct Outbox(Mutex<Waiting>);

/// How a round of sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Nothing waits.
    All,
    /// The socket takes no more now.
    Blocked,
    /// Someone else is sending, and will take what waits along.
    Elsewhere,
    /// A long list is next, which the connection's task sends in pieces.
    List,
}

impl Waiting {
    fn len(&self) -> usize {
        let ahead = self.ahead.as_ref();
        let ahead = ahead.map_or(0, |ahead| ahead.pieces.iter().map(Bytes::len).sum());
        ahead + self.bytes.len() + self.in_hand
    }

    fn is_empty(&self) -> bool {
        self.ahead.is_none() && self.bytes.is_empty() && self.in_hand == 0
    }

    /// What was taken ahead of everything comes back.
    fn put_back(&mut self, hand: BytesMut) {
        match &mut self.ahead {
            Some(ahead) => ahead.pieces.push_front(hand.freeze()),
            None => {
                let behind = std::mem::replace(&mut self.bytes, hand);
                self.bytes.unsplit(behind);
            }
        }
    }
}

impl Outbox {
    /// Appends what `write` writes; false once the outbox has ended.
    pub(super) fn put(&self, write: impl FnOnce(&mut BytesMut)) -> bool {
        let mut waiting = self.0.lock();
        if waiting.ended {
            return false;
        }
        write(&mut waiting.bytes);
        true
    }

    /// Appends a reply: `head`, the list, `tail`. False once the outbox has ended.
    pub(super) fn put_list(&self, head: &[u8], list: Arc<LongList>, tail: &[u8]) -> bool {
        let mut waiting = self.0.lock();
        if waiting.ended {
            return false;
        }
        let mut first = std::mem::replace(&mut waiting.bytes, BytesMut::from(tail));
        first.extend_from_slice(head);
        let mut pieces = match waiting.ahead.take() {
            Some(ahead) => ahead.pieces,
            None => VecDeque::with_capacity(list.chunks().len() + 2),
        };
        pieces.push_back(first.freeze());
        pieces.extend(list.chunks().iter().cloned());
        waiting.ahead = Some(Box::new(Ahead { pieces, _list: list }));
        true
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Bytes that wait and are nobody else's.
    pub(super) fn own_len(&self) -> usize {
        let waiting = self.0.lock();
        waiting.bytes.len() + waiting.in_hand
    }

    /// Whether as much waits as may lie there, with `more` that is about to come. A long list is as much by itself.
    pub(super) fn is_full(&self, more: usize) -> bool {
        let waiting = self.0.lock();
        waiting.ahead.is_some() || waiting.bytes.len() + waiting.in_hand + more >= OUTBOX_MAX
    }

    /// Nothing more is accepted.
    pub(super) fn end(&self) {
        self.0.lock().ended = true;
    }

    /// Whether nothing more is accepted.
    pub(super) fn is_ended(&self) -> bool {
        self.0.lock().ended
    }

    /// Whether nothing more is accepted and everything was sent.
    pub(super) fn is_done(&self) -> bool {
        let waiting = self.0.lock();
        waiting.ended && waiting.is_empty()
    }

    /// Drops what waits: the client is gone.
    pub(super) fn abandon(&self) {
        let mut waiting = self.0.lock();
        waiting.ended = true;
        waiting.abandoned = true;
        waiting.ahead = None;
        waiting.bytes = BytesMut::new();
    }

    /// Whether someone was turned away by [`Sent::Elsewhere`] since the last call.
    pub(super) fn take_awaited(&self) -> bool {
        std::mem::take(&mut self.0.lock().awaited)
    }

    /// Sends what waits by `write`, which never blocks, up to a long list.
    ///
    /// # Errors
    /// What `write` fails with, but for [`io::ErrorKind::WouldBlock`].
    pub(super) fn send(
        &self,
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Sent> {
        let mut waiting = self.0.lock();
        if waiting.sending {
            waiting.awaited = true;
            return Ok(Sent::Elsewhere);
        }
        let mut result = Ok(Sent::All);
        while matches!(result, Ok(Sent::All)) {
            if waiting.ahead.is_some() {
                return Ok(Sent::List);
            }
            if waiting.bytes.is_empty() {
                break;
            }
            let mut hand = std::mem::take(&mut waiting.bytes);
            waiting.sending = true;
            waiting.in_hand = hand.len();
            drop(waiting);
            result = write_out(&mut hand, &mut write);
            waiting = self.0.lock();
            waiting.sending = false;
            waiting.in_hand = 0;
            if waiting.abandoned {
                break;
            }
            if hand.has_remaining() {
                waiting.put_back(hand);
            } else if waiting.is_empty() && hand.capacity() <= KEPT {
                hand.clear();
                waiting.bytes = hand;
            }
        }
        result
    }

    /// Sends some of a long list that is next. [`Sent::List`] where the socket may take more.
    ///
    /// # Errors
    /// What `write` fails with, but for [`io::ErrorKind::WouldBlock`].
    pub(super) fn send_of_list(
        &self,
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Sent> {
        let mut result = Ok(Sent::All);
        let mut sent = 0;
        let mut waiting = self.0.lock();
        while matches!(result, Ok(Sent::All)) && sent < LIST_A_TURN {
            if waiting.sending {
                waiting.awaited = true;
                return Ok(Sent::Elsewhere);
            }
            let Some(ahead) = &mut waiting.ahead else { break };
            let Some(mut hand) = ahead.pieces.pop_front() else {
                waiting.ahead = None;
                break;
            };
            waiting.sending = true;
            waiting.in_hand = hand.len();
            drop(waiting);
            sent += hand.len();
            result = write_out(&mut hand, &mut write);
            waiting = self.0.lock();
            waiting.sending = false;
            waiting.in_hand = 0;
            if hand.has_remaining()
                && let Some(ahead) = &mut waiting.ahead
            {
                ahead.pieces.push_front(hand);
            }
        }
        match result {
            Ok(Sent::All) => Ok(Sent::List),
            result => result,
        }
    }

    /// Gives back the memory of an idle connection.
    pub(super) fn shrink(&self) {
        let mut waiting = self.0.lock();
        if waiting.is_empty() && !waiting.sending {
            waiting.bytes = BytesMut::new();
        }
    }
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
mod tests {
    use jute::StatPersisted;
    use jute::persist::SnapshotNode;

    use super::*;
    use crate::engine::NodeId;
    use crate::engine::database::{Database, Rules};
    use crate::engine::listing::{Listing, Progress};

    /// A list of a megabyte.
    fn list() -> Arc<LongList> {
        let mut database = Database::empty(1, Rules::default());
        let node = SnapshotNode { data: None, acl: -1, stat: StatPersisted::default() };
        for number in 0..100 {
            database.load_node(&format!("/{number:010000}"), &node).unwrap();
        }
        let listing = Listing::begin(&database, NodeId::ROOT);
        match listing.advance(&database, NodeId::ROOT, usize::MAX) {
            Progress::Done(list) => Arc::new(LongList::of(list)),
            other => panic!("{other:?}"),
        }
    }

    /// Sends like the connection's task, by a socket that takes a little at a time.
    fn send_all(outbox: &Outbox) -> Vec<u8> {
        let mut taken = Vec::new();
        let mut is_blocked = false;
        let mut write = |bytes: &[u8]| {
            is_blocked = !is_blocked;
            if is_blocked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let bytes = &bytes[..bytes.len().min(7001)];
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        };
        while !outbox.0.lock().is_empty() {
            if outbox.send(&mut write).unwrap() == Sent::List {
                outbox.send_of_list(&mut write).unwrap();
            }
        }
        taken
    }

    #[test]
    fn a_list_goes_between_what_came_before_and_behind_it() {
        let outbox = Outbox::default();
        let list = list();
        let names = list.chunks().concat();
        assert!(list.chunks().len() > 3);
        outbox.put(|out| out.extend_from_slice(b"before"));
        assert!(outbox.put_list(b"head", Arc::clone(&list), b"tail"));
        outbox.put(|out| out.extend_from_slice(b"behind"));
        assert!(outbox.is_full(0));
        assert_eq!(outbox.len(), 20 + names.len());
        assert_eq!(outbox.own_len(), 10);
        let taken = send_all(&outbox);
        assert!(taken == [b"beforehead", &names[..], b"tailbehind"].concat());
        assert!(!outbox.is_full(0));
        assert_eq!(Arc::strong_count(&list), 1);
    }

    #[test]
    fn what_another_has_in_hand_stays_ahead_of_a_list() {
        let outbox = Outbox::default();
        let list = list();
        outbox.put(|out| out.extend_from_slice(b"ab"));
        let mut calls = 0;
        let sent = outbox.send(|_| {
            calls += 1;
            if calls > 1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            outbox.put_list(b"c", Arc::clone(&list), b"d");
            assert_eq!(outbox.send_of_list(|_| unreachable!()).unwrap(), Sent::Elsewhere);
            Ok(1)
        });
        assert_eq!(sent.unwrap(), Sent::Blocked);
        assert!(outbox.take_awaited());
        assert!(send_all(&outbox) == [b"bc", &list.chunks().concat()[..], b"d"].concat());
    }

    #[test]
    fn only_the_task_sends_a_list_and_not_all_of_it_at_once() {
        let outbox = Outbox::default();
        let list = list();
        outbox.put_list(b"", Arc::clone(&list), b"tail");
        assert_eq!(outbox.send(|_| unreachable!()).unwrap(), Sent::List);
        let mut turns = 0;
        while outbox.send(|bytes| Ok(bytes.len())).unwrap() == Sent::List {
            let mut taken = 0;
            let sent = outbox.send_of_list(|bytes| {
                taken += bytes.len();
                Ok(bytes.len())
            });
            assert_eq!(sent.unwrap(), Sent::List);
            assert!(taken < 2 * LIST_A_TURN, "{taken}");
            turns += 1;
        }
        assert!(turns >= 4, "{turns}");
        assert_eq!(outbox.len(), 0);
    }

    #[test]
    fn an_abandoned_outbox_keeps_no_list() {
        let outbox = Outbox::default();
        let list = list();
        outbox.put_list(b"", Arc::clone(&list), b"");
        let sent = outbox.send_of_list(|_| {
            outbox.abandon();
            Err(io::ErrorKind::WouldBlock.into())
        });
        assert_eq!(sent.unwrap(), Sent::Blocked);
        assert_eq!((outbox.len(), Arc::strong_count(&list)), (0, 1));
        assert!(outbox.is_done());
        assert!(!outbox.put_list(b"", list, b""));
    }

    #[test]
    fn what_a_full_socket_leaves_goes_first_the_next_time() {
        let outbox = Outbox::default();
        outbox.put(|out| out.extend_from_slice(b"abcdef"));
        let mut taken = Vec::new();
        let mut calls = 0;
        let sent = outbox
            .send(|bytes| {
                calls += 1;
                if calls > 1 {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                taken.extend_from_slice(&bytes[..2]);
                Ok(2)
            })
            .unwrap();
        assert_eq!(sent, Sent::Blocked);
        outbox.put(|out| out.extend_from_slice(b"gh"));
        assert_eq!(outbox.len(), 6);
        let sent = outbox
            .send(|bytes| {
                taken.extend_from_slice(bytes);
                Ok(bytes.len())
            })
            .unwrap();
        assert_eq!(sent, Sent::All);
        assert_eq!(taken, b"abcdefgh");
    }

    #[test]
    fn an_append_while_another_sends_is_taken_along() {
        let outbox = Outbox::default();
        outbox.put(|out| out.extend_from_slice(b"a"));
        let mut taken = Vec::new();
        outbox
            .send(|bytes| {
                if taken.is_empty() {
                    outbox.put(|out| out.extend_from_slice(b"b"));
                    assert_eq!(outbox.send(|_| unreachable!()).unwrap(), Sent::Elsewhere);
                }
                taken.extend_from_slice(bytes);
                Ok(bytes.len())
            })
            .unwrap();
        assert_eq!(taken, b"ab");
    }

    #[test]
    fn who_is_turned_away_is_known_to_the_sender() {
        let outbox = Outbox::default();
        outbox.put(|out| out.extend_from_slice(b"a"));
        outbox
            .send(|bytes| {
                assert_eq!(outbox.send(|_| unreachable!()).unwrap(), Sent::Elsewhere);
                Ok(bytes.len())
            })
            .unwrap();
        assert!(outbox.take_awaited());
        assert!(!outbox.take_awaited());
    }

    #[test]
    fn what_the_sender_holds_of_an_abandoned_outbox_does_not_come_back() {
        let outbox = Outbox::default();
        outbox.put(|out| out.extend_from_slice(b"ab"));
        let sent = outbox.send(|_| {
            outbox.abandon();
            Err(io::ErrorKind::WouldBlock.into())
        });
        assert_eq!(sent.unwrap(), Sent::Blocked);
        assert!(outbox.is_done());
        assert_eq!(outbox.len(), 0);
    }

    #[test]
    fn an_ended_outbox_takes_nothing_and_is_done_when_empty() {
        let outbox = Outbox::default();
        outbox.put(|out| out.extend_from_slice(b"a"));
        outbox.end();
        assert!(!outbox.put(|_| unreachable!()));
        assert!(!outbox.is_done());
        outbox.send(|bytes| Ok(bytes.len())).unwrap();
        assert!(outbox.is_done());
    }
}
