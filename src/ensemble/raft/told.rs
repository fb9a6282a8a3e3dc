//! What whoever leads is told once: again only where it is something else, or where another one
//! leads.

use super::following::Following;
use super::member::Transport;
use crate::ensemble::words::{PeerWord, StreamId};

/// What the leader of a stream was told last.
#[derive(Debug)]
pub(super) struct Told<T>(Option<(StreamId, T)>);

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy + PartialEq> Told<T> {
    /// Tells the leader, if there is one that can be told and it does not know.
    pub(super) fn tell(
        &mut self,
        what: T,
        word: impl FnOnce(T) -> PeerWord,
        following: Option<&Following>,
        transport: &mut impl Transport,
    ) {
        let Some(following) = following.filter(|its| !its.is_leaving()) else { return };
        let telling = Some((following.stream(), what));
        if self.0 != telling {
            self.0 = telling;
            transport.say(following.leader(), word(what));
        }
    }
}
