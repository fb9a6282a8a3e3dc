//! How an ensemble begins, and how a server without a state comes to one.
//!
//! Servers that belong to no ensemble yet tell each other what their directories hold: nothing, the data of a standalone
//! server, or that of an ensemble of Apache ZooKeeper. Whatever a majority of those had acknowledged is in the greatest of
//! any majority, as ZooKeeper's own elections have it. That one founds the ensemble, with itself and all others of the list
//! as members, and asks the others to belong to it. A server belongs to the first that asks it, so that of two ensembles at
//! most one has a majority.
//!
//! ```text
//! nothing, or data of before --asked by a founder--> first life of a member
//! nothing, where there is an ensemble --asks its leader for a seat--> next life of a member
//! data of before, where there is an ensemble: refused
//! ```

use std::collections::BTreeMap;

use crate::storage::{Members, SessionKey};

/// What the directory of a server without an ensemble holds. The greater one is the one to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Base {
    /// `currentEpoch`, which ZooKeeper compares first.
    pub epoch: i64,
    /// Of its last transaction; 0 for none.
    pub zxid: i64,
    /// The newest epoch that it has heard of.
    pub accepted: i64,
}

/// What a server is to others that ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It belongs to no ensemble.
    Before(Base),
    /// It belongs to one.
    Member {
        /// As which member.
        id: u64,
        /// To which.
        ensemble: u64,
        /// As its founder, it is about to ask these.
        asks: Vec<u8>,
    },
}

/// What a founder asks the others to belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Founding {
    /// A number that it drew.
    pub ensemble: u64,
    /// The term in which everything begins.
    pub term: u64,
    /// The greatest of those that it has heard.
    pub base: Base,
    /// The entry that shows it; 0 for nothing. Whoever has not got that far votes for nobody who has not.
    pub index: u64,
    /// All, in their first lives.
    pub members: Members,
}

/// What a server has to know to be a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// As which.
    pub id: u64,
    /// Of which ensemble.
    pub ensemble: u64,
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
    Seat(u8),
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is this.
    Standing(Standing),
    /// It belongs to it.
    Founded,
    /// It has this seat, where passwords of sessions are made so.
    Seat(Seat, Option<Box<HandedSecret>>),
    /// Another one is to be asked, or this one later.
    Elsewhere,
    /// It cannot be, and why.
    Refused(String),
}

/// What a server without a state does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Asks again.
    Wait,
    /// Founds the ensemble.
    Found,
    /// Asks for a seat.
    Join,
}

/// Decides what `own` does, of the voters' list `voters`, given what the others answered. `is_late` tells that whoever did
/// not answer so far is not waited for.
#[must_use]
pub fn decide(
    own: u8,
    base: Base,
    voters: &[u8],
    others: &BTreeMap<u8, Standing>,
    is_late: bool,
) -> Step {
    let mut heard = Vec::new();
    if voters.contains(&own) {
        heard.push((base.epoch, base.zxid, own));
    }
    let mut is_founded = false;
    for (server, standing) in others {
        match standing {
            Standing::Member { asks, .. } if asks.contains(&own) => return Step::Wait,
            Standing::Member { .. } => is_founded = true,
            Standing::Before(base) if voters.contains(server) => {
                heard.push((base.epoch, base.zxid, *server));
            }
            Standing::Before(_) => {}
        }
    }
    if is_founded {
        return Step::Join;
    }
    let is_enough = heard.len() == voters.len() || (is_late && heard.len() > voters.len() / 2);
    match heard.iter().max() {
        Some((_, _, greatest)) if is_enough && *greatest == own => Step::Found,
        _ => Step::Wait,
    }
}

