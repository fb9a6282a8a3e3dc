//! ConnectRequest and ConnectResponse, sessions, four-letter words.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, RawClient, Server, Session, four_letter_words};

use crate::Row;

pub(crate) const ROWS: [Row; 32] = [
    ("a handshake of 45 bytes, requests in the same segment", |server| {
        pipelined(server, Some(false));
    }),
    ("a handshake of 44 bytes, requests in the same segment", |server| pipelined(server, None)),
    ("a handshake byte by byte", byte_by_byte),
    ("requests behind a refused handshake are dropped", pipelined_behind_refusal),
    ("requests in the segment of attaching again are answered", pipelined_behind_attaching),
    ("a refusal's bytes, with and without the last field", refused_bytes),
    ("who may also read only gets a server that writes", read_only_client),
    ("another handshake is no request", second_handshake),
    ("the timeout is clamped", timeout_is_clamped),
    ("an empty or null password starts a session", empty_password),
    ("the protocol version is ignored", protocol_version),
    ("bytes behind the handshake's last field are ignored", trailing_bytes),
    ("a handshake too short for the password is closed silently", short_handshake),
    ("a wrong password is refused, the session lives", wrong_password),
    ("a password of the wrong length is refused", password_length),
    ("a zxid from the future is closed silently", future_zxid),
    ("a zxid from the future does not hurt the session it is for", future_zxid_of_session),
    ("the last zxid is none from the future", last_zxid_seen),
    ("an unknown session is refused", unknown_session),
    ("attaching again keeps id and password and takes no zxid", attach_again),
    ("a new session takes one zxid", new_session_takes_zxid),
    ("attaching again closes the older connection", older_connection),
    ("attaching again may change the timeout", attach_with_another_timeout),
    ("a closed session is refused", closed_session),
    ("an expired session ends without a word, its ephemerals gone", expired_session),
    ("an idle session lives as long as it pings", pinging_session),
    ("allowed words are answered", allowed_words),
    ("a word outside the whitelist is named", refused_words),
    ("an unknown word is closed silently", unknown_word),
    ("a word may be followed by anything", word_and_more),
    ("a word may come in pieces", word_in_pieces),
    ("a word behind a handshake is a length, and closed", word_behind_handshake),
];

/// Where ferrokeeper does better on purpose.
pub(crate) const MEANT_DIFFERENCES: [Row; 1] =
    [("a wrong password does not disturb the session's owner", owner_is_undisturbed)];

const PASSWORD: usize = 16;

fn open(server: &Server, request: &ConnectRequest) -> (RawClient, Session) {
    RawClient::open(server.address(), request).expect("a ConnectResponse")
}

fn assert_refused(session: &Session) {
    assert!(session.refused(), "{session:?}");
    assert_eq!((session.protocol_version, session.id), (0, 0));
    assert_eq!(session.password.as_ref(), [0; PASSWORD]);
}

fn assert_closed(client: &mut RawClient) {
    let rest = client.read_frame().expect("the end of the stream");
    assert_eq!(rest, None);
}

fn pipelined(server: &Server, read_only: Option<bool>) {
    let request = ConnectRequest { read_only, ..ConnectRequest::new(6_000) };
    let payload = request.bytes();
    assert_eq!(payload.len(), if read_only.is_some() { 45 } else { 44 });
    let path = if read_only.is_some() { "/hello45" } else { "/hello44" };
    let mut client = RawClient::dial(server.address()).expect("a socket");
    let mut bytes = Vec::new();
    request::buffer(&mut bytes, &payload);
    let create = request::create(path, Some(b"x"), mode::EPHEMERAL);
    bytes.extend(client.next_request(op::CREATE, &create).1);
    bytes.extend(client.next_request(op::GET_DATA, &request::path_watch(path, false)).1);
    bytes.extend(client.next_request(op::CLOSE_SESSION, &[]).1);
    client.send_raw(&bytes).expect("sent");
    let session = client.read_frame().expect("a frame").expect("a ConnectResponse");
    assert_eq!(session.len(), if read_only.is_some() { 37 } else { 36 });
    let replies: Vec<_> = (0..3).map(|_| client.read_reply().expect("a frame")).collect();
    let [Some(created), Some(got), Some(closed)] = replies.as_slice() else {
        panic!("three replies: {replies:?}")
    };
    assert_eq!((created.xid, created.err, created.path().as_str()), (1, 0, path));
    assert_eq!((got.xid, got.err, got.data().as_ref()), (2, 0, b"x".as_slice()));
    assert_eq!((closed.xid, closed.err, closed.body.len()), (3, 0, 0));
    assert_closed(&mut client);
}

