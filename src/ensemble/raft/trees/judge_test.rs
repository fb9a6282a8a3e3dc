use super::*;
use crate::ensemble::words::TreeVersion;

fn tree(zxid: i64, digest: i64) -> TreeDigest {
    TreeDigest { zxid: Zxid(zxid), version: TreeVersion::OWN, digest }
}

fn agrees(zxid: i64) -> TreeOf {
    TreeOf::that_agrees(tree(zxid, 1))
}

fn differs(since: i64, zxid: i64, digest: i64) -> TreeOf {
    let first = (zxid != since).then(|| tree(since, 10 * digest));
    let said: Vec<TreeDigest> = first.into_iter().chain([tree(zxid, digest)]).collect();
    that_said(&said)
}

fn that_said(said: &[TreeDigest]) -> TreeOf {
    let mut answer = agrees(0);
    said.iter().for_each(|said| answer.differs(*said));
    answer
}

fn judged(voters: u64, answers: &[(u64, TreeOf)]) -> Judged {
    let voters: Vec<u64> = (1..=voters).collect();
    judge(&voters, &answers.iter().cloned().collect())
}
#[test]
fn what_is_kept_of_a_member_that_differs_is_bounded() {
    let mut answer = agrees(0);
    for zxid in 1..=1000 {
        answer.differs(tree(zxid, zxid));
    }
    assert_eq!((answer.differing.len(), answer.last), (SAID_MAX, tree(1000, 1000)));
    assert_eq!(answer.differing.back(), Some(&answer.last));
    assert_eq!(answer.differs_from, Some(Zxid(1)));
}

/// Member 1 leads.
#[test]
fn right_is_what_more_than_half_of_the_voters_have() {
    let wrong =
        |members: &[u64]| Judged { against: None, wrong: members.to_vec(), open: Vec::new() };
    let open = |members: &[u64]| Judged { open: members.to_vec(), ..wrong(&[]) };
    let leader = Judged { against: Some(tree(5, 2)), ..wrong(&[]) };
    for (voters, answers, expected) in [
        (3, vec![], wrong(&[])),
        (3, vec![(2, agrees(5)), (3, agrees(4))], wrong(&[])),
        (3, vec![(2, agrees(5)), (3, differs(5, 5, 2))], wrong(&[3])),
        // It said so before the other began to differ: the leader's own tree may be the wrong
        // one.
        (3, vec![(2, agrees(4)), (3, differs(5, 5, 2))], open(&[3])),
        (3, vec![(2, agrees(6)), (3, differs(5, 9, 2))], wrong(&[3])),
        (3, vec![(3, differs(5, 5, 2))], open(&[3])),
        (3, vec![(2, differs(5, 5, 2)), (3, differs(5, 5, 2))], leader.clone()),
        // They differ from the leader, but also from each other, or may.
        (3, vec![(2, differs(5, 5, 3)), (3, differs(5, 5, 2))], open(&[2, 3])),
        (3, vec![(2, differs(5, 6, 2)), (3, differs(5, 5, 2))], open(&[2, 3])),
        // One of them lags, and has the same tree all the same.
        (
            3,
            vec![
                (2, that_said(&[tree(5, 2), tree(6, 3), tree(7, 4)])),
                (3, that_said(&[tree(5, 2)])),
            ],
            leader.clone(),
        ),
        (
            3,
            vec![(2, that_said(&[tree(5, 3), tree(6, 4)])), (3, that_said(&[tree(5, 2)]))],
            open(&[2, 3]),
        ),
        // Of two, nobody knows; a leader alone is right.
        (2, vec![(2, differs(5, 5, 2))], wrong(&[2])),
        (1, vec![(2, differs(5, 5, 2))], wrong(&[2])),
        // Who does not vote does not count, and is told the same.
        (
            3,
            vec![(4, differs(5, 5, 2)), (5, differs(5, 5, 2)), (6, differs(5, 5, 2))],
            open(&[4, 5, 6]),
        ),
        (3, vec![(2, agrees(5)), (4, differs(5, 5, 2))], wrong(&[4])),
        (3, vec![(2, differs(5, 5, 2)), (4, agrees(5))], open(&[2])),
        (5, vec![(2, agrees(5)), (3, differs(5, 5, 2)), (4, agrees(5))], wrong(&[3])),
        (5, vec![(2, agrees(5)), (3, differs(5, 5, 2)), (4, differs(5, 5, 2))], open(&[3, 4])),
        (
            5,
            vec![
                (2, agrees(5)),
                (3, differs(5, 5, 2)),
                (4, differs(5, 5, 2)),
                (5, differs(5, 5, 2)),
            ],
            leader.clone(),
        ),
    ] {
        assert_eq!(judged(voters, &answers), expected, "{voters} {answers:?}");
    }
}
