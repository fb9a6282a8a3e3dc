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
fn that_it_differs_from_a_leaders_is_forgotten_with_that() {
    let mut trees = Trees { differs_from: Some(2), ..Trees::default() };
    trees.lost(3);
    assert_eq!(trees.differs_from, Some(2));
    trees.lost(2);
    assert_eq!(trees.differs_from, None);
}

#[test]
fn a_doubt_outlasts_who_raised_it_until_a_later_transaction_shows_the_same() {
    let mut trees = Trees::default();
    trees.compared(Zxid(5), false);
    trees.compared(Zxid(7), false);
    trees.lost(2);
    trees.end_of_term();
    // It differed after that one.
    trees.compared(Zxid(6), true);
    assert!(trees.is_doubted());
    trees.compared(Zxid(7), true);
    assert!(!trees.is_doubted());
    trees.compared(Zxid(8), false);
    trees.replaced();
    assert!(!trees.is_doubted());
}

/// Of two voters the leader is believed once it has looked at its own tree. Of three, another one
/// has to agree.
#[test]
fn a_leader_doubts_its_own_tree_until_it_is_known_to_be_right() {
    let tree = |zxid, digest| TreeDigest { zxid: Zxid(zxid), version: TreeVersion::OWN, digest };
    let agrees = |zxid| TreeOf::that_agrees(tree(zxid, 1));
    let mut differs = agrees(4);
    differs.differs(tree(5, 2));

    let mut trees = Trees::default();
    trees.answers.insert(2, differs.clone());
    assert!(!trees.is_believed(&[2], 2));
    trees.weigh(&[2], &[1, 2]);
    trees.looked(Zxid(4));
    assert!(trees.is_doubted());
    trees.looked(Zxid(5));
    assert!(!trees.is_doubted());

    trees.weigh(&[2], &[1, 2, 3]);
    trees.lost(2);
    trees.end_of_term();
    assert!(trees.is_doubted());
    for (answers, is_doubted) in [
        // Who does not vote, and who had not come to that transaction, tell nothing.
        (vec![(4, agrees(9))], true),
        (vec![(3, agrees(4)), (4, agrees(9))], true),
        (vec![(3, agrees(5))], false),
    ] {
        trees.answers = answers.into_iter().collect();
        trees.weigh(&[], &[1, 2, 3]);
        assert_eq!(trees.is_doubted(), is_doubted);
    }
}