/// A frame's bytes.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    request::buffer(&mut bytes, payload);
    bytes
}

fn byte_by_byte(server: &Server) {
    let mut client = RawClient::dial(server.address()).expect("a socket");
    for byte in framed(&ConnectRequest::new(6_000).bytes()) {
        client.send_raw(&[byte]).expect("sent");
    }
    assert!(!client.read_session().expect("a ConnectResponse").refused());
    for byte in client.next_request(op::EXISTS, &request::path_watch("/", false)).1 {
        client.send_raw(&[byte]).expect("sent");
    }
    let reply = client.read_reply().expect("a frame").expect("a reply");
    assert_eq!((reply.xid, reply.err), (1, 0));
    client.close().expect("closed");
}

fn pipelined_behind_refusal(server: &Server) {
    let stranger = ConnectRequest { session: 0x1234, ..ConnectRequest::new(6_000) };
    let mut client = RawClient::dial(server.address()).expect("a socket");
    let create = request::create("/refused", Some(b"x"), mode::PERSISTENT);
    let mut bytes = framed(&stranger.bytes());
    bytes.extend(client.next_request(op::CREATE, &create).1);
    client.send_raw(&bytes).expect("sent");
    assert_refused(&client.read_session().expect("a ConnectResponse"));
    assert_closed(&mut client);
    let mut other = server.connect(6_000);
    let body = request::path_watch("/refused", false);
    assert_eq!(other.call(op::EXISTS, &body).expect("a reply").err, -101);
    other.close().expect("closed");
}

fn pipelined_behind_attaching(server: &Server) {
    let (client, session) = open(server, &ConnectRequest::new(10_000));
    drop(client);
    let mut client = RawClient::dial(server.address()).expect("a socket");
    let mut bytes = framed(&ConnectRequest::again(&session).bytes());
    let create = request::create("/attached", None, mode::EPHEMERAL);
    bytes.extend(client.next_request(op::CREATE, &create).1);
    bytes.extend(client.next_request(op::EXISTS, &request::path_watch("/attached", false)).1);
    client.send_raw(&bytes).expect("sent");
    assert_eq!(client.read_session().expect("a ConnectResponse").id, session.id);
    let created = client.read_reply().expect("a frame").expect("a reply");
    assert_eq!((created.xid, created.err), (1, 0));
    let exists = client.read_reply().expect("a frame").expect("a reply");
    assert_eq!((exists.xid, exists.stat().ephemeral_owner), (2, session.id));
    client.close().expect("closed");
}

fn refused_bytes(server: &Server) {
    for (read_only, length) in [(Some(false), 37), (Some(true), 37), (None, 36)] {
        let request = ConnectRequest { session: 0x1234, read_only, ..ConnectRequest::new(6_000) };
        let mut client = RawClient::dial(server.address()).expect("a socket");
        client.send_frame(&request.bytes()).expect("sent");
        let refusal = client.read_frame().expect("a frame").expect("a ConnectResponse");
        let mut expected = vec![0; length];
        // The length of the password.
        expected[19] = 16;
        assert_eq!(refusal.as_ref(), expected);
        assert_closed(&mut client);
    }
}

