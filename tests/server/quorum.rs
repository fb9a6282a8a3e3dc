//! Who gets into an ensemble and who does not: certificates, secrets, names, strangers.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use jute::CreateMode;
use tempfile::TempDir;

use crate::certificates::Authority;
use crate::client::{DEADLINE, create, open, set, until};
use crate::ensemble::{Patient, SNAPSHOTS_SOON, leader, mark, mode, one_is_away_for_long};
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 4000;

/// Servers of one list, each with lines of its own. `host` is where server `of` is for server `by`.
fn prepare_with(
    ids: &[u8],
    host: impl Fn(u8, u8) -> String,
    more: impl Fn(u8) -> String,
) -> (Vec<Server>, Vec<u16>) {
    let ports: Vec<(u16, u16)> = ids.iter().map(|_| (free_port(), free_port())).collect();
    let prepare = |by: &u8| {
        let lines: Vec<String> = ids
            .iter()
            .zip(&ports)
            .map(|(of, (port, other))| format!("server.{of}={}:{port}:{other}", host(*by, *of)))
            .collect();
        let list = lines.join("\n");
        let server = Server::prepare(&format!("initLimit=10\nsyncLimit=5\n{list}\n{}", more(*by)));
        fs::write(server.data().join("myid"), by.to_string()).expect("myid");
        server
    };
    (ids.iter().map(prepare).collect(), ports.iter().map(|(port, _)| *port).collect())
}

fn prepare(count: u8, more: impl Fn(u8) -> String) -> (Vec<Server>, Vec<u16>) {
    let ids: Vec<u8> = (1..=count).collect();
    prepare_with(&ids, |_, _| "127.0.0.1".to_owned(), more)
}

fn all_work(servers: &[Server]) {
    until("one leads and the others follow", || {
        let modes: Vec<String> = servers.iter().map(mode).collect();
        modes.iter().filter(|mode| *mode == "leader").count() == 1
            && modes.iter().filter(|mode| *mode == "follower").count() == servers.len() - 1
    });
}

/// Every server hears what was written through the first.
fn all_agree(servers: &[Server], value: &[u8]) {
    let mut first = Patient::connect(&servers[0], TIMEOUT_MS);
    if !first.exists("/a") {
        first.ok(&create("/a", vec![], CreateMode::Persistent));
    }
    first.ok(&set("/a", value.to_vec()));
    for server in servers {
        assert_eq!(Patient::connect(server, TIMEOUT_MS).value("/a"), value);
    }
}

