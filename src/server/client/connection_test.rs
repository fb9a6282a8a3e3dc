use std::net::Ipv4Addr;
use std::task::{Context, Waker};

use tokio::net::TcpListener;

use super::*;
use crate::server::client::long_list::LongList;

#[tokio::test]
async fn who_waits_for_a_turn_to_be_sent_a_list_does_not_stand_still() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, peer) = listener.accept().await.unwrap();
    let unread = Arc::new(Unread::new(1 << 30, 100));
    let (id, its) = (ConnectionId(1), Arc::clone(&unread));
    let connection = Connection::new(id, peer, socket, Clock::start(), its);
    let stands_still = || unread.longest(Duration::ZERO).is_some();
    connection.outbox.put_list(b"", LongList::of_a_megabyte(), b"", Fresh::NOTHING_READ);
    let takes_nothing = |_: &[u8]| Err(io::ErrorKind::WouldBlock.into());
    connection.outbox.send_of_list(takes_nothing).unwrap();
    assert!(stands_still());
    // Its socket takes something again, and somebody else has the turn.
    connection.socket.writable().await.unwrap();
    let listings = Sending::new();
    let mut sending = Box::pin(connection.send_of_list(&listings));
    let another_is_sent = || {
        let mut context = Context::from_waker(Waker::noop());
        assert!(sending.as_mut().poll(&mut context).is_pending());
        assert!(!stands_still());
    };
    listings.send(another_is_sent).await;
    sending.await.unwrap();
    assert!(connection.outbox.len() < 1_000_000);
}

#[test]
fn addresses_print_as_javas() {
    for (address, text) in [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::a:1", "fe80:0:0:0:0:0:a:1"),
    ] {
        assert_eq!(java_address(address.parse().unwrap()), text);
    }
}