fn read_only_client(server: &Server) {
    let request = ConnectRequest { read_only: Some(true), ..ConnectRequest::new(6_000) };
    let (mut client, session) = open(server, &request);
    assert_eq!(session.read_only, Some(false));
    let body = request::create("/written", None, mode::EPHEMERAL);
    assert_eq!(client.call(op::CREATE, &body).expect("a reply").err, 0);
    client.close().expect("closed");
}

fn second_handshake(server: &Server) {
    let (mut client, session) = open(server, &ConnectRequest::new(6_000));
    // Its first bytes are xid 0 and operation 0.
    client.send_frame(&ConnectRequest::new(6_000).bytes()).expect("sent");
    let reply = client.read_reply().expect("a frame").expect("a reply");
    assert_eq!((reply.xid, reply.zxid, reply.err), (0, -1, -6));
    assert_closed(&mut client);
    let (client, _) = open(server, &ConnectRequest::again(&session));
    client.close().expect("closed");
}

fn timeout_is_clamped(server: &Server) {
    for (asked, granted) in
        [(1, 2_000), (0, 2_000), (-5, 2_000), (5_000, 5_000), (1_000_000, 20_000)]
    {
        let (client, session) = open(server, &ConnectRequest::new(asked));
        assert_eq!(session.timeout, granted, "asked for {asked}");
        assert_ne!(session.id, 0);
        client.close().expect("closed");
    }
}

fn empty_password(server: &Server) {
    for password in [None, Some(Vec::new())] {
        let (client, session) =
            open(server, &ConnectRequest { password, ..ConnectRequest::new(6_000) });
        assert_eq!(session.password.len(), PASSWORD);
        assert_ne!(session.password.as_ref(), [0; PASSWORD]);
        client.close().expect("closed");
    }
}

fn protocol_version(server: &Server) {
    let request = ConnectRequest { protocol_version: 7, ..ConnectRequest::new(6_000) };
    let (client, session) = open(server, &request);
    assert_eq!((session.protocol_version, session.timeout), (0, 6_000));
    client.close().expect("closed");
}

fn trailing_bytes(server: &Server) {
    let mut client = RawClient::dial(server.address()).expect("a socket");
    let payload = [ConnectRequest::new(6_000).bytes(), vec![9; 11]].concat();
    client.send_frame(&payload).expect("sent");
    let session = client.read_session().expect("a ConnectResponse");
    assert_eq!((session.timeout, session.read_only), (6_000, Some(false)));
    client.close().expect("closed");
}

fn short_handshake(server: &Server) {
    let payload = ConnectRequest::new(6_000).bytes();
    for length in [1, 8, 24, 28, 43] {
        let mut client = RawClient::dial(server.address()).expect("a socket");
        client.send_frame(payload.get(..length).expect("45 bytes")).expect("sent");
        assert_closed(&mut client);
    }
}

fn wrong_password(server: &Server) {
    let (owner, session) = open(server, &ConnectRequest::new(10_000));
    drop(owner);
    for password in [None, Some(Vec::new()), Some(vec![1; PASSWORD]), Some(vec![1; 15])] {
        let (mut thief, refused) =
            open(server, &ConnectRequest { password, ..ConnectRequest::again(&session) });
        assert_refused(&refused);
        assert_closed(&mut thief);
    }
    let (owner, again) = open(server, &ConnectRequest::again(&session));
    assert_eq!(again.id, session.id);
    owner.close().expect("closed");
}

fn owner_is_undisturbed(server: &Server) {
    let (mut owner, session) = open(server, &ConnectRequest::new(10_000));
    let wrong = ConnectRequest { password: Some(vec![1; 16]), ..ConnectRequest::again(&session) };
    let (mut thief, refused) = open(server, &wrong);
    assert_refused(&refused);
    assert_closed(&mut thief);
    let reply = owner.call(op::EXISTS, &request::path_watch("/", false)).expect("still attached");
    assert_eq!(reply.err, 0);
    owner.close().expect("closed");
}