fn says(server: &Server, what: &str) {
    let began = Instant::now();
    while !server.log().contains(what) {
        assert!(began.elapsed() < DEADLINE, "it does not say {what:?}: {}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The lines for TLS with `dir/ID.pem` and `dir/NAME` as issuer.
fn tls(dir: &Path, id: u8, trust: &str, more: &str) -> String {
    format!(
        "ssl.quorum.keyStore.location={0}/{id}.pem\n\
         ssl.quorum.trustStore.location={0}/{trust}\n{more}",
        dir.display()
    )
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Changes the lines of a server that does not run.
fn reconfigure(server: &Server, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(server.config()).expect("zoo.cfg");
    fs::write(server.config(), change(text)).expect("zoo.cfg");
}

fn restart(server: &mut Server) {
    server.signal("TERM");
    assert!(server.wait().success());
    server.run();
}

/// With TLS on every server, certificates that change while they run, and strangers who have none.
#[test]
fn servers_with_certificates_work_together_and_take_new_ones_as_they_run() {
    let (dir, first, second) = (folder(), Authority::new("first"), Authority::new("second"));
    first.trust_store(dir.path(), "ca.pem");
    (1..=3).for_each(|id| first.key_store(&dir.path().join(format!("{id}.pem")), "127.0.0.1"));
    let (mut servers, ports) = prepare(3, |id| tls(dir.path(), id, "ca.pem", "sslQuorum=true"));
    servers.iter_mut().for_each(Server::run);
    all_work(&servers);
    all_agree(&servers, b"1");
    servers.iter().for_each(|server| {
        says(server, "the servers of the ensemble authenticate each other with certificates");
    });

    // Without TLS nobody gets in, and is told so.
    let mut plain = open(SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0])));
    plain.write_all(b"ferrokpr").expect("sent");
    let mut answer = String::new();
    plain.read_to_string(&mut answer).expect("an answer");
    assert_eq!(
        &answer[4..],
        "this server accepts only TLS (sslQuorum=true), and the caller does not use it"
    );

    // A new issuer beside the old one, then certificates of it, then without the old one: no server
    // is restarted.
    let old = fs::read_to_string(dir.path().join("ca.pem")).expect("read");
    second.trust_store(dir.path(), "new.pem");
    let new = fs::read_to_string(dir.path().join("new.pem")).expect("read");
    fs::write(dir.path().join("ca.pem"), old + &new).expect("written");
    // Half a file is no reason to stop, either.
    let good = fs::read_to_string(dir.path().join("1.pem")).expect("read");
    fs::write(dir.path().join("1.pem"), &good[..good.len() / 2]).expect("written");
    restart(&mut servers[1]);
    all_work(&servers);
    says(&servers[0], "have changed but cannot be used; the old ones are kept");
    (1..=3).for_each(|id| second.key_store(&dir.path().join(format!("{id}.pem")), "127.0.0.1"));
    restart(&mut servers[1]);
    all_work(&servers);
    fs::write(dir.path().join("ca.pem"), new).expect("written");
    restart(&mut servers[1]);
    all_work(&servers);
    all_agree(&servers, b"2");
    says(&servers[0], "reloaded the certificates of the ensemble");
}

#[test]
fn a_snapshot_goes_over_tls_and_at_its_pace() {
    let (dir, issuer) = (folder(), Authority::new("issuer"));
    issuer.trust_store(dir.path(), "ca.pem");
    (1..=3).for_each(|id| issuer.key_store(&dir.path().join(format!("{id}.pem")), "127.0.0.1"));
    fs::write(dir.path().join("secret"), [b'x'; 40]).expect("written");
    let secret = format!("quorum.auth.secretFile={}/secret", dir.path().display());
    let pace = "leader.snapSyncLimitInKbPerSecond=100";
    let more = format!("sslQuorum=true\n{secret}\n{pace}\n{SNAPSHOTS_SOON}");
    let (mut servers, _) = prepare(3, |id| tls(dir.path(), id, "ca.pem", &more));
    servers.iter_mut().for_each(Server::run);
    all_work(&servers);
    one_is_away_for_long(servers);
}

/// Two servers, of which the second one's certificate is not what the first one wants, or the other
/// way round.
#[test]
fn a_server_whose_certificate_is_not_right_is_refused_and_both_say_why() {
    let (good, other) = (Authority::new("good"), Authority::new("other"));
    for (issuer, host, of_first, of_second) in [
        // Of an issuer that the first does not trust.
        (&other, "127.0.0.1", "UnknownIssuer", "UnknownCA"),
        // Of the right one, and for another machine (CVE-2026-24281, ZK-4958): whoever dials sees
        // it, and whoever is called.
        (&good, "127.0.0.9", "not valid for name", "BadCertificate"),
        (
            &good,
            "127.0.0.9",
            "refused: its certificate does not name 127.0.0.1",
            "it refuses: its certificate does not name 127.0.0.1",
        ),
    ] {
        let dir = folder();
        good.trust_store(dir.path(), "ca.pem");
        good.key_store(&dir.path().join("1.pem"), "127.0.0.1");
        issuer.key_store(&dir.path().join("2.pem"), host);
        let lines = |id| tls(dir.path(), id, "ca.pem", "sslQuorum=true");
        let (mut servers, _) = prepare(2, lines);
        servers.iter_mut().for_each(Server::run);
        says(&servers[0], of_first);
        says(&servers[1], of_second);
        assert_eq!(mode(&servers[0]), "none");
    }
    // The names do not matter where nobody asks for them.
    let dir = folder();
    good.trust_store(dir.path(), "ca.pem");
    (1..=2).for_each(|id| good.key_store(&dir.path().join(format!("{id}.pem")), "elsewhere.test"));
    let more = "sslQuorum=true\nssl.quorum.hostnameVerification=false";
    let (mut servers, _) = prepare(2, |id| tls(dir.path(), id, "ca.pem", more));
    servers.iter_mut().for_each(Server::run);
    all_work(&servers);
}

/// Other forms of TLS that are asked for, and whether they are spoken.
#[test]
fn protocols_and_ciphers_are_those_that_were_asked_for() {
    let (dir, issuer) = (folder(), Authority::new("issuer"));
    issuer.trust_store(dir.path(), "ca.pem");
    (1..=2).for_each(|id| issuer.key_store(&dir.path().join(format!("{id}.pem")), "127.0.0.1"));
    let more = |id| match id {
        1 => "sslQuorum=true\nssl.quorum.enabledProtocols=TLSv1.2",
        _ => {
            "sslQuorum=true\nssl.quorum.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,\
             TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_NULL_MD5"
        }
    };
    let (mut servers, _) = prepare(2, |id| tls(dir.path(), id, "ca.pem", more(id)));
    servers.iter_mut().for_each(Server::run);
    all_work(&servers);
    says(&servers[1], "ssl.quorum.ciphersuites: TLS_RSA_WITH_NULL_MD5 is not available");
    drop(servers);
    let more = |id| match id {
        1 => "sslQuorum=true\nssl.quorum.enabledProtocols=TLSv1.2",
        _ => "sslQuorum=true\nssl.quorum.enabledProtocols=TLSv1.3",
    };
    let (mut servers, _) = prepare(2, |id| tls(dir.path(), id, "ca.pem", more(id)));
    servers.iter_mut().for_each(Server::run);
    says(&servers[0], "TLS: received fatal alert: ProtocolVersion");
    says(&servers[1], "TLS: peer is incompatible: ");
    assert_eq!(mode(&servers[0]), "none");
}

/// As ZooKeeper's guide has it: the port for both, then TLS, then the port for TLS only, one server
/// after the other. Somebody works all the time.
#[test]
fn an_ensemble_gets_tls_and_a_secret_without_a_stop() {
    let (dir, issuer) = (folder(), Authority::new("issuer"));
    issuer.trust_store(dir.path(), "ca.pem");
    (1..=3).for_each(|id| issuer.key_store(&dir.path().join(format!("{id}.pem")), "127.0.0.1"));
    fs::write(dir.path().join("secret"), [b'x'; 40]).expect("written");
    let (mut servers, _) = prepare(3, |_| String::new());
    servers.iter_mut().for_each(Server::run);
    all_work(&servers);
    servers.iter().for_each(|server| {
        says(server, "the servers of the ensemble do not authenticate each other");
    });
    let secret = format!("quorum.auth.secretFile={}/secret", dir.path().display());
    let all = format!("sslQuorum=true\n{secret}");
    let steps = [
        ("portUnification=true".to_owned(), "portUnification=true: anyone who can reach"),
        (format!("portUnification=true\n{all}"), "portUnification=true: anyone who can reach"),
        (all, "authenticate each other with certificates"),
    ];
    for (round, (more, word)) in (0_u8..).zip(&steps) {
        for at in 0..3 {
            let id = u8::try_from(at + 1).expect("small");
            reconfigure(&servers[at], |text| {
                let lines = text.lines().filter(|line| {
                    !["ssl", "portU", "quorum"].iter().any(|key| line.starts_with(key))
                });
                let kept: Vec<&str> = lines.collect();
                format!("{}\n{}\n", kept.join("\n"), tls(dir.path(), id, "ca.pem", more))
            });
            restart(&mut servers[at]);
            all_work(&servers);
            all_agree(&servers, &[round, id]);
            says(&servers[at], word);
        }
    }
}

#[test]
fn a_secret_keeps_out_who_does_not_know_it_and_both_say_why() {
    let dir = folder();
    let write =
        |name: &str, byte: u8| fs::write(dir.path().join(name), [byte; 48]).expect("written");
    write("right", b'r');
    write("wrong", b'w');
    let line = |name: &str| format!("quorum.auth.secretFile={}/{name}", dir.path().display());
    let (mut servers, _) = prepare(3, |id| match id {
        3 => line("wrong"),
        _ => line("right"),
    });
    servers[..2].iter().for_each(mark);
    servers.iter_mut().for_each(Server::run);
    all_work(&servers[..2]);
    all_agree(&servers[..2], b"1");
    says(&servers[0], "refused: the secrets differ (quorum.auth.secretFile)");
    says(&servers[2], "it refuses: the secrets differ (quorum.auth.secretFile)");
    says(&servers[0], "authenticate each other with a secret; their connections are not encrypted");
    // The file is open to everybody here.
    says(&servers[0], "every user of this machine can read this secret; run chmod o=");
    assert_eq!(mode(&servers[2]), "none");
    for server in &servers {
        let log = server.log();
        assert!(!log.contains("rrrrrrrr") && !log.contains("wwwwwwww"), "a secret is in the log");
    }

    reconfigure(&servers[2], |text| text.replace(&line("wrong"), ""));
    restart(&mut servers[2]);
    says(&servers[0], "refused: the called server has a secret, but the caller has none");
    says(&servers[2], "it refuses: the called server has a secret, but the caller has none");
    reconfigure(&servers[2], |text| text + &line("right"));
    restart(&mut servers[2]);
    all_work(&servers);
    all_agree(&servers, b"2");
}

#[test]
fn what_cannot_be_used_is_said_at_the_start() {
    let (dir, issuer) = (folder(), Authority::new("issuer"));
    issuer.trust_store(dir.path(), "ca.pem");
    let store = || {
        let path = dir.path().join("of.pem");
        issuer.key_store(&path, "127.0.0.1");
        let text = fs::read_to_string(path).expect("read");
        let (certificate, key) = text.split_at(text.find("-----BEGIN PRIVATE").expect("a key"));
        (certificate.to_owned(), key.to_owned())
    };
    let ((certificate, key), (_, other_key)) = (store(), store());
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let path = dir.path().display();
    let no_cipher = "ssl.quorum.ciphersuites=TLS_RSA_WITH_NULL_MD5";
    let no_store = "ssl.quorum.keyStore.location=/nowhere/1.pem";
    for (text, more, expected) in [
        (certificate.clone(), "", "1.pem: there is no private key in it"),
        (key.clone(), "", "1.pem: there is no certificate in it"),
        (certificate.clone() + &encrypted, "", "1.pem: its private key is encrypted"),
        ("nothing".to_owned(), "", "1.pem: there is no certificate in it"),
        (certificate.clone() + &other_key, "", "1.pem: keys may not be consistent"),
        (certificate.clone() + &key, no_store, "/nowhere/1.pem: cannot be read: No such file"),
        (certificate.clone() + &key, no_cipher, "ssl.quorum.ciphersuites names no cipher that"),
        (
            "too short".to_owned(),
            &format!("sslQuorum=false\nquorum.auth.secretFile={path}/1.pem"),
            "1.pem: a secret of 9 bytes is too short, the minimum is 32",
        ),
    ] {
        fs::write(dir.path().join("1.pem"), text).expect("written");
        let lines = tls(dir.path(), 1, "ca.pem", &format!("sslQuorum=true\n{more}"));
        let (servers, _) = prepare(2, |_| lines.clone());
        let status = servers[0].command().status().expect("it ends");
        assert_eq!(status.code(), Some(2), "{expected}: {}", servers[0].log());
        assert!(servers[0].log().contains(expected), "{expected}: {}", servers[0].log());
    }
}

/// Each server's own line says 0.0.0.0, as it stands in many a container. ZK-4886: whoever has the
/// smallest id, and whatever servers prove to each other, everybody gets in.
#[test]
fn ids_from_zero_and_own_lines_of_zeros_are_normal() {
    let (dir, issuer) = (folder(), Authority::new("issuer"));
    issuer.trust_store(dir.path(), "ca.pem");
    for id in [0, 7, 255] {
        issuer.key_store(&dir.path().join(format!("{id}.pem")), "127.0.0.1");
    }
    fs::write(dir.path().join("secret"), [b'x'; 40]).expect("written");
    let own = |by, of| if by == of { "0.0.0.0" } else { "127.0.0.1" }.to_owned();
    let secret = format!("quorum.auth.secretFile={}/secret", dir.path().display());
    let certificates = |id| tls(dir.path(), id, "ca.pem", "sslQuorum=true");
    for (mut servers, _) in [
        prepare_with(&[0, 1, 2], own, |_| String::new()),
        prepare_with(&[255, 0, 1], own, |_| secret.clone()),
        prepare_with(&[7, 255, 0], own, certificates),
    ] {
        servers.iter_mut().for_each(Server::run);
        all_work(&servers);
        all_agree(&servers, b"1");
        let first = leader(&servers);
        servers[first].signal("KILL");
        servers[first].wait();
        servers[first].run();
        all_work(&servers);
        all_agree(&servers, b"2");
    }
}

/// A name that does not resolve, even one's own, stops nobody; it is tried for ever, and said once
/// a minute.
#[test]
fn names_that_do_not_resolve_stop_nobody() {
    let (mut servers, _) = prepare_with(
        &[1, 2, 3],
        |by, of| match (by, of) {
            // Nobody finds server 3, and server 1 does not find itself.
            (_, 3) | (1, 1) => "no-such-host.invalid".to_owned(),
            _ => "127.0.0.1".to_owned(),
        },
        |_| String::new(),
    );
    servers[..2].iter().for_each(mark);
    servers.iter_mut().for_each(Server::run);
    // Server 3 finds the others, and they do not find it.
    all_work(&servers[..2]);
    all_agree(&servers[..2], b"1");
    let tried =
        |server: &Server| server.log().matches("cannot reach a server of the ensemble").count();
    until("it is said", || tried(&servers[0]) >= 1 && tried(&servers[1]) >= 1);
    // A hundred more dials go by.
    for _ in 0..20 {
        all_agree(&servers[..2], b"2");
    }
    for server in &servers[..2] {
        // On a busy machine a look-up also fails by its time.
        let log = server.log();
        let of_third = log.lines().filter(|line| line.contains("cannot reach"));
        let of_third = of_third.filter(|line| line.contains("no-such-host"));
        let said: Vec<&str> = of_third.filter_map(|line| line.split("error=").nth(1)).collect();
        let different: std::collections::BTreeSet<&&str> = said.iter().collect();
        assert!(said.len() == different.len() && said.len() <= 2, "{log}");
    }
}

fn sockets(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.pid());
    let names = fs::read_dir(folder).expect("a process").filter_map(Result::ok);
    names
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

/// ZK-4736 and denial of service before anybody has said who it is: thousands of connections, some
/// silent, some with garbage, some with lengths that nobody has room for.
#[test]
fn strangers_on_the_quorum_port_take_neither_room_nor_places() {
    let (mut servers, ports) = prepare(3, |_| String::new());
    servers.iter_mut().for_each(Server::run);
    all_work(&servers);
    all_agree(&servers, b"1");
    let target = &servers[0];
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0]));
    let (sockets_before, memory_before) = (sockets(target), target.peak_memory());

    // As many as a client may have open: 128 of them have a place, the others go.
    let silent: Vec<TcpStream> = (0..900).map(|_| open(address)).collect();
    until("most of them are gone", || sockets(target) <= sockets_before + 150);
    // Servers get through all the same.
    restart(&mut servers[1]);
    all_work(&servers);
    all_agree(&servers, b"2");

    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        let mut stream = open(address);
        let mut bytes: Vec<u8> = (0..random() % 300).map(|_| random() as u8).collect();
        match round % 3 {
            0 => {}
            // TLS, or the beginning of a hello, and then anything.
            1 => bytes.splice(0..0, [0x16, 3, 1]).for_each(drop),
            _ => bytes.splice(0..0, *b"ferrokpr").for_each(drop),
        }
        // It may be gone before all of it is sent.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }

    // Who says that it is server 2, which is not there, and that a gigabyte follows; or a list of
    // two thousand million sessions.
    servers[1].signal("TERM");
    assert!(servers[1].wait().success());
    let hello = {
        let state = fs::read(servers[0].data().join("version-2/raft.state")).expect("its state");
        let mut rest = [6_u32, 6].map(u32::to_be_bytes).concat();
        rest.extend([0; 21 + 33]);
        let mut introduction = 1_u32.to_be_bytes().to_vec();
        introduction.push(1);
        introduction.extend([7; 8]);
        introduction.extend(0x102_u64.to_be_bytes());
        introduction.extend(&state[48..56]);
        introduction.extend([0xff; 16]);
        let hello = [b"ferrokpr", &62_u32.to_be_bytes()[..], &rest].concat();
        [&hello[..], &45_u32.to_be_bytes(), &introduction].concat()
    };
    let list = [&[5][..], &0x7fff_ffff_u32.to_be_bytes(), &[0; 64]].concat();
    let of_list = {
        let len = u32::try_from(list.len()).expect("short").to_be_bytes();
        [&len[..], &crc32(&list).to_be_bytes(), &list].concat()
    };
    for frame in [vec![0xff; 8], [&(1_u32 << 30).to_be_bytes()[..], &[0; 100]].concat(), of_list] {
        let mut stream = open(address);
        stream.write_all(&[hello.clone(), frame].concat()).expect("sent");
        let mut answer = [0; 4 + 37 + 1 + 4 + 45];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer[4 + 37], 0, "welcome");
    }
    servers[1].run();
    all_work(&servers);
    all_agree(&servers, b"3");
    let target = &servers[0];
    let grown = target.peak_memory().saturating_sub(memory_before);
    assert!(grown < 100 << 20, "{grown} bytes more");
    assert!(target.log().len() < 200_000, "{} bytes of log", target.log().len());
    drop(silent);
    until("their sockets are closed", || sockets(target) <= sockets_before + 3);
}

/// Frames have it, and no crate of these tests does.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// What a snapshot left on its way when the power went is gone with the next start.
#[test]
fn parts_of_snapshots_do_not_pile_up() {
    let (mut servers, _) = prepare(2, |_| String::new());
    servers.iter_mut().for_each(Server::run);
    all_work(&servers);
    let part = servers[0].data().join("version-2/tmp.handover");
    fs::write(&part, b"a part").expect("written");
    restart(&mut servers[0]);
    all_work(&servers);
    assert!(!part.exists());
}
