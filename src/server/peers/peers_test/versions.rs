//! Peers that speak another version of what servers say to each other.

use super::listed::begins;
use super::*;

/// The hello of a server that speaks version 6 and no other.
fn hello() -> Vec<u8> {
    [&b"ferrokpr\0\0\0\x3e\0\0\0\x06\0\0\0\x06"[..], &[0; 21 + 33]].concat()
}

/// What server 2 says of itself in version 6, for `purpose` to server 1.
fn introduction(purpose: u32) -> Vec<u8> {
    let numbers = [2, member_id(2, 1), 7, 5, 90].map(u64::to_be_bytes).concat();
    [&[0, 0, 0, 45][..], &purpose.to_be_bytes(), &[1], &numbers].concat()
}

fn alive(number: u64) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_said(&mut out, &Said::Alive(number));
    out.to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_speaks_the_version_before_is_told_nothing_that_it_does_not_know() {
    let (listener, port) = listen().await;
    let mut one = Node::new(1, port, &Settings::default());
    begins(&one);
    assert_eq!(one.peers.version_with(2), None);
    let (mut old, _) = listener.accept().await.expect("it is dialled");
    let hello = read(&mut old, 12 + 62).await;
    assert_eq!(hello[12..20], [0, 0, 0, 6, 0, 0, 0, 7]);
    old.write_all(&[&[0; 4][..], &[0, 0, 0, 6], &[0; 33]].concat()).await.expect("sent");
    // It hears what version 6 has, and no more.
    let said = read(&mut old, 4 + 45).await;
    assert_eq!(said[..4], [0, 0, 0, 45]);
    old.write_all(&[&[0][..], &introduction(WORDS)].concat()).await.expect("sent");
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    assert_eq!(one.peers.version_with(2), Some(6));
    one.peers.put(member_id(2, 1), &Said::Alive(77), 7);
    one.peers.put(member_id(2, 1), &Said::Alive(66), 6);
    let expected = [alive(0), alive(66)].concat();
    assert_eq!(read(&mut old, expected.len()).await, expected);
    drop(old);
    one.hears(|what| matches!(what, FromPeer::Speaks(_, false))).await;
    assert_eq!(one.peers.version_with(2), None);
}

/// As after a restart with an earlier release, while what the later one has dialled is still there.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_spoken_with_a_peer_is_the_lower_version_of_both_directions() {
    let (listener, port) = listen().await;
    let (own_listener, own_port) = listen().await;
    let mut one = Node::new(1, port, &Settings::default());
    let two = Node::new(2, 0, &Settings::default());
    two.answer(listener);
    one.answer(own_listener);
    begins(&one);
    one.hears(|what| matches!(what, FromPeer::Speaks(_, true))).await;
    assert_eq!(one.peers.version_with(2), Some(7));
    let mut caller = TcpStream::connect(local(own_port)).await.expect("a connection");
    caller.write_all(&[hello(), introduction(WORDS)].concat()).await.expect("sent");
    one.hears(|what| matches!(what, FromPeer::Hears(_, true))).await;
    assert_eq!(one.peers.version_with(2), Some(6));
    let answer = read(&mut caller, 4 + 37 + 1 + 4 + 45).await;
    assert_eq!(
        (&answer[4..8], answer[41], &answer[42..46]),
        (&[0, 0, 0, 6][..], 0, &[0, 0, 0, 45][..])
    );
    drop(caller);
    one.hears(|what| matches!(what, FromPeer::Hears(_, false))).await;
    assert_eq!(one.peers.version_with(2), Some(7));
}