fn password_length(server: &Server) {
    let (owner, session) = open(server, &ConnectRequest::new(10_000));
    drop(owner);
    let right = session.password.to_vec();
    let passwords = [right[..15].to_vec(), [right.clone(), vec![0]].concat(), right[..1].to_vec()];
    for password in passwords {
        let request =
            ConnectRequest { password: Some(password), ..ConnectRequest::again(&session) };
        let (mut thief, refused) = open(server, &request);
        assert_refused(&refused);
        assert_closed(&mut thief);
    }
    let (owner, again) = open(server, &ConnectRequest::again(&session));
    assert_eq!(again.id, session.id);
    owner.close().expect("closed");
}

fn future_zxid_of_session(server: &Server) {
    let (mut owner, session) = open(server, &ConnectRequest::new(10_000));
    let request = ConnectRequest { last_zxid_seen: i64::MAX, ..ConnectRequest::again(&session) };
    let error = RawClient::open(server.address(), &request).expect_err("no ConnectResponse");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    // Its connection is as it was.
    let reply = owner.call(op::EXISTS, &request::path_watch("/", false)).expect("a reply");
    assert_eq!(reply.err, 0);
    owner.close().expect("closed");
}

fn last_zxid_seen(server: &Server) {
    let mut client = server.connect(10_000);
    let last = last_zxid(&mut client);
    for last_zxid_seen in [last, 0, -1] {
        let request = ConnectRequest { last_zxid_seen, ..ConnectRequest::new(6_000) };
        let (other, session) = open(server, &request);
        assert!(!session.refused(), "{last_zxid_seen}");
        other.close().expect("closed");
    }
    client.close().expect("closed");
}

