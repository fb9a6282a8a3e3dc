//! What operators are told about a member that does not take part in its ensemble yet.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::sentences::{
    answer_empty, ends_without_base, ends_without_others, holds_up, in_words, majority_wins,
    silent, term_of, unmounted, without_vote,
};
use crate::ensemble::standing::heard::{Majority, blank, busy, empty, voting, without_base};
use crate::ensemble::standing::{Begins, Left, Returning, Standing};

impl Returning<'_> {
    /// For an operator: the marker on as many that are blank as are needed, and never on a majority
    /// of the voters, which would begin on nothing as soon as no member answers.
    fn ends_with_marker(&self) -> String {
        let mut marks = blank(self.voters, self.others);
        for server in marks.clone().into_iter().rev() {
            let fewer: Vec<u8> = marks.iter().copied().filter(|its| *its != server).collect();
            if self.may_go_on_with(&fewer) {
                marks = fewer;
            }
        }
        let is_marked = |server: &&u8| match self.others.get(server) {
            Some(Standing::Before(its)) => its.begins == Begins::Marked,
            _ => false,
        };
        let marked = self.voters.iter().filter(is_marked).count() + marks.len();
        if marks.is_empty() || !self.may_go_on_with(&marks) || marked > self.voters.len() / 2 {
            return String::new();
        }
        format!(
            ". If nothing was ever there, run `touch initialize` in the dataDir of {marks}, and of \
             no other server: THIS LOSES what {marks} had",
            marks = in_words(&marks)
        )
    }

    /// What ends a wait that nobody else can end.
    pub(in crate::ensemble::standing) fn ends_without_others(&self) -> String {
        let Left { ensemble, of } = self.left;
        // The term of the founding has no other record than its first.
        let has_begun = of.last & 0xffff_ffff > 1 || of.term > term_of(of.last);
        let (id, asks, configured_at) = (0, Vec::new(), 0);
        let member = Standing::Member { id, ensemble, asks, has_begun, configured_at, of };
        let all = self.others.iter().chain([(&self.own, &member)]);
        ends_without_others(&Answers::of((ensemble, of), Majority::No, all))
    }

    /// For an operator of a member that took part and has no leader, if those who answer are no
    /// majority: for whom it waits.
    #[must_use]
    pub fn lost_majority(&self) -> Option<String> {
        let fellows = || {
            let others = self.others.iter().filter_map(|(server, its)| match its {
                Standing::Member { ensemble, of, .. } if *ensemble == self.left.ensemble => {
                    Some((*server, *ensemble, *of))
                }
                _ => None,
            });
            others.chain([(self.own, self.left.ensemble, self.left.of)])
        };
        let lacking = fellows().filter(|its| its.2.lacks_vote).map(|its| its.0);
        let lacking = without_vote(lacking.filter(|it| self.voters.contains(it)));
        let (silent, are) = silent(self.own, self.voters, self.others);
        let busy = holds_up(busy(self.voters, self.others), (silent.clone(), are));
        let start = match silent.as_str() {
            "" => String::new(),
            _ => format!(": start {silent}"),
        };
        (!self.left.of.is_majority(voting(fellows()))).then(|| {
            busy.unwrap_or_else(|| {
                format!(
                    "no majority of its ensemble answers{start}{lacking}{}{}{}",
                    answer_empty(&empty(self.voters, self.others)),
                    unmounted(&blank(self.voters, self.others)),
                    self.ends_without_others()
                )
            })
        })
    }

    /// For an operator: for whom it waits, and why.
    #[must_use]
    pub fn waits_for(&self) -> String {
        let (silent, are) = silent(self.own, self.voters, self.others);
        if let Some(text) = holds_up(busy(self.voters, self.others), (silent.clone(), are)) {
            return text;
        }
        let has_left = |(server, its): (&u8, &Standing)| match its {
            Standing::Before(its) if its.left.is_some() => Some(*server),
            _ => None,
        };
        if let Some(text) = without_any_base(self.own, self.left, self.voters, self.others) {
            return text;
        }
        let left = self.others.iter().find_map(has_left);
        let (start, end) = match (silent.as_str(), left) {
            (_, Some(_)) => (majority_wins(&silent), self.ends_without_others()),
            ("", None) => (String::new(), self.ends_without_others()),
            _ => (format!(": start {silent}"), self.ends_without_others()),
        };
        let end = unmounted(&blank(self.voters, self.others)) + &end + &self.ends_with_marker();
        match left {
            Some(server) => format!(
                "ZooKeeper has gone on with the data of server {server}, and not with that of this \
                 server. {start}{end}"
            ),
            None => format!("no majority of its ensemble answers{start}{end}"),
        }
    }
}

/// For an operator of the member `own` of an ensemble, to which nothing of what that was founded on
/// has come, if it has not to any other one that answers either, and nobody says later what it has.
#[must_use]
pub fn without_any_base(
    own: u8,
    left: Left,
    voters: &[u8],
    others: &BTreeMap<u8, Standing>,
) -> Option<String> {
    let members = without_base(Some(own), left.ensemble, others)?;
    let is_held_up = busy(voters, others).next().is_some();
    let (silent, _) = silent(own, voters, others);
    let has_held = |its: &Standing| match its {
        Standing::Member { ensemble, of, .. } => *ensemble == left.ensemble && of.held,
        _ => false,
    };
    let held = left.of.held || others.values().any(has_held);
    let has_data =
        others.values().any(|its| matches!(its, Standing::Before(its) if !its.base.is_empty()));
    let (unmounted, empty) = (unmounted(&blank(voters, others)), empty(voters, others));
    let end = ends_without_base(&members, &silent, &unmounted, held, &(empty, has_data));
    (left.of.lacks_base && !is_held_up)
        .then(|| format!("this server belongs to an ensemble, and {end}"))
}
