//! What operators are told where other servers refuse what this one asks of them.

use std::collections::BTreeMap;

use super::sentences::in_words;
use crate::ensemble::standing::Standing;

/// How a server refuses what this one asks of it, for an operator: after which server it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refuses {
    /// In words.
    pub said: String,
    /// The two belong to two ensembles: there may be nothing to correct.
    pub is_of_another: bool,
}

impl From<String> for Refuses {
    fn from(said: String) -> Self {
        Self { said, is_of_another: false }
    }
}

/// For an operator, if servers refuse what this one asks of them, each with what it says of that:
/// until that is mended, nobody knows what they hold, and nothing is given up.
#[must_use]
pub fn refused(
    own: u8,
    voters: &[u8],
    others: &BTreeMap<u8, Standing>,
    refusals: &BTreeMap<u8, Refuses>,
) -> Option<String> {
    let counts = |server: &u8| voters.contains(server) || others.contains_key(server);
    let refused: Vec<_> = refusals.iter().filter(|its| counts(its.0)).collect();
    let all: Vec<String> =
        refused.iter().map(|(server, why)| format!("server {server} {}", why.said)).collect();
    let may_count = |its: &&(&u8, &Refuses)| !others.contains_key(its.0) && !its.1.is_of_another;
    let correct = match refused.iter().any(|its| may_count(&its)) {
        true => ". Correct that first: the data there may be needed",
        false => "",
    };
    let of_another = match refused.iter().any(|its| its.1.is_of_another) {
        true => {
            ". If that is not the reason, check that the lists name the right servers. Move no \
             data away before it is known which ensemble served clients"
        }
        false => "",
    };
    let is_silent = |server: &u8| {
        *server != own && !others.contains_key(server) && !refusals.contains_key(server)
    };
    let silent: Vec<u8> = voters.iter().copied().filter(is_silent).collect();
    let besides = match silent.as_slice() {
        [] => String::new(),
        [_] => format!(". In addition, {} does not answer: start it", in_words(&silent)),
        _ => format!(". In addition, {} do not answer: start them", in_words(&silent)),
    };
    (!all.is_empty()).then(|| format!("{}{correct}{of_another}{besides}", all.join("; ")))
}
