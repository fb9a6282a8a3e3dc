//! Who is what among the servers that have answered.

use std::collections::BTreeMap;

use super::{Busy, OfLine, Servers, Standing};

/// The voters that are busy.
pub fn busy(voters: &[u8], others: &BTreeMap<u8, Standing>) -> impl Iterator<Item = (u8, Busy)> {
    let voters = others.iter().filter(|(server, _)| voters.contains(server));
    voters.filter_map(|(server, its)| match its {
        Standing::Busy(busy) => Some((*server, *busy)),
        Standing::Before(_) | Standing::Member { .. } | Standing::Removed { .. } => None,
    })
}

/// Those of the members that vote.
pub(super) fn voting(members: impl Iterator<Item = (u8, u64, OfLine)>) -> Servers {
    members.filter(|(_, _, of)| !of.lacks_vote).map(|(server, ..)| server).collect()
}

/// Whether an ensemble goes on with those of its members that answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Majority {
    /// Those that vote are too few.
    #[default]
    No,
    /// They are enough, and what the ensemble was founded on has come to too few of them.
    WithoutData,
    /// Enough of them have what it has acknowledged.
    WithData,
}

/// The same, by the newest configuration that one of them knows. Who has come back with an empty
/// directory counts when it votes.
pub(super) fn majority(ensemble: u64, others: &BTreeMap<u8, Standing>) -> Majority {
    let members = || {
        others.iter().filter_map(|(server, its)| match its {
            Standing::Member { ensemble: its, configured_at, of, .. } if *its == ensemble => {
                Some((*configured_at, (*server, *its, *of)))
            }
            _ => None,
        })
    };
    let Some((_, (.., newest))) = members().max_by_key(|its| its.0) else { return Majority::No };
    let with_data = voting(members().map(|its| its.1).filter(|its| !its.2.lacks_base));
    if newest.is_majority(with_data) {
        return Majority::WithData;
    }
    match newest.is_majority(voting(members().map(|its| its.1))) {
        true => Majority::WithoutData,
        false => Majority::No,
    }
}

/// The members of an ensemble that answer, and `own` with them, if nothing of what it was founded
/// on has come to any. None where one was taken out of it, which shows that more was there, or
/// where ZooKeeper went on with what another has.
pub(super) fn without_base(
    own: Option<u8>,
    ensemble: u64,
    others: &BTreeMap<u8, Standing>,
) -> Option<Vec<u8>> {
    let has_more = |its: &Standing| match its {
        Standing::Member { ensemble: its, of, .. } => *its == ensemble && !of.lacks_base,
        Standing::Removed { ensemble: its } => *its == ensemble,
        Standing::Before(its) => its.left.is_some_and(|left| left.ensemble == ensemble),
        Standing::Busy(_) => false,
    };
    let is_member =
        |its: &Standing| matches!(its, Standing::Member { ensemble: its, .. } if *its == ensemble);
    let members = others.iter().filter(|(_, its)| is_member(its)).map(|(server, _)| *server);
    let mut members: Vec<u8> = members.chain(own).collect();
    members.sort_unstable();
    (!members.is_empty() && !others.values().any(has_more)).then_some(members)
}

/// The other voters that are blank.
pub(super) fn blank(voters: &[u8], others: &BTreeMap<u8, Standing>) -> Vec<u8> {
    let is_blank =
        |server: &u8| matches!(others.get(server), Some(Standing::Before(its)) if its.is_blank());
    voters.iter().copied().filter(is_blank).collect()
}

/// The other voters that are empty, and not blank.
pub(super) fn empty(voters: &[u8], others: &BTreeMap<u8, Standing>) -> Vec<u8> {
    let is_empty = |server: &u8| match others.get(server) {
        Some(Standing::Before(its)) => its.base.is_empty() && !its.is_blank(),
        _ => false,
    };
    voters.iter().copied().filter(is_empty).collect()
}