/// Why a server does not belong to what another one founds.
///
/// # Errors
/// The reason, for both of them.
pub fn may_belong(own: Base, founding: &Founding) -> Result<(), String> {
    if (own.epoch, own.zxid) > (founding.base.epoch, founding.base.zxid) {
        return Err(format!(
            "its data is newer than that of the founder: epoch {}, zxid {:#x}, compared with epoch {}, zxid {:#x}",
            own.epoch, own.zxid, founding.base.epoch, founding.base.zxid
        ));
    }
    if u64::try_from(own.accepted).unwrap_or(0) >= founding.term {
        return Err(format!("it has already accepted epoch {}", own.accepted));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(epoch: i64, zxid: i64) -> Standing {
        Standing::Before(Base { epoch, zxid, accepted: epoch })
    }

    fn base(epoch: i64, zxid: i64) -> Base {
        Base { epoch, zxid, accepted: epoch }
    }

    fn member(asks: &[u8]) -> Standing {
        Standing::Member { id: 0x101, ensemble: 7, asks: asks.to_vec() }
    }

    #[test]
    fn the_greatest_of_all_founds_and_nobody_else() {
        // Java's rule (FastLeaderElection.totalOrderPredicate): epoch, then zxid, then id.
        for bases in [
            [base(0, 0), base(0, 0), base(0, 0)],
            [base(3, 9), base(4, 5), base(3, 12)],
            [base(2, 7), base(2, 7), base(2, 6)],
        ] {
            let founders = (0..3_u8).filter(|own| {
                let others = (0..3_u8).filter(|other| other != own).map(|other| {
                    let Base { epoch, zxid, .. } = bases[usize::from(other)];
                    (other, before(epoch, zxid))
                });
                let own_base = bases[usize::from(*own)];
                decide(*own, own_base, &[0, 1, 2], &others.collect(), false) == Step::Found
            });
            let founders: Vec<u8> = founders.collect();
            let greatest = (0..3_u8)
                .max_by_key(|id| {
                    let Base { epoch, zxid, .. } = bases[usize::from(*id)];
                    (epoch, zxid, *id)
                })
                .into_iter()
                .collect::<Vec<u8>>();
            assert_eq!(founders, greatest, "{bases:?}");
        }
    }

    #[test]
    fn a_majority_is_enough_only_when_the_others_are_late() {
        let others = BTreeMap::from([(1, before(1, 5))]);
        let decide = |own, base, is_late| decide(own, base, &[1, 2, 3], &others, is_late);
        assert_eq!(decide(2, base(1, 6), false), Step::Wait);
        assert_eq!(decide(2, base(1, 6), true), Step::Found);
        assert_eq!(decide(2, base(1, 4), true), Step::Wait);
        // An observer is no part of a majority, and founds nothing.
        assert_eq!(decide(4, base(9, 9), true), Step::Wait);
        let alone = BTreeMap::new();
        assert_eq!(super::decide(2, base(1, 6), &[1, 2, 3], &alone, true), Step::Wait);
        let with_observer = BTreeMap::from([(4, before(9, 9))]);
        assert_eq!(super::decide(2, base(1, 6), &[1, 2, 3], &with_observer, true), Step::Wait);
    }

    #[test]
    fn where_there_is_an_ensemble_nobody_founds_another() {
        let others = BTreeMap::from([(1, before(0, 0)), (3, member(&[]))]);
        assert_eq!(decide(2, base(5, 5), &[1, 2, 3], &others, true), Step::Join);
        // It will be asked.
        let others = BTreeMap::from([(1, before(0, 0)), (3, member(&[2]))]);
        assert_eq!(decide(2, base(0, 0), &[1, 2, 3], &others, true), Step::Wait);
    }

    #[test]
    fn nobody_gives_up_what_is_newer() {
        let founding = Founding {
            ensemble: 1,
            term: 5,
            base: base(4, 10),
            index: 7,
            members: Members::default(),
        };
        for (own, may) in [
            (base(4, 10), true),
            (base(4, 9), true),
            (base(3, 99), true),
            (base(4, 11), false),
            (base(5, 1), false),
            (Base { epoch: 4, zxid: 9, accepted: 5 }, false),
        ] {
            assert_eq!(may_belong(own, &founding).is_ok(), may, "{own:?}");
        }
    }
}
