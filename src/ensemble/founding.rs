//! How an ensemble begins, and how a server without a state comes to one.
//!
//! Servers that belong to no ensemble yet tell each other what their directories hold: nothing, the
//! data of a standalone server, or that of an ensemble of Apache ZooKeeper. [`super::standing`]
//! tells which of them founds the ensemble, with itself and all others of the list as members. It
//! asks the others to belong to it. A server belongs to the first that asks it, so that of two
//! ensembles at most one has a majority.
//!
//! The founder's disk knows whom it still has to ask, and it asks, after each start, until each has
//! answered. Who accepts takes part in nothing, and keeps what it had, until the founder's disk
//! knows of that: from then on the founder never asks it again, so that a server whose disk is
//! emptied later does not come back as the member that it was.
//!
//! ```text
//! nothing, or data of before --asked by a founder--> accepted
//! accepted --the founder knows--> first life of a member
//! nothing, where there is an ensemble --asks its leader for a seat--> next life of a member
//! data of before, where there is an ensemble: refused
//! a member's data that ZooKeeper went on with: data of before; where its ensemble was
//!     founded anew, aside for a seat; where it goes on, aside for a seat if its leader has the
//!     last record of it
//! ```

use jute::txn::{TxnHeader, TxnRecord};

use super::standing::{Base, Standing};
use crate::storage::{Members, RaftState, SessionKey};

/// What a founder asks the others to belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Founding {
    /// A number that it drew.
    pub ensemble: u64,
    /// The first of the ensembles that were founded anew, up to this one.
    pub line: u64,
    /// Which of them this one is.
    pub generation: u64,
    /// The term in which everything begins.
    pub term: u64,
    /// The term of the founding, before any leader's.
    pub founded_in: u64,
    /// The greatest of those that it has heard.
    pub base: Base,
    /// The entry that shows it; 0 for nothing. A member that has not reached it votes only for one
    /// that has.
    pub index: u64,
    /// All that belong to it, the founders in their first lives.
    pub members: Members,
    /// The entry that made them so; 0 for the founders.
    pub configured_at: u64,
}

impl Founding {
    /// What a founder asks others to belong to, by what it has promised last: its members as it
    /// knows them now.
    #[must_use]
    pub fn of(state: &RaftState) -> Self {
        let RaftState { ensemble, line, generation, term, founded_in, base, own, .. } = *state;
        let RaftState { ref members, configured_at, .. } = *state;
        let (epoch, zxid) = own;
        Self {
            ensemble,
            line,
            generation,
            term,
            founded_in,
            base: Base { epoch, zxid, accepted: epoch },
            index: base,
            members: members.clone(),
            configured_at,
        }
    }

    /// Whether the ensemble may have acknowledged anything, as its founder knew when it asked.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.term > self.founded_in
    }
}

/// What a server has to know to be a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// As which.
    pub id: u64,
    /// Of which ensemble.
    pub ensemble: u64,
    /// The first of the ensembles that were founded anew, up to this one.
    pub line: u64,
    /// Which of them this one is.
    pub generation: u64,
    /// A term that is there already.
    pub term: u64,
    /// All, as the one who gives the seat knows them.
    pub members: Members,
    /// The entry that made them so.
    pub configured_at: u64,
}

/// What passwords of sessions are made with, on its way to another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedSecret {
    /// A number that nobody has used before.
    pub nonce: [u8; SessionKey::LEN],
    /// The key, veiled with the help of the number by what both sides know.
    pub veiled: [u8; SessionKey::LEN],
    /// Sessions whose passwords are ZooKeeper's.
    pub before: Vec<i64>,
}

/// What a server without a state asks another one, and a founder its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// What are you?
    Standing,
    /// Belong to this, which makes passwords of sessions so.
    Founded(Founding, Option<Box<HandedSecret>>),
    /// This server wants to belong to the ensemble.
    Seat(Applicant),
}

/// A server that wants a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applicant {
    /// Its number.
    pub server: u8,
    /// The member that its directory is of, if that was taken out.
    pub was: Option<u64>,
    /// What it holds may go aside only if the ensemble has all of it: with what that ends.
    pub ends_with: Option<LastRecord>,
}

/// A record, as far as it has to be known to tell whether another one is the same: whoever has the
/// same one of a leader has all that leads to it. Others may have the same zxid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRecord {
    /// Its zxid.
    pub zxid: i64,
    /// When it was ordered.
    pub time: i64,
    /// Of all that it says, without the digest, which ZooKeeper adds or leaves out.
    pub checksum: u32,
}

