//! Servers that the list gets, moves and loses while this one runs.

use super::*;
use crate::list::ServerList;

/// Servers with their ports.
pub(super) fn list(servers: &[(u8, u16)]) -> Servers {
    let lines = servers.iter().map(|(id, port)| format!("server.{id}=peer:{port}:1\n"));
    ServerList::parse(&lines.collect::<String>()).expect("a list").servers
}

pub(super) fn known(servers: &[u8]) -> KnownMembers {
    let ids = servers.iter().map(|server| member_id(*server, 1)).collect();
    KnownMembers::new(ids, 40, OfLine::default())
}

/// From here on it speaks to its peers.
pub(super) fn begins(node: &Node) {
    node.common().voice.has_waited();
    node.common().speak_to(node.common().others.begin_to_speak());
}

fn to(server: u8, index: u64) -> PeerMessage {
    PeerMessage { to: member_id(server, 1), ..acknowledged(5, index) }
}

fn index(what: &FromPeer) -> Option<u64> {
    match what {
        FromPeer::Said(_, Said::Message(message)) => Some(message.index),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_to_the_list_is_dialled() {
    let (listener, port) = listen().await;
    let mut one = Node::new(1, 0, &Settings::default());
    let mut three = Node::new(3, 0, &Settings::default());
    three.answer(listener);
    begins(&one);
    one.peers.send(to(3, 1));
    one.peers.set_list(&list(&[(1, 0), (2, 0), (3, port)]));
    one.hears(|what| matches!(what, FromPeer::Speaks(id, true) if *id == member_id(3, 1))).await;
    three.hears(|what| matches!(what, FromPeer::Hears(id, true) if *id == member_id(1, 1))).await;
    one.peers.send(to(3, 2));
    assert_eq!(index(&three.hears(is_said).await), Some(2));
}

/// What was said to the old address while the new one was known already would be said to whoever
/// is there now.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_whose_address_changes_is_spoken_to_there_and_not_where_it_was() {
    let (old_listener, old_port) = listen().await;
    let (new_listener, new_port) = listen().await;
    let mut one = Node::new(1, old_port, &Settings::default());
    let mut old = Node::new(2, 0, &Settings::default());
    let mut new = Node::new(2, 0, &Settings { process: Some(22), ..Settings::default() });
    old.answer(old_listener);
    new.answer(new_listener);
    begins(&one);
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    old.hears(|what| matches!(what, FromPeer::Hears(_, true))).await;
    // The same list again changes nothing.
    one.peers.set_list(&list(&[(1, 0), (2, old_port)]));
    one.peers.send(to(2, 1));
    assert_eq!(index(&old.hears(is_said).await), Some(1));

    let (is_up, peer) = (|peer: &Peer| peer.unsent.lock().is_up, one.other());
    assert!(is_up(&peer));
    one.peers.set_list(&list(&[(1, 0), (2, new_port)]));
    assert!(!is_up(&peer), "from that moment on");
    one.peers.send(to(2, 2));
    one.hears(|what| matches!(what, FromPeer::Speaks(_, false))).await;
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    one.peers.send(to(2, 3));
    assert_eq!(index(&new.hears(is_said).await), Some(3));
    old.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
    assert!(!old.heard.iter().any(is_said), "{:?}", old.heard);
}

/// As long as it is a member it may be needed, by its vote or for what it has.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_leaves_the_list_is_a_peer_until_it_is_no_member() {
    let (one_listener, one_port) = listen().await;
    let (two_listener, two_port) = listen().await;
    let mut one = Node::new(1, two_port, &Settings::default());
    let mut two = Node::new(2, one_port, &Settings::default());
    one.answer(one_listener);
    two.answer(two_listener);
    begins(&one);
    begins(&two);
    for node in [&mut one, &mut two] {
        node.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    }
    one.peers.know(known(&[1, 2]));
    one.peers.set_list(&list(&[(1, one_port)]));
    one.peers.send(to(2, 1));
    assert_eq!(index(&two.hears(is_said).await), Some(1));
    two.peers.send(to(1, 2));
    assert_eq!(index(&one.hears(is_said).await), Some(2));
    two.heard.clear();

    // Of a time before its life: nothing is known of a removal.
    one.peers.know(KnownMembers::new(vec![member_id(1, 1)], 0, OfLine::default()));
    one.peers.send(to(2, 3));
    assert_eq!(one.peers.version_with(2), None, "it is neither spoken to nor heard");
    one.hears(|what| matches!(what, FromPeer::Speaks(_, false))).await;
    two.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
    let (_, reason) = refused(&two).await;
    assert!(reason.contains("server 2 is not in the list of server 1"), "{reason}");
    tokio::time::sleep(5 * BETWEEN_DIALS).await;
    let batch = two.peers.0.queue.take(Duration::ZERO);
    two.heard.extend(batch.from_peers.into_iter().map(|(what, _)| what));
    let is_dialled = |what: &FromPeer| matches!(what, FromPeer::Hears(_, true));
    assert!(!two.heard.iter().any(|what| is_said(what) || is_dialled(what)), "{:?}", two.heard);

    // It comes back.
    one.peers.set_list(&list(&[(1, one_port), (2, two_port)]));
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
}
