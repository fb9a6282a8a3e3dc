//! What waits to be sent on one connection.
//!
//! Whoever finds something to send while nobody else is sending, sends; others only append. So an append never waits
//! for a socket.

use std::io;

use bytes::{Buf as _, BytesMut};
use parking_lot::Mutex;

/// Answers that may wait for a client before no more requests of it are read.
pub(super) const OUTBOX_MAX: usize = 1 << 20;
/// Events that may wait for a client before its connection is closed: it reconnects and asks what it missed.
pub(super) const EVENTS_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
struct Waiting {
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

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        let waiting = self.0.lock();
        waiting.bytes.len() + waiting.in_hand
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
        waiting.ended && waiting.bytes.is_empty() && waiting.in_hand == 0
    }

    /// Drops what waits: the client is gone.
    pub(super) fn abandon(&self) {
        let mut waiting = self.0.lock();
        waiting.ended = true;
        waiting.abandoned = true;
        waiting.bytes = BytesMut::new();
    }

    /// Whether someone was turned away by [`Sent::Elsewhere`] since the last call.
    pub(super) fn take_awaited(&self) -> bool {
        std::mem::take(&mut self.0.lock().awaited)
    }

    /// Sends what waits by `write`, which never blocks.
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
        while !waiting.bytes.is_empty() && matches!(result, Ok(Sent::All)) {
            let mut hand = std::mem::take(&mut waiting.bytes);
            waiting.sending = true;
            waiting.in_hand = hand.len();
            drop(waiting);
            while hand.has_remaining() {
                match write(&hand) {
                    Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                    Ok(sent) => hand.advance(sent),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        result = Ok(Sent::Blocked);
                    }
                    Err(error) => result = Err(error),
                }
                if !matches!(result, Ok(Sent::All)) {
                    break;
                }
            }
            waiting = self.0.lock();
            waiting.sending = false;
            waiting.in_hand = 0;
            if waiting.abandoned {
                break;
            }
            if hand.has_remaining() {
                let behind = std::mem::replace(&mut waiting.bytes, hand);
                waiting.bytes.unsplit(behind);
            } else if waiting.bytes.is_empty() && hand.capacity() <= KEPT {
                hand.clear();
                waiting.bytes = hand;
            }
        }
        result
    }

    /// Gives back the memory of an idle connection.
    pub(super) fn shrink(&self) {
        let mut waiting = self.0.lock();
        if waiting.bytes.is_empty() && !waiting.sending {
            waiting.bytes = BytesMut::new();
        }
    }
}

/// Capacity that a busy connection keeps from one round to the next.
const KEPT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

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
