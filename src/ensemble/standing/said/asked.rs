//! What operators are told of a server that another one asks to join the ensemble that it founds.

use super::answers::Advice;
use super::sentences::{LOADS, started};
use crate::ensemble::standing::{OfLine, Round};
use crate::storage::MOVE_ASIDE;

impl Round<'_> {
    /// For an operator, where a server asks this one to join the ensemble that it founds.
    pub(super) fn is_asked(
        &self,
        server: u8,
        of: (u64, OfLine),
        (is_late, marked): (bool, &str),
    ) -> String {
        let accepts = self.accepts();
        let tries_seat = accepts.is_some() && is_late && self.needs_no_founder(of.0);
        match accepts {
            Some(_) if tries_seat => self.lacks_seat(server, of),
            Some(_) if is_late && self.has_to_show() && self.knows_begun(of.0) => {
                self.is_asked_for_long(server, of)
            }
            Some(_) => format!(
                "server {server} is founding the ensemble and has not asked this one yet, or \
                 does not know all of its members yet, or has founded it on less data than \
                 another server has"
            ),
            None => self.holds_up().unwrap_or_else(|| {
                let is_told = self.holding.is_blank() && self.voters.contains(&self.own);
                let own = match is_told {
                    true => "",
                    false => ". Check that the disk of this server is mounted",
                };
                // Where its founder is silent for a moment, a majority with the marker would
                // begin on nothing.
                let end = match self.may_be_marked() {
                    true => format!(
                        ". To join the ensemble of server {server} at once, run {marked}: THIS \
                         LOSES what this server had in another ensemble"
                    ),
                    false => self.ends_with_all(),
                };
                format!(
                    "server {server} asks this empty server to join its ensemble, but {} and \
                     may belong to another ensemble, of which this server was a member before \
                     its directory was emptied{own}{}{}{end}",
                    self.missing(),
                    self.unmounted(),
                    started(&self.silent().0)
                )
            }),
        }
    }

    /// For an operator, where the founder of an ensemble that has begun still asks this server,
    /// which has data: it may have more than that was founded on.
    fn is_asked_for_long(&self, server: u8, of: (u64, OfLine)) -> String {
        let end = match self.answers(of, self.majority(of.0)).advice() {
            Advice::GiveUp => format!(
                "If this lasts, this server has data that the ensemble does not have: find out \
                 which is right. A majority of that ensemble answers and has its data: while it \
                 does, and only if the data of this server is not needed, stop server {}, \
                 {MOVE_ASIDE}, and start the server again",
                self.own
            ),
            Advice::Wait => format!("Of that ensemble, {LOADS}"),
            Advice::FindOut(..) | Advice::Leave | Advice::LeaveBeside(..) | Advice::Decide(..) => {
                if let Some(text) = self.holds_up() {
                    return text;
                }
                format!(
                    "No majority of that ensemble answers: start its other servers{}{}",
                    self.without_vote(of.0),
                    self.ends_without_others(of)
                )
            }
        };
        format!(
            "server {server} founded an ensemble that has begun. It still asks this server to \
             join, which this server does if its own data is older. {end}"
        )
    }

    /// Whether all empty voters that are heard can have the marker and are no majority.
    fn may_be_marked(&self) -> bool {
        self.heard().filter(|its| !its.0).count() <= self.voters.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::ensemble::standing::*;

    /// Its founder still asks this one, in vain.
    #[test]
    fn who_has_more_than_an_ensemble_that_has_begun_is_told_what_to_decide() {
        let base = Base { epoch: 3, zxid: 4, accepted: 3 };
        let holding = Holding { base, ..Holding::default() };
        let text = |has_begun, is_late| {
            let member = |server: u8, asks: &[u8]| {
                let of = OfLine { held: true, ..OfLine::default() };
                let (id, asks) = (u64::from(server) | 0x100, asks.to_vec());
                let (ensemble, configured_at) = (7, 0);
                Standing::Member { id, ensemble, asks, has_begun, configured_at, of }
            };
            let others = BTreeMap::from([(1, member(1, &[2])), (3, member(3, &[]))]);
            let round = Round { own: 2, holding, voters: &[1, 2, 3], others: &others };
            round.waits_for(is_late, "/data")
        };
        let told = text(true, true);
        assert!(told.contains("find out which is right"), "{told}");
        assert!(told.contains("is not needed, stop server 2, move `version-2`"), "{told}");
        for (has_begun, is_late) in [(false, true), (true, false)] {
            let told = text(has_begun, is_late);
            assert!(!told.contains("move `version-2`"), "{told}");
        }
    }
}
