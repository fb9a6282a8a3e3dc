//! Why a connection is not welcome, as the one says it and the other one hears it.

use std::io;

use crate::ensemble::standing::Refuses;

/// What a refusal asks of whoever is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// To see to what the reason says, and to try again.
    Reason,
    /// To end, and never to come again with this directory.
    Older,
    /// To try again: another process may end.
    InUse,
    /// To end: another process has its place.
    Replaced,
    /// To end, and to come again as another member.
    Removed,
    /// To try again: the two belong to two ensembles, and an operator has to say which one is
    /// right.
    OfAnother,
}

impl RefusalKind {
    const ALL: [(u8, Self); 6] = [
        (1, Self::Reason),
        (2, Self::Older),
        (3, Self::InUse),
        (4, Self::Replaced),
        (5, Self::Removed),
        (6, Self::OfAnother),
    ];

    pub(super) fn number(self) -> u8 {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or(1, |(number, _)| *number)
    }

    /// Of a later version's it is known that it is one.
    pub(super) fn of(number: u8) -> Self {
        Self::ALL.iter().find(|(its, _)| *its == number).map_or(Self::Reason, |(_, kind)| *kind)
    }
}

/// Why a connection is not welcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it refuses: {reason}")]
pub(super) struct Refusal {
    /// `None` for who has not said yet who it is.
    pub(super) kind: Option<RefusalKind>,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) const fn of_stranger(reason: String) -> Self {
        Self { kind: None, reason }
    }

    pub(super) const fn new(kind: RefusalKind, reason: String) -> Self {
        Self { kind: Some(kind), reason }
    }

    /// For an operator, if whoever was called was reached and there is something wrong between the
    /// two: after which server it is.
    pub(super) fn tell(error: &io::Error) -> Option<Refuses> {
        if let Some(Self { kind, reason }) =
            error.get_ref().and_then(|its| its.downcast_ref::<Self>())
        {
            let (said, is_of_another) =
                (format!("refuses: {reason}"), *kind == Some(RefusalKind::OfAnother));
            return Some(Refuses { said, is_of_another });
        }
        // What a connection ends with that was not made, or was lost, says nothing of who is there.
        let is_wrong = matches!(error.kind(), io::ErrorKind::Other | io::ErrorKind::InvalidData);
        is_wrong.then(|| format!("can be reached, but {error}").into())
    }

    /// What a call ended with, if it was refused by who had proved to be one of the ensemble's
    /// servers.
    pub(super) fn kind_of(error: &io::Error) -> Option<RefusalKind> {
        error.get_ref()?.downcast_ref::<Self>()?.kind
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::ErrorKind::ConnectionRefused, refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_reached_and_is_wrong_is_told_from_who_is_not_there() {
        let told = |error: io::Error| Refusal::tell(&error);
        let said =
            |said: &str, is_of_another| Some(Refuses { said: said.to_owned(), is_of_another });
        let refusal = Refusal::of_stranger("the secrets differ".to_owned());
        assert_eq!(told(refusal.into()), said("refuses: the secrets differ", false));
        let refusal = Refusal::new(RefusalKind::OfAnother, "nothing in common".to_owned());
        assert_eq!(told(refusal.into()), said("refuses: nothing in common", true));
        let wrong = io::Error::other("it is server 2, not 1");
        assert_eq!(told(wrong), said("can be reached, but it is server 2, not 1", false));
        for kind in [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::TimedOut,
            io::ErrorKind::NotFound,
        ] {
            assert_eq!(told(io::Error::new(kind, "nobody there")), None, "{kind}");
        }
    }
}
