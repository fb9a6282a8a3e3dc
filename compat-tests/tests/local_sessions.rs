//! Sessions that live on the server where they were opened only: three servers of either kind are
//! asked the same, by raw bytes, on a follower and on the leader, with and without the upgrade.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Buf;
use compat_tests::four_letter_words::ask;
use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Ensemble, Kind, RawClient, Reply, Server, Session};

/// No timeout, and another id.
const REFUSED: (i32, bool) = (0, false);
const DEADLINE: Duration = Duration::from_secs(20);
const LONG_MS: i32 = 20_000;
/// The least with ticks of a second.
const SHORT_MS: i32 = 2_000;

/// What the servers said, with names in the place of session ids.
struct Transcript<'a> {
    kind: Kind,
    upgrades: bool,
    /// Where sessions are opened, and where they are not.
    here: &'a Server,
    elsewhere: &'a Server,
    on_leader: bool,
    names: Vec<(i64, String)>,
    lines: Vec<String>,
}

impl Transcript<'_> {
    fn say(&mut self, what: &str, said: impl std::fmt::Debug) {
        self.lines.push(format!("{what}: {said:?}"));
    }

    fn open(&mut self, name: &str, timeout_ms: i32) -> (RawClient, Session) {
        let request = ConnectRequest::new(timeout_ms);
        let (client, session) = RawClient::open(self.here.address(), &request).expect("a session");
        self.say(name, (session.timeout, session.read_only, session.password.len()));
        self.names.push((session.id, name.to_owned()));
        (client, session)
    }

    /// Shows a session to a server. Gives the connection if it has the session now.
    fn attach(&mut self, what: &str, to: &Server, session: &Session) -> Option<RawClient> {
        let (client, attached) =
            match RawClient::open(to.address(), &ConnectRequest::again(session)) {
                Ok(answered) => answered,
                // ZooKeeper may be about to close whatever comes with a session that has just
                // ended.
                Err(error)
                    if self.kind == Kind::Reference && error.kind() == ErrorKind::UnexpectedEof =>
                {
                    self.say(what, REFUSED);
                    return None;
                }
                Err(error) => panic!("{what}: {error}"),
            };
        self.say(what, (attached.timeout, attached.id == session.id));
        (!attached.refused()).then_some(client)
    }

    fn call(&mut self, what: &str, client: &mut RawClient, op: i32, body: &[u8]) -> Reply {
        let reply = client.call(op, body).expect("a reply");
        self.say(what, (reply.err, reply.body.is_empty()));
        reply
    }

    /// The codes of a multi that failed.
    fn failed_multi(&mut self, what: &str, client: &mut RawClient, parts: &[(i32, Vec<u8>)]) {
        let reply = client.call(op::MULTI, &request::multi(parts)).expect("a reply");
        let mut body = reply.body.clone();
        let mut codes = Vec::new();
        loop {
            let (kind, is_end) = (body.get_i32(), body.get_u8() != 0);
            body.advance(4);
            if is_end {
                break;
            }
            codes.push((kind, body.get_i32()));
        }
        // ZooKeeper's follower does not tell its leader why, and the leader knows no such session.
        if self.kind == Kind::Reference && !self.on_leader && !self.upgrades {
            for (_, code) in codes.iter_mut().filter(|(_, code)| *code == -112) {
                *code = -120;
            }
        }
        self.say(what, (reply.err, codes));
    }

    /// That a connection ends without another word.
    fn end(&mut self, what: &str, client: &mut RawClient) {
        let rest = client.read_all().map_err(|error| error.kind());
        self.say(what, rest);
    }

    /// The sessions that a server shows in `dump`, under their headings.
    fn dump(&mut self, what: &str, server: &Server) {
        let text = ask(server.address(), "dump").expect("an answer");
        let lines = text.lines().take_while(|line| *line != "ephemeral nodes dump:");
        let mut sets: Vec<(String, Vec<String>)> = Vec::new();
        for line in lines.filter(|line| !line.contains(" expire at ")) {
            match line.trim_start().strip_prefix("0x") {
                Some(id) => {
                    let (id, rest) = id.split_once('\t').unwrap_or((id, ""));
                    let id = i64::from_str_radix(id, 16).expect("an id");
                    let name = self.names.iter().find(|(its, _)| *its == id);
                    let name = name.map_or("?", |(_, name)| name.as_str());
                    let (_, set) = sets.last_mut().expect("a heading");
                    set.push(format!("{name} {rest} {}", line.starts_with('\t')));
                }
                // ZooKeeper counts buckets that are empty.
                None => {
                    let heading = line.split_once(")/(").map_or_else(
                        || line.to_owned(),
                        |(sets, count)| {
                            format!(
                                "{} {count}",
                                sets.trim_end_matches(|c: char| c.is_ascii_digit())
                            )
                        },
                    );
                    sets.push((heading, Vec::new()));
                }
            }
        }
        sets.iter_mut().for_each(|(_, ids)| ids.sort());
        self.say(what, sets);
    }

    fn dumps(&mut self) {
        let (here, elsewhere) = (self.here, self.elsewhere);
        // Whichever does not lead may be after.
        let deadline = Instant::now() + DEADLINE;
        while zxid(here) != zxid(elsewhere) {
            assert!(Instant::now() < deadline, "one stays behind");
            thread::sleep(Duration::from_millis(10));
        }
        self.dump("dump here", here);
        self.dump("dump elsewhere", elsewhere);
    }

    fn create(at: &str, mode: i32) -> Vec<u8> {
        request::create(at, Some(b"x"), mode)
    }

    fn run(mut self) -> Vec<String> {
        let (here, elsewhere) = (self.here, self.elsewhere);
        let root = if self.on_leader { "/leader" } else { "/follower" };
        let at = |name: &str| format!("{root}{name}");

        // It lives and ends where it was opened.
        let (mut a, session) = self.open("a", LONG_MS);
        self.call("exists", &mut a, op::EXISTS, &request::path_watch("/zookeeper", false));
        self.call("create", &mut a, op::CREATE, &Self::create(root, mode::PERSISTENT));
        let container = Self::create(&at("/container"), mode::CONTAINER);
        self.call("container", &mut a, op::CREATE_CONTAINER, &container);
        self.call("sync", &mut a, op::SYNC, &request::path("/"));
        self.dumps();
        let mut again = self.attach("back here", here, &session).expect("the session");
        self.end("the connection before", &mut a);
        self.attach("elsewhere", elsewhere, &session);
        self.call("still", &mut again, op::EXISTS, &request::path_watch(root, false));
        self.call("closed", &mut again, op::CLOSE_SESSION, &[]);
        self.end("behind it", &mut again);
        self.attach("gone here", here, &session);
        self.attach("gone elsewhere", elsewhere, &session);
        self.dumps();

        // It owns nothing, or becomes one of all servers.
        let (mut b, session) = self.open("b", LONG_MS);
        if !self.upgrades {
            self.call("bad path", &mut b, op::CREATE, &Self::create("bad", mode::EPHEMERAL));
            let there = Self::create(root, mode::EPHEMERAL);
            self.call("what is there", &mut b, op::CREATE, &there);
        }
        self.call("ephemeral", &mut b, op::CREATE, &Self::create(&at("/1"), mode::EPHEMERAL));
        self.call("create2", &mut b, op::CREATE2, &Self::create(&at("/2"), mode::EPHEMERAL));
        let sequential = Self::create(&at("/s"), mode::EPHEMERAL_SEQUENTIAL);
        self.call("sequential", &mut b, op::CREATE, &sequential);
        let parts = [
            (op::CREATE, Self::create(&at("/plain"), mode::PERSISTENT)),
            (op::CREATE, Self::create(&at("/3"), mode::EPHEMERAL)),
            (op::CREATE, Self::create(&at("/never"), mode::PERSISTENT)),
            (op::CREATE, Self::create("/zookeeper", mode::PERSISTENT)),
        ];
        self.failed_multi("multi", &mut b, &parts);
        self.call("exists", &mut b, op::EXISTS, &request::path_watch(&at("/1"), false));
        self.dumps();
        let moved = self.attach("elsewhere", elsewhere, &session);
        if let Some(mut moved) = moved {
            b.send(op::CREATE, &Self::create(&at("/late"), mode::PERSISTENT)).ok();
            self.end("the connection before", &mut b);
            let late = request::path_watch(&at("/late"), false);
            self.call("what it wrote too late", &mut moved, op::EXISTS, &late);
            self.call("closed", &mut moved, op::CLOSE_SESSION, &[]);
        } else {
            self.call("closed", &mut b, op::CLOSE_SESSION, &[]);
        }
        self.dumps();

        // A multi that fails makes it one of all servers as well.
        let (mut c, _) = self.open("c", LONG_MS);
        let parts = [
            (op::CREATE, Self::create("/zookeeper", mode::PERSISTENT)),
            (op::CREATE, Self::create(&at("/4"), mode::EPHEMERAL)),
        ];
        self.failed_multi("multi", &mut c, &parts);
        self.dumps();
        self.call("closed", &mut c, op::CLOSE_SESSION, &[]);

        // In one piece.
        let (mut d, _) = self.open("d", LONG_MS);
        let replies = d.call_all(&[
            (op::CREATE, Self::create(&at("/5"), mode::EPHEMERAL)),
            (op::EXISTS, request::path_watch(&at("/5"), false)),
            (op::CLOSE_SESSION, Vec::new()),
        ]);
        let errs: Vec<i32> = replies.expect("replies").iter().map(|reply| reply.err).collect();
        self.say("pipelined", errs);
        self.end("behind it", &mut d);

        // Nobody but its server expects to hear of it.
        let (mut e, session) = self.open("e", SHORT_MS);
        self.end("silent", &mut e);
        self.attach("expired", here, &session);
        self.dumps();

        // What it costs in transactions.
        let (mut f, _) = self.open("f", LONG_MS);
        let set = request::set_data(root, b"y", -1);
        let before = self.call("set", &mut f, op::SET_DATA, &set).zxid;
        let (mut g, _) = self.open("g", LONG_MS);
        self.call("closed", &mut g, op::CLOSE_SESSION, &[]);
        let after = self.call("set", &mut f, op::SET_DATA, &set).zxid;
        self.say("opening, closing and a set", after - before);
        if self.upgrades {
            let ephemeral = Self::create(&at("/6"), mode::EPHEMERAL);
            let created = self.call("ephemeral", &mut f, op::CREATE, &ephemeral).zxid;
            self.say("the first ephemeral", created - after);
            let closed = self.call("closed", &mut f, op::CLOSE_SESSION, &[]).zxid;
            self.say("the end", closed - created);
        } else {
            self.call("closed", &mut f, op::CLOSE_SESSION, &[]);
        }
        self.lines
    }
}

