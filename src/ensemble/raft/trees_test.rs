use super::*;
use crate::engine::database::Rules;

#[test]
fn without_digests_there_is_nothing_to_say() {
    let rules = Rules { digest: false, ..Rules::default() };
    let database = Database::new(1, rules);
    let mut trees = Trees::default();
    assert_eq!((trees.keep(&database), trees.own(Zxid::ZERO, &database)), (None, None));
}

/// The one that comes back may be the same member with another tree, or one that compares
/// nothing.
#[test]
fn a_doubt_goes_with_its_leader() {
    let mut trees = Trees { differs_from: Some(2), ..Trees::default() };
    trees.lost(3);
    assert_eq!(trees.differs_from, Some(2));
    trees.lost(2);
    assert_eq!(trees.differs_from, None);
}
