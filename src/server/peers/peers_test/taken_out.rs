//! Members that were taken out of the ensemble.

use super::*;

/// Whom it asked as a member says nothing of who has answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_founder_that_was_taken_out_confirms_nothing() {
    let (one, two) = (Node::new(1, 0, &Settings::default()), Node::new(2, 0, &Settings::default()));
    let directory = Arc::clone(&two.common().directory);
    two.peers.is_no_member(Before::read(directory, &starts(2)).expect("an empty directory"));
    two.common().introduction.lock().accepts(to(7));
    let Question::Founded(founding, secret) = offer(1, 7) else { unreachable!() };
    let answer = two.common().belong((1, ProcessId(1)), founding, secret).await;
    assert_eq!(answer, FoundingAnswer::Founded);
    let (id, over) = (member_id(1, 1), Some(Over::Removed));
    let state = RaftState { id, ensemble: 7, term: 2, asks: vec![], over, ..RaftState::default() };
    one.peers.is_member(&state, 0);
    let standing = one.common().standing().expect("it is there");
    let others = [(1, standing)].into_iter().collect();
    assert!(!two.common().introduction.lock().is_known(2, &others));
    let state = RaftStateFile::look(&two.common().directory).expect("looks").expect("is there");
    assert_eq!(state.awaits, member_id(1, 1));
}

/// It may have called before the one that it called had applied that.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_taken_out_while_it_speaks_is_heard_no_more_and_told_when_it_calls_again() {
    let (listener, port) = listen().await;
    let listener = Arc::new(listener);
    let settings = Settings::default();
    let (one, mut two) = (Node::new(1, port, &settings), Node::new(2, 0, &settings));
    let heeded = heed_one(&two, Arc::clone(&listener));
    let (common, other) = (one.common(), one.other());
    let spoken = dial(&common, &other, WORDS, SILENT_MAX).await.expect("welcome");
    two.hears(|what| matches!(what, FromPeer::Hears(_, true))).await;
    let known = |ids: &[u8]| {
        let ids = ids.iter().map(|server| member_id(*server, 1)).collect();
        KnownMembers::new(ids, 40, OfLine::default())
    };
    two.peers.know(known(&[1, 2]));
    assert!(two.heard.is_empty() && !heeded.is_finished());
    two.peers.know(known(&[2]));
    two.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
    let _ = heeded.await.expect("no panic");
    drop(spoken);
    let heeded = heed_one(&two, listener);
    let error = one.dial().await.expect_err("refused");
    assert!(matches!(Refusal::kind_of(&error), Some(RefusalKind::Removed)), "{error}");
    let _ = heeded.await.expect("no panic");
}