/// The last change that a server shows.
fn zxid(server: &Server) -> Option<String> {
    let text = ask(server.address(), "srvr").expect("an answer");
    text.lines().find_map(|line| line.strip_prefix("Zxid: ").map(str::to_owned))
}

fn transcripts(kind: Kind, config: &[&str]) -> Vec<String> {
    let ensemble = Ensemble::start(kind, config);
    let is_leader = |server: &&Server| {
        ask(server.address(), "srvr").expect("an answer").contains("Mode: leader")
    };
    let leader = ensemble.servers().iter().find(is_leader).expect("a leader");
    let follower = ensemble.servers().iter().find(|its| !is_leader(its)).expect("a follower");
    let upgrades = config.contains(&"localSessionsUpgradingEnabled=true");
    let mut lines = Vec::new();
    for on_leader in [false, true] {
        let (here, elsewhere) = if on_leader { (leader, follower) } else { (follower, leader) };
        let (names, said) = (Vec::new(), Vec::new());
        let transcript =
            Transcript { kind, upgrades, here, elsewhere, on_leader, names, lines: said };
        lines.extend(transcript.run());
    }
    lines
}

fn both_say_the_same(config: &[&str]) {
    let subject = transcripts(Kind::subject(), config);
    let reference = transcripts(Kind::Reference, config);
    for (at, (subject, reference)) in subject.iter().zip(&reference).enumerate() {
        assert_eq!(subject, reference, "line {at} of {config:?}");
    }
    assert_eq!(subject.len(), reference.len());
}

#[test]
fn a_session_of_one_server_owns_no_ephemeral() {
    both_say_the_same(&["localSessionsEnabled=true"]);
}

#[test]
fn a_session_of_one_server_becomes_one_of_all() {
    both_say_the_same(&["localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"]);
}

#[test]
fn without_an_ensemble_there_are_none() {
    let config = ["localSessionsEnabled=true"];
    let [subject, reference] = [Kind::subject(), Kind::Reference].map(|kind| {
        let server = Server::start(kind, &config);
        let mut client = server.connect(LONG_MS);
        let ephemeral = request::create("/ephemeral", None, mode::EPHEMERAL);
        let created = client.call(op::CREATE, &ephemeral).expect("a reply");
        let text = ask(server.address(), "dump").expect("an answer");
        // How many sets there are is a matter of when each session was touched.
        let sets = text.lines().nth(1).and_then(|line| line.split_once('('));
        let (heading, sessions) =
            sets.and_then(|(heading, of)| Some((heading, of.split_once('/')?.1))).expect("sets");
        (created.err, created.zxid, heading.to_owned(), sessions.to_owned())
    });
    assert_eq!(subject, reference);
    assert_eq!((subject.0, subject.1), (0, 2));
}
