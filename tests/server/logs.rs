//! What the log says, and what it never does; and the room that the transaction log has ahead.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use jute::CreateMode;
use jute::protocol::{AuthPacket, CreateTtlRequest, Request};
use jute::{Acl, perms};
use socket2::SockRef;

use crate::client::{connect_frame, connect_response, create, ends, open, until};
use crate::process::Server;

const PASSWORD: &str = "open-sesame";
const SUPER_DIGEST: &str = "x1nq8J5GOJVPY6zgzhtTtA9izLc=";

fn auth(token: &str) -> Request<'_> {
    let token = Some(token.as_bytes().into());
    Request::Auth(AuthPacket { auth_type: 0, scheme: Some("digest".into()), auth: token })
}

/// As tracing could print bytes.
fn prints(bytes: &[u8]) -> [String; 2] {
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [hex, format!("{bytes:?}")]
}

#[test]
fn no_secret_is_logged_at_any_level() {
    let mut process = Server::prepare("");
    let folder = process.data().join("logs");
    let mut command = process.command();
    command
        .arg(format!("-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{SUPER_DIGEST}"))
        .arg("-Dzookeeper.audit.enable=true")
        .env("FERROKEEPER_LOG", "trace")
        .env("ZOO_LOG_DIR", &folder);
    process.run_as(command);

    let mut client = process.connect(10_000);
    let password = client.session.password;
    client.ok(&auth(&format!("bob:{PASSWORD}")));
    client.ok(&create("/a", b"not-for-the-log".to_vec(), CreateMode::Persistent));
    // A second connection of the session, one with a wrong password, and words that are none.
    let again = client.again(process.address());
    let mut wrong = open(process.address());
    let forged = [0x5a; 16];
    let frame = connect_frame(10_000, again.session.session_id, &forged);
    wrong.write_all(&frame).expect("sent");
    assert_eq!(connect_response(&mut wrong).session_id, 0);
    let mut refused = process.connect(10_000);
    refused.send(&[auth(PASSWORD)]);
    while refused.receive().is_some() {}
    // Worth a line at debug only.
    let reset = process.connect(10_000);
    SockRef::from(&reset.stream).set_linger(Some(Duration::ZERO)).expect("set");
    drop(reset);
    until("the reset is told", || process.log().contains("DEBUG"));
    process.signal("TERM");
    assert!(process.wait().success(), "{}", process.log());

    let file = fs::read_to_string(folder.join("zookeeper.log")).expect("a log beside stderr");
    let audit = fs::read_to_string(folder.join("zookeeper_audit.log")).expect("an audit log");
    assert!(audit.contains("user=127.0.0.1,bob\t"), "{audit}");
    let log = process.log();
    assert!(log.contains("[FK0510] wrong password for a session"), "{log}");
    let mut secrets: Vec<String> =
        [PASSWORD, SUPER_DIGEST, "not-for-the-log"].map(str::to_owned).into();
    secrets.extend(prints(&password));
    secrets.extend(prints(&forged));
    for text in [&log, &file, &audit] {
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "{secret} is logged: {text}");
        }
    }
    // Each line has its own time there.
    let said = |line: &str| line.split_once(' ').map(|(_, said)| said.to_owned());
    let [here, there] = [&log, &file].map(|text| text.lines().map(said).collect::<Vec<_>>());
    assert_eq!(there, here);
}

#[test]
fn who_does_the_same_wrong_again_does_not_fill_the_disk() {
    let mut process = Server::prepare("");
    let mut command = process.command();
    command.env("FERROKEEPER_LOG_FORMAT", "json");
    process.run_as(command);
    let began = Instant::now();
    for len in 0..200_i32 {
        let mut stream = open(process.address());
        // From another port, and another length each time.
        stream.write_all(&(i32::MAX - len).to_be_bytes()).expect("sent");
        ends(&mut stream);
    }
    let seconds = began.elapsed().as_secs() + 1;
    process.signal("TERM");
    assert!(process.wait().success(), "{}", process.log());
    let lines: Vec<serde_json::Value> = process
        .log()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect();
    let says = |line: &&serde_json::Value| {
        line["message"].as_str().is_some_and(|text| text.contains("jute.maxbuffer"))
    };
    let told: Vec<&serde_json::Value> = lines.iter().filter(says).collect();
    assert!(!told.is_empty() && told.len() as u64 <= seconds + 1, "{told:#?} in {seconds} s");
    assert_eq!((&told[0]["level"], &told[0]["id"]), (&"WARN".into(), &"FK0506".into()));
}

#[test]
fn who_is_refused_on_purpose_is_told_of_once() {
    let process = Server::start("");
    let ttl = |path: &'static str| {
        Request::CreateTtl(CreateTtlRequest {
            path: path.into(),
            data: None,
            acl: Some(vec![Acl::anyone(perms::ALL)]),
            flags: CreateMode::Persistent.flags(),
            ttl: -1,
        })
    };
    let of_all = create("/zookeeper/quota/zookeeper_limits", Vec::new(), CreateMode::Persistent);
    let mut client = process.connect(10_000);
    for request in [ttl("/a"), ttl("/b"), of_all, ttl("/c")] {
        assert_eq!(client.call(&request).header.err, -8);
    }
    // deleteContainer.
    let mut frame = bytes::BytesMut::new();
    jute::protocol::put_frame(&mut frame, |out| {
        bytes::BufMut::put_slice(out, &[[0, 0, 0, 9], [0, 0, 0, 20]].concat());
    });
    let mut stranger = process.connect(10_000);
    stranger.stream.write_all(&frame).expect("sent");
    assert_eq!(stranger.receive().map(|reply| reply.header.err), Some(-6));
    until("all are told", || process.log().matches("[FK0512]").count() >= 3);
    let log = process.log();
    assert_eq!(log.matches("[FK0512]").count(), 3, "{log}");
    let session = format!("client={:#x}", client.session.session_id);
    assert_eq!(log.matches(&session).count(), 2, "{log}");
}

/// ZooKeeper makes its log `preAllocSize` longer before it needs that; here whole segments wait,
/// and the first transaction takes one.
#[test]
fn segments_of_the_transaction_log_are_there_before_they_are_needed() {
    const LEN: u64 = 64 << 10;
    let process = Server::start("preAllocSize=64");
    let lengths = |prefix: &str| -> Vec<u64> {
        let entries = fs::read_dir(process.data().join("version-2")).expect("a folder");
        let entries = entries.map(|entry| entry.expect("an entry"));
        let its = entries.filter(|its| its.file_name().to_string_lossy().starts_with(prefix));
        its.map(|its| its.metadata().expect("it is there").len()).collect()
    };
    until("two spares are ready", || lengths("spare.").len() == 2);
    assert_eq!((lengths("spare."), lengths("log.")), (vec![LEN; 2], vec![]));
    let mut client = process.connect(10_000);
    client.ok(&create("/a", b"1".to_vec(), CreateMode::Persistent));
    assert_eq!(lengths("log."), [LEN]);
    until("two are ready again", || lengths("spare.").len() == 2);
    assert_eq!(lengths("spare."), [LEN; 2]);
}
