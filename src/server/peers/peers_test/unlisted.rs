//! Servers that are not in the list of the one that they call.

use super::listed::{begins, known, list};
use super::*;
use crate::ensemble::callers::Claim;
use crate::list::host::Host;

/// With reconfiguration.
fn reconfig() -> Settings {
    Settings { reconfig: true, ..Settings::default() }
}

/// Server 4, whose list has server 1 and itself.
fn four(port: u16, one_port: u16) -> Node {
    let node = Node::new(4, one_port, &Settings::default());
    node.peers.know(known(&[1, 4]));
    node.peers.set_list(&list(&[(1, one_port), (4, port)]));
    node
}

fn place_of(node: &Node, server: u8) -> Option<String> {
    Some(node.common().others.get(server)?.address()?.to_string())
}

async fn dial_one(node: &Node) -> io::Result<Stream> {
    let common = node.common();
    let one = common.others.get(1).expect("a peer");
    Ok(dial(&common, &one, WORDS, SILENT_MAX).await?.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_and_is_not_listed_is_heard_and_spoken_to_where_it_says() {
    let (listener, port) = listen().await;
    let (one_listener, one_port) = listen().await;
    let mut one = Node::new(1, 0, &reconfig());
    let mut four = four(port, one_port);
    one.answer(one_listener);
    four.answer(listener);
    begins(&one);
    begins(&four);
    let id = member_id(4, 1);
    one.hears(|what| matches!(what, FromPeer::Hears(its, true) if *its == id)).await;
    one.hears(|what| matches!(what, FromPeer::Speaks(its, true) if *its == id)).await;
    assert_eq!(place_of(&one, 4), Some(format!("peer:{port}")));
    assert_eq!(one.peers.version_with(4), Some(7));
    one.peers.send(PeerMessage { to: id, ..acknowledged(5, 1) });
    four.hears(is_said).await;
    // Whom it founds an ensemble with, or comes to one with, is a matter of lists.
    let asked = one.common().others.to_ask();
    assert!(asked.iter().all(|peer| peer.server == 2), "{asked:?}");
    // So its seat is asked for over a connection of its own.
    let (common, peer) = (four.common(), four.common().others.get(1).expect("a peer"));
    let (answer, _) = introduction::ask(&common, &peer, Question::Standing).await.expect("one");
    assert!(matches!(answer, FoundingAnswer::Standing(_)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reconfiguration_who_is_not_listed_is_refused() {
    let (listener, port) = listen().await;
    let one = Node::new(1, 0, &Settings::default());
    one.answer(listener);
    let error = dial_one(&four(4444, port)).await.expect_err("refused");
    assert_eq!(error.to_string(), "it refuses: server 4 is not in the list of server 1");
    assert_eq!(place_of(&one, 4), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_listed_and_says_nowhere_is_refused_and_told_why() {
    let (listener, port) = listen().await;
    let one = Node::new(1, 0, &reconfig());
    one.answer(listener);
    let error = dial_one(&four(0, port)).await.expect_err("refused");
    assert_eq!(
        error.to_string(),
        "it refuses: server 4 is not in the list of server 1, and does not say where other servers \
         can reach it"
    );
    assert_eq!(place_of(&one, 4), None);
}

/// The list is what all have agreed on; what a caller has may be older.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_listed_is_spoken_to_where_the_list_says() {
    let (listener, port) = listen().await;
    let one = Node::new(1, 0, &reconfig());
    one.answer(listener);
    one.peers.set_list(&list(&[(1, 0), (4, 4545)]));
    let _welcome = dial_one(&four(4444, port)).await.expect("welcome");
    assert_eq!(place_of(&one, 4), Some("peer:4545".to_owned()));
}

/// A copy of a directory asks before it is known that it is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_that_only_asks_does_not_move_the_first() {
    let (listener, port) = listen().await;
    let one = Node::new(1, 0, &reconfig());
    one.answer(listener);
    let first = four(4444, port);
    let welcome = dial_one(&first).await.expect("welcome");
    let second = Node::new(4, port, &Settings { process: Some(44), ..Settings::default() });
    second.peers.set_list(&list(&[(1, port), (4, 4545)]));
    let (common, peer) = (second.common(), second.common().others.get(1).expect("a peer"));
    dial(&common, &peer, QUESTION, SILENT_MAX).await.expect("welcome");
    assert_eq!(place_of(&one, 4), Some("peer:4444".to_owned()));
    drop(welcome);
    // The first has gone: the second has its place, and is where it says.
    let deadline = Instant::now() + DEADLINE;
    while place_of(&one, 4) != Some("peer:4545".to_owned()) {
        assert!(Instant::now() < deadline, "it is not moved");
        let _ = dial_one(&second).await;
    }
}

/// A member that was taken out has to end, whichever list has it.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_taken_out_is_no_peer_again() {
    let (listener, port) = listen().await;
    let one = Node::new(1, 0, &reconfig());
    one.answer(listener);
    one.peers.know(known(&[1, 2]));
    let error = dial_one(&four(4444, port)).await.expect_err("refused");
    assert_eq!(Refusal::kind_of(&error), Some(RefusalKind::Removed), "{error}");
    assert_eq!(place_of(&one, 4), None);
}

/// It may be of an ensemble that was copied with all its servers: nothing that it says of this one
/// ends it or has it fall silent.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_that_has_only_called_does_not_count() {
    for kind in [RefusalKind::Removed, RefusalKind::InUse] {
        let (listener, port) = listen().await;
        let four = four(port, 0);
        four.answer(listener);
        let mut copy = Node::new(1, 0, &Settings { process: Some(11), ..Settings::default() });
        if kind == RefusalKind::InUse {
            copy.peers.set_list(&list(&[(1, 0), (4, port)]));
            begins(&copy);
            copy.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
        } else {
            four.peers.know(known(&[4]));
        }
        let one = Node::new(1, 0, &reconfig());
        begins(&one);
        let id = member_id(4, 1);
        let claim = Claim { process: ProcessId(4), id, promised: Promised::default() };
        let address = Address { host: Host::of("peer").expect("a host"), port };
        one.common().meet(claim, Some(address), true).expect("room");
        let peer = one.common().others.get(4).expect("a peer");
        let dialled = dial(&one.common(), &peer, WORDS, SILENT_MAX).await;
        assert_eq!(Refusal::kind_of(&dialled.expect_err("refused")), Some(kind));
        tokio::time::sleep(5 * BETWEEN_DIALS).await;
        assert!(!one.peers.is_silent(), "{kind:?}");
        let heard = one.common().queue.take(Duration::ZERO).from_peers;
        assert!(!heard.iter().any(|(what, _)| matches!(what, FromPeer::Refused(_))), "{heard:?}");
    }
}
