//! `ferrokeeper cli` beyond what it shares with zkCli line for line (see `forty_steps`): below a
//! chroot, on a server without TTLs, where no server is, at a terminal, and what zkCli does not
//! have.

use std::process::{Command, Output};
use std::thread;

use compat_tests::request::{self, mode, op};
use compat_tests::{
    Kind, Program, Server, Signal, Transcript, classpath, ferrokeeper, four_letter_words,
    free_port, python, repository,
};
use serde_json::Value;

/// Runs one command.
fn run(server: &str, words: &[&str]) -> Output {
    let mut command = Command::new(ferrokeeper());
    command.args(["cli", "-server", server]).args(words).output().expect("the program runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(server: &str, words: &[&str]) -> Value {
    let output = run(server, &[&["--json"], words].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}: {}", stdout(&output)))
}

/// What a driver prints that runs each line as a command of its own.
fn one_by_one(driver: &[String], server: &Server, lines: &[&str]) -> Transcript {
    let connect = format!("{}/root", server.host_port());
    let mut program = Program::start(&[driver, &[connect]].concat(), &[]);
    for line in lines {
        program.say(line);
    }
    program.say("fence");
    let mut printed = vec!["== 1 all of it".to_owned()];
    loop {
        let line = program.next_line().expect("the driver goes on");
        if line == "fence" {
            return Transcript::new(&printed);
        }
        let noise = ["WATCHER::", "WatchedEvent ", "Connecting to ", "SLF4J: ", "ready"];
        if !line.is_empty() && !noise.iter().any(|noise| line.starts_with(noise)) {
            printed.push(line);
        }
    }
}

#[test]
fn below_a_chroot_and_without_ttls_it_prints_what_zkcli_prints() {
    const LINES: &[&str] = &[
        "create /a x",
        "create /a/b y",
        "create -s /a/s- x",
        "create -e /a/e x",
        "create -t 1000 /a/t x",
        "create -s -t 1000 /a/t x",
        "ls /",
        "ls -R /",
        "ls /missing",
        "getAllChildrenNumber /",
        "get -s /a",
        "stat /",
        "getAcl /",
        "getAcl /a",
        "setAcl -R /a world:anyone:cdrwa",
        "set -v 3 /a y",
        "config",
        "config -s",
        "getEphemerals /",
        "delete /",
        "delete /a",
        "deleteall /a/b",
        "setquota -n 5 /a",
        "listquota /a",
        "sync /",
        "create /",
        "create",
    ];
    let program =
        |name: &str| repository().join("compat-tests/clients").join(name).display().to_string();
    let zkcli = ["java", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", &classpath()]
        .map(String::from);
    let zkcli = [&zkcli[..], &[program("ZkCliOneShot.java")]].concat();
    let own = ["bash".to_owned(), program("cli_one_shot.sh"), ferrokeeper().display().to_string()];
    let start = |kind, driver: Vec<String>| {
        thread::spawn(move || {
            let server = Server::start(kind, &["extendedTypesEnabled=false"]);
            let mut client = server.connect(10_000);
            let root = request::create("/root", Some(b"r"), mode::PERSISTENT);
            assert_eq!(client.call(op::CREATE, &root).expect("a reply").err, 0);
            one_by_one(&driver, &server, LINES)
        })
    };
    let zkcli = start(Kind::Reference, zkcli);
    let there = start(Kind::Reference, own.to_vec());
    let here = start(Kind::subject(), own.to_vec());
    let zkcli = zkcli.join().expect("zkCli runs through");
    let exits = zkcli.step(1).unwrap_or_default().iter().filter(|line| line.starts_with("exit "));
    assert_eq!(exits.count(), LINES.len(), "{zkcli}");
    for run in [there, here] {
        let diff = run.join().expect("the shell runs through").diff(&zkcli, &["all of it"]);
        assert!(diff.is_empty(), "the shell differs from zkCli:\n{diff}");
    }
}

#[test]
fn where_no_server_is_it_says_which_was_tried() {
    let port = free_port();
    let free = format!("127.0.0.1:{}", port.number());
    let output = run(&free, &["get", "/x"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.starts_with("KeeperErrorCode = ConnectionLoss for /x\n"), "{told}");
    assert!(told.contains(&format!("{free}: Connection refused")), "{told}");

    // One of the list is enough.
    let server = Server::start(Kind::subject(), &[]);
    let both = format!("{free},{}", server.host_port());
    for _ in 0..4 {
        let output = run(&both, &["ls", "/"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }

    for (words, told) in [
        (&["-server"][..], "ferrokeeper: no argument found for option -server\n"),
        (&["-client-configuration", "f", "ls", "/"], "ferrokeeper: -client-configuration f is"),
    ] {
        let output = run(&both, words);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).starts_with(told), "{}", stderr(&output));
    }
}

#[test]
fn documents_have_what_the_lines_have() {
    for kind in [Kind::Reference, Kind::subject()] {
        let server = Server::start(kind, &[]);
        let at = server.host_port();
        assert_eq!(document(&at, &["create", "/a", "x"])["created"], "/a");
        assert_eq!(document(&at, &["create", "/a/b"])["created"], "/a/b");
        let node = document(&at, &["get", "/a"]);
        assert_eq!((&node["data"], &node["stat"]["num_children"]), (&"x".into(), &1.into()));
        assert_eq!(document(&at, &["get", "-b", "/a"])["data_base64"], "eA==");
        assert_eq!(document(&at, &["get", "/a/b"])["data"], Value::Null);
        assert_eq!(document(&at, &["ls", "/a"])["children"][0], "b");
        assert_eq!(document(&at, &["tree", "/a"])["paths"][1], "/a/b");
        let acl = document(&at, &["getAcl", "/a"]);
        assert_eq!(acl["acl"][0]["permissions"], "cdrwa", "{acl}");
        let refused = document(&at, &["get", "/missing"]);
        assert_eq!(
            (&refused["error"]["name"], &refused["error"]["code"]),
            (&"NoNode".into(), &(-101).into())
        );
        let output = run(&at, &["tree", "/a"]);
        assert!(stdout(&output).ends_with("/a\n└── b\n2 znodes\n"), "{}", stdout(&output));
    }
}

#[test]
fn a_session_with_ephemerals_stays_until_it_expires_and_others_are_closed() {
    let server = Server::start(Kind::subject(), &["4lw.commands.whitelist=srvr,mntr"]);
    let at = server.host_port();
    run(&at, &["create", "-e", "/mine"]);
    run(&at, &["create", "/kept"]);
    let mut observer = server.connect(10_000);
    let mine = observer.call(op::EXISTS, &request::path_watch("/mine", false));
    assert_eq!(mine.expect("a reply").err, 0);
    // That of the ephemeral, and the observer's.
    let figures = four_letter_words::ask(server.address(), "mntr").expect("figures");
    assert!(figures.contains("\nzk_global_sessions\t2\n"), "{figures}");
    let told = run(&at, &["--auth", "digest:u:p", "whoami"]);
    assert!(stdout(&told).contains("digest: u\n"), "{}", stdout(&told));
}

#[test]
fn watch_shows_every_change_and_goes_on_after_a_restart() {
    let mut server = Server::start(Kind::subject(), &[]);
    let (program, at) = (ferrokeeper().display().to_string(), server.host_port());
    let words = [&program, "cli", "-server", &at, "--json", "watch", "-r", "/"];
    let mut watch = Program::start(&words.map(String::from), &[]);
    let mut next = || -> Value {
        let line = watch.next_line().expect("it watches until it is ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    assert_eq!(next()["state"], "Watching");
    let mut client = server.connect(10_000);
    let create = |path| request::create(path, Some(b"x"), mode::PERSISTENT);
    client.call(op::CREATE, &create("/a")).expect("a reply");
    let created = client.call(op::CREATE, &create("/a/b")).expect("a reply");
    client.call(op::SET_DATA, &request::set_data("/a", b"y", -1)).expect("a reply");
    client.call(op::DELETE, &request::path_version("/a/b", -1)).expect("a reply");
    let events: Vec<Value> = (0..4).map(|_| next()).collect();
    let shown: Vec<_> = events.iter().map(|event| (&event["kind"], &event["path"])).collect();
    let expected = [
        ("NodeCreated", "/a"),
        ("NodeCreated", "/a/b"),
        ("NodeDataChanged", "/a"),
        ("NodeDeleted", "/a/b"),
    ]
    .map(|(kind, path)| (Value::from(kind), Value::from(path)));
    assert_eq!(shown, expected.iter().map(|(kind, path)| (kind, path)).collect::<Vec<_>>());
    assert_eq!(events[1]["zxid"], format!("{:#x}", created.zxid));

    client.close().expect("the session closes");
    server.stop();
    assert_eq!(next()["state"], "Disconnected");
    server.restart();
    assert_eq!(next()["state"], "SyncConnected");
    // The watch was set again ahead of the event's own connection.
    let mut client = server.connect(10_000);
    client.call(op::CREATE, &create("/a/c")).expect("a reply");
    let event = next();
    assert_eq!((&event["kind"], &event["path"]), (&"NodeCreated".into(), &"/a/c".into()));
    watch.signal(Signal::INT);
}

#[test]
fn watch_goes_on_with_a_new_session_when_the_first_one_has_expired() {
    let mut server = Server::start(Kind::subject(), &["tickTime=200"]);
    let at = server.host_port();
    let program = ferrokeeper().display().to_string();
    let words = [&program, "cli", "-server", &at, "-timeout", "600", "--json", "watch", "/"];
    let mut watch = Program::start(&words.map(String::from), &[]);
    let mut until = |name: &str, value: &str| loop {
        let line = watch.next_line().expect("it watches until it is ended");
        let document: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        if document[name] == value {
            return;
        }
    };
    until("state", "Watching");
    server.stop();
    until("state", "Expired");
    server.restart();
    until("state", "Watching");
    let mut client = server.connect(10_000);
    let create = request::create("/a", None, mode::PERSISTENT);
    client.call(op::CREATE, &create).expect("a reply");
    until("kind", "NodeChildrenChanged");
    watch.signal(Signal::INT);
}

#[test]
fn at_a_terminal_it_completes_and_remembers() {
    let server = Server::start(Kind::subject(), &[]);
    let script = repository().join("compat-tests/clients/typed_shell.py");
    let words = [
        python().display().to_string(),
        script.display().to_string(),
        ferrokeeper().display().to_string(),
        server.host_port(),
    ];
    let (succeeded, said) = Program::start(&words, &[]).finish();
    assert!(succeeded, "{}", said.join("\n"));
}