impl LastRecord {
    /// What is to be known of this one.
    #[must_use]
    pub fn of(TxnRecord { header, txn, .. }: TxnRecord<'_>) -> Self {
        let TxnHeader { zxid, time, .. } = header;
        let mut said = Vec::new();
        TxnRecord { header, txn, digest: None }.encode(&mut said);
        Self { zxid, time, checksum: crc32fast::hash(&said) }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundingAnswer {
    /// It is this.
    Standing(Standing),
    /// It belongs to it.
    Founded,
    /// It has this seat, where passwords of sessions are made so.
    Seat(Seat, Option<Box<HandedSecret>>),
    /// Another one is to be asked, or this one later.
    Elsewhere,
    /// It belongs to this ensemble, and to no other one before it has left that.
    OfAnother(u64),
    /// The ensemble has not all that the applicant holds, as far as its leader can tell.
    Lacking,
    /// It cannot be, and why.
    Refused(String),
    /// It cannot be as long as the ensemble has not begun, and why.
    NotYet(String),
}

/// Why a server does not belong to what another one founds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// It is not among the members.
    NotListed,
    /// It holds more than what that was founded on.
    HasMore {
        /// What it holds.
        own: Base,
        /// What that was founded on.
        base: Base,
    },
    /// Another voter does, which belongs to none.
    AnotherHasMore {
        /// The newest data of others.
        newest: Base,
        /// What that was founded on.
        base: Base,
    },
    /// It has accepted an epoch, and that one begins with none above it.
    HasAccepted {
        /// The newest that it has accepted.
        epoch: i64,
        /// That of the founding.
        term: u64,
    },
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whose, more, base) = match self {
            Self::NotListed => {
                return out.write_str("the founder's server list does not include it");
            }
            Self::HasMore { own, base } => ("its data", own, base),
            Self::AnotherHasMore { newest, base } => ("data of another server", newest, base),
            Self::HasAccepted { epoch, term } => {
                return write!(
                    out,
                    "it has already accepted epoch {epoch}, and the ensemble was founded with \
                     epoch {term}"
                );
            }
        };
        write!(
            out,
            "{whose} is newer than that of the founder: epoch {}, zxid {:#x}, compared with epoch \
             {}, zxid {:#x}",
            more.epoch, more.zxid, base.epoch, base.zxid
        )
    }
}

impl Unfit {
    /// For an operator, on both sides: what ends that where the ensemble that server `founder` has
    /// founded has not begun.
    #[must_use]
    pub fn way_out(self, founder: u8) -> String {
        let leaves = format!(
            "stop server {founder}, run `ferrokeeper data leave` on its dataDir, and start it again"
        );
        match self {
            // Its members are those of the list with which it was founded.
            Self::NotListed => format!(
                "Correct that list, and start all other servers. If the ensemble does not begin, \
                 {leaves}: the ensemble is then founded with the corrected list"
            ),
            Self::HasMore { .. } | Self::AnotherHasMore { .. } => format!(
                "Start all other servers. If the newer data is to count, {leaves}: the server with \
                 the newest data then founds the ensemble"
            ),
            Self::HasAccepted { .. } => format!(
                "Start all other servers: it joins once the ensemble has begun. If that does not \
                 happen, {leaves}: it then founds the ensemble anew with a later epoch, and no \
                 data is given up"
            ),
        }
    }
}

/// Whether a server belongs to what another one founds, and in which term it is then. It may have
/// accepted `accepted` before, without its founder having known, and have been given back what it
/// held: it promised the term to that ensemble, and to no other.
///
/// Where the ensemble has begun, it enters the newest epoch that it has promised, without a vote
/// there, and the next leader has a later one: what is ordered from then on is above all that was
/// ordered with that epoch. In an ensemble that has not begun, that term would say that it has.
///
/// # Errors
/// Why not.
pub fn may_belong(own: Base, accepted: Option<u64>, founding: &Founding) -> Result<u64, Unfit> {
    let base = founding.base;
    if (own.epoch, own.zxid) > (base.epoch, base.zxid) {
        return Err(Unfit::HasMore { own, base });
    }
    let newest = u64::try_from(own.accepted).unwrap_or(0);
    let is_promised_to_it = newest == founding.term && accepted == Some(founding.ensemble);
    if newest >= founding.term && !is_promised_to_it && !founding.has_begun() {
        return Err(Unfit::HasAccepted { epoch: own.accepted, term: founding.term });
    }
    Ok(newest.max(founding.term))
}

/// What to answer a founder whose ensemble the asked is not fit for.
#[must_use]
pub fn refusal(unfit: Unfit, founder: u8, founding: &Founding) -> FoundingAnswer {
    match unfit {
        Unfit::NotListed => FoundingAnswer::Refused(unfit.to_string()),
        _ if !founding.has_begun() => {
            FoundingAnswer::NotYet(format!("{unfit}. {}", unfit.way_out(founder)))
        }
        Unfit::HasMore { .. } => FoundingAnswer::Refused(unfit.to_string()),
        Unfit::AnotherHasMore { .. } | Unfit::HasAccepted { .. } => FoundingAnswer::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(epoch: i64, zxid: i64) -> Base {
        Base { epoch, zxid, accepted: epoch }
    }

    #[test]
    fn nobody_gives_up_what_is_newer() {
        let founding = Founding {
            ensemble: 1,
            line: 1,
            generation: 1,
            term: 5,
            founded_in: 5,
            base: base(4, 10),
            index: 7,
            members: Members::default(),
            configured_at: 0,
        };
        for (own, may) in [
            (base(4, 10), true),
            (base(4, 9), true),
            (base(3, 99), true),
            (base(4, 11), false),
            (base(5, 1), false),
            (Base { epoch: 4, zxid: 9, accepted: 5 }, false),
        ] {
            assert_eq!(may_belong(own, None, &founding).is_ok(), may, "{own:?}");
        }
        let again = Base { epoch: 4, zxid: 9, accepted: 5 };
        assert!(may_belong(again, Some(1), &founding).is_ok());
        assert!(may_belong(again, Some(2), &founding).is_err());
        assert!(may_belong(Base { accepted: 6, ..again }, Some(1), &founding).is_err());
        // Once it has begun, an epoch is no reason, and is in no ensemble twice.
        let begun = Founding { term: 6, ..founding };
        for (accepted, term) in [(5, 6), (6, 6), (9, 9)] {
            assert_eq!(may_belong(Base { accepted, ..again }, None, &begun), Ok(term));
        }
        assert!(may_belong(base(4, 11), None, &begun).is_err());
    }
}