fn future_zxid(server: &Server) {
    let request = ConnectRequest { last_zxid_seen: 1 << 40, ..ConnectRequest::new(6_000) };
    let error = RawClient::open(server.address(), &request).expect_err("no ConnectResponse");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

fn unknown_session(server: &Server) {
    for session in [0x1234, -1, i64::MAX] {
        let request = ConnectRequest { session, ..ConnectRequest::new(6_000) };
        let (mut client, refused) = open(server, &request);
        assert_refused(&refused);
        assert_closed(&mut client);
    }
}

fn last_zxid(client: &mut RawClient) -> i64 {
    client.call(op::EXISTS, &request::path_watch("/", false)).expect("a reply").zxid
}

fn attach_again(server: &Server) {
    let (mut client, session) = open(server, &ConnectRequest::new(10_000));
    let created = request::create("/again", None, mode::EPHEMERAL);
    assert_eq!(client.call(op::CREATE, &created).expect("a reply").err, 0);
    let zxid = last_zxid(&mut client);
    drop(client);
    let (mut client, again) = open(server, &ConnectRequest::again(&session));
    assert_eq!(again, session);
    assert_eq!(last_zxid(&mut client), zxid);
    let reply = client.call(op::EXISTS, &request::path_watch("/again", false)).expect("a reply");
    assert_eq!(reply.stat().ephemeral_owner, session.id);
    client.close().expect("closed");
}

fn new_session_takes_zxid(server: &Server) {
    let (mut client, _) = open(server, &ConnectRequest::new(10_000));
    let before = last_zxid(&mut client);
    let (other, _) = open(server, &ConnectRequest::new(10_000));
    assert_eq!(last_zxid(&mut client), before + 1);
    other.close().expect("closed");
    assert_eq!(last_zxid(&mut client), before + 2);
    client.close().expect("closed");
}

fn older_connection(server: &Server) {
    let (mut older, session) = open(server, &ConnectRequest::new(10_000));
    let (younger, _) = open(server, &ConnectRequest::again(&session));
    assert_closed(&mut older);
    younger.close().expect("closed");
}

fn attach_with_another_timeout(server: &Server) {
    let (_, session) = open(server, &ConnectRequest::new(10_000));
    let request = ConnectRequest { timeout: 4_000, ..ConnectRequest::again(&session) };
    let (client, again) = open(server, &request);
    assert_eq!((again.timeout, again.id), (4_000, session.id));
    client.close().expect("closed");
}

fn closed_session(server: &Server) {
    let (client, session) = open(server, &ConnectRequest::new(10_000));
    client.close().expect("closed");
    let (mut client, refused) = open(server, &ConnectRequest::again(&session));
    assert_refused(&refused);
    assert_closed(&mut client);
}

fn expired_session(server: &Server) {
    let (mut sleeper, session) = open(server, &ConnectRequest::new(2_000));
    let body = request::create("/sleeper", None, mode::EPHEMERAL);
    assert_eq!(sleeper.call(op::CREATE, &body).expect("a reply").err, 0);
    let asleep = Instant::now();
    let mut watcher = server.connect(20_000);
    let watch = request::path_watch("/sleeper", true);
    assert_eq!(watcher.call(op::EXISTS, &watch).expect("a reply").err, 0);
    let event = watcher.read_reply().expect("a frame").expect("a reply").event().expect("an event");
    assert_eq!((event.kind, event.path.as_str()), (2, "/sleeper"));
    assert_closed(&mut sleeper);
    let lived = asleep.elapsed();
    // The timeout, and a tick at most until the server looks.
    assert!(lived >= Duration::from_millis(1_900), "expired after {lived:?}");
    assert!(lived < Duration::from_millis(4_500), "expired after {lived:?}");
    let (_, refused) = open(server, &ConnectRequest::again(&session));
    assert_refused(&refused);
    watcher.close().expect("closed");
}

fn pinging_session(server: &Server) {
    let (mut client, _) = open(server, &ConnectRequest::new(2_000));
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(4_000) {
        let mut ping = Vec::new();
        ping.extend((-2_i32).to_be_bytes());
        ping.extend(op::PING.to_be_bytes());
        client.send_frame(&ping).expect("sent");
        let reply = client.read_reply().expect("a frame").expect("a reply");
        assert_eq!((reply.xid, reply.err, reply.body.len()), (-2, 0, 0));
        // The pace of the test itself: half the timeout.
        std::thread::sleep(Duration::from_millis(1_000));
    }
    client.close().expect("closed");
}

fn ask(server: &Server, word: &str) -> String {
    four_letter_words::ask(server.address(), word).expect("the end of the stream")
}

fn allowed_words(server: &Server) {
    assert_eq!(ask(server, "ruok"), "imok");
    assert_eq!(ask(server, "isro"), "rw");
    // Always allowed.
    assert!(ask(server, "srvr").starts_with("Zookeeper version: 3.9.5-"));
}

fn refused_words(server: &Server) {
    for word in ["stat", "mntr", "conf", "cons", "dump", "wchs", "hash", "crst"] {
        let message = format!("{word} is not executed because it is not in the whitelist.\n");
        assert_eq!(ask(server, word), message);
    }
}

fn unknown_word(server: &Server) {
    let mut client = RawClient::dial(server.address()).expect("a socket");
    client.send_raw(b"what").expect("sent");
    assert_closed(&mut client);
}

fn word_and_more(server: &Server) {
    assert_eq!(ask(server, "ruok\n"), "imok");
}

fn word_in_pieces(server: &Server) {
    let mut client = RawClient::dial(server.address()).expect("a socket");
    client.send_raw(b"ru").expect("sent");
    client.send_raw(b"o").expect("sent");
    client.send_raw(b"k").expect("sent");
    assert_eq!(client.read_all().expect("the end of the stream"), b"imok");
}

fn word_behind_handshake(server: &Server) {
    let (mut client, session) = open(server, &ConnectRequest::new(6_000));
    client.send_raw(b"ruok").expect("sent");
    assert_closed(&mut client);
    let (client, _) = open(server, &ConnectRequest::again(&session));
    client.close().expect("closed");
}
