//! `migrate check --to-zookeeper`. What it says of ZooKeeper,
//! compat-tests/tests/java_takes_over/way_back.rs has from ZooKeeper.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrokeeper::storage::{
    DataDirectory, DirectoryOptions, Members, Over, RaftState, RaftStateFile, RealDisk, SessionKey,
    SessionSecret,
};
use jute::txn::{CreateTtlTxn, SetDataTxn, Txn};
use jute::{Acl, perms};
use serde_json::{Value, json};

use crate::fixture::{
    SESSION, add, add_with_acl, fine, image, java, object, offsets, own, run, text,
};

const THREE: &str = "initLimit=10\nsyncLimit=5\nserver.1=a:2888:3888\nserver.2=b:2888:3888\n\
                     server.3=c:2888:3888:observer\n";

/// A zoo.cfg of this directory.
fn config(data: &Path, more: &str) -> PathBuf {
    let file = data.parent().expect("a folder").join("zoo.cfg");
    let lines = format!("dataDir={}\nclientPort=2181\n{more}", data.display());
    fs::write(&file, lines).expect("written");
    file
}

fn report(at: &Path) -> Value {
    object(&["migrate", "check", "--to-zookeeper", "--json", text(at)])
}

/// The one problem of a way back that there is not.
fn problem(at: &Path) -> String {
    let words = ["migrate", "check", "--to-zookeeper", "--json", text(at)];
    let ended = run(&words);
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = &ended.json()[0];
    assert_eq!(report["can_go_back"], false);
    let problems = report["problems"].as_array().expect("a list");
    assert_eq!(problems.len(), 1, "{problems:?}");
    let people = run(&["migrate", "check", "--to-zookeeper", text(at)]);
    assert!(people.code == 1 && people.out.contains("PROBLEM"), "{people:?}");
    assert!(!people.out.contains("to go back"), "{people:?}");
    problems[0].as_str().expect("text").to_owned()
}

fn costs(at: &Path) -> Vec<String> {
    let report = report(at);
    let costs = report["costs"].as_array().expect("a list");
    costs.iter().map(|cost| cost.as_str().expect("text").to_owned()).collect()
}

fn open(data: &Path) -> DataDirectory {
    let options = DirectoryOptions {
        data_dir: data.to_owned(),
        data_log_dir: data.to_owned(),
        create: false,
    };
    DataDirectory::open(Arc::new(RealDisk), &options).expect("opens")
}

#[test]
fn sessions_with_zookeepers_passwords_cost_nothing() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 4, 2);
    let file = config(&data, "autopurge.purgeInterval=1\n");
    let before = image(root.path());
    for at in [&file, &data] {
        let report = report(at);
        assert_eq!(report["can_go_back"], true);
        assert_eq!((&report["sessions"], &report["sessions_ending"]), (&1.into(), &json!([])));
        assert_eq!((&report["zxid"], &report["ttl_znodes"]), (&"0x6".into(), &0.into()));
    }
    assert_eq!(costs(&file), [""; 0]);
    let people = fine(&["migrate", "check", "--to-zookeeper", text(&file)]).out;
    assert!(people.contains("to go back stop ferrokeeper with SIGTERM"), "{people}");
    assert_eq!(image(root.path()), before, "it only reads");
    let elsewhere = root.path().join("logs");
    let words = ["migrate", "check", "--to-zookeeper", "--log-dir", text(&elsewhere), text(&data)];
    assert_eq!(run(&words).code, 3);
    assert_eq!(run(&["migrate", "check", "--log-dir", text(&elsewhere), text(&file)]).code, 2);
    let theirs = java(&root.path().join("theirs"));
    assert_eq!(report(&theirs)["can_go_back"], true);
}

#[test]
fn sessions_with_keyed_passwords_are_named() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 4, 2);
    let folder = data.join("version-2");
    fs::write(folder.join("session.key"), [7; 32]).expect("written");
    let session = format!("{SESSION:#x}");
    let expected = json!([{ "session": session, "ephemerals": 0 }]);
    assert_eq!(report(&data)["sessions_ending"], expected);
    assert!(costs(&data)[0].starts_with("1 session would expire, with 0 ephemeral znodes"));
    let people = fine(&["migrate", "check", "--to-zookeeper", text(&data)]).out;
    assert!(people.contains(&session) && people.contains("1 of 1 sessions"), "{people}");
    // As `data seal` leaves one that was open.
    fs::write(folder.join("sessions.before.key"), format!("{session}\n")).expect("written");
    assert_eq!(report(&data)["sessions_ending"], json!([]));

    // Of a member it is raft.state that counts.
    // As a number, a reader of JSON would make 0x20000000000000 of it.
    let id = (1 << 53) + 1;
    let members = Members { voters: vec![id, 0x102, 0x103], ..Members::default() };
    let state = RaftState { id, members, ..RaftState::default() };
    for (secret, expected) in [
        (None, json!([])),
        (Some(SessionSecret { key: SessionKey::new([8; 32]), before: Vec::new() }), expected),
    ] {
        RaftStateFile::create(&open(&data), &state, secret.as_ref()).expect("a member");
        let report = report(&data);
        assert_eq!(report["sessions_ending"], expected);
        assert_eq!(report["member"], "0x20000000000001");
        let checked = object(&["data", "check", "--json", text(&data)]);
        assert_eq!(checked["member"], "0x20000000000001");
        for words in [["data", "check"].as_slice(), &["migrate", "check", "--to-zookeeper"]] {
            let said = run(&[words, &[text(&data)]].concat()).out;
            assert!(said.contains("member     0x20000000000001 of an ensemble"), "{said}");
        }
    }
}

#[test]
fn keys_that_zookeeper_does_not_read_are_named() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 1, 2);
    let file = config(&data, "sessions.passwords=zookeeper\njute.maxbuffer=5000000\nsnapCount=7\n");
    assert_eq!(report(&file)["keys_only_here"], json!(["jute.maxbuffer", "sessions.passwords"]));
    let costs = costs(&file);
    let expected = [
        "jute.maxbuffer is in effect here, but ZooKeeper does not read it from zoo.cfg: set it \
         with -D",
        "sessions.passwords is ferrokeeper's own, and ZooKeeper ignores it",
        "autopurge.purgeInterval is not set: ZooKeeper never purges old snapshots and logs then",
    ];
    assert_eq!(costs, expected);
}

/// `BinaryInputArchive`: 0xfffff and as much again.
#[test]
fn a_transaction_that_zookeeper_does_not_read_is_a_problem() {
    let root = tempfile::tempdir().expect("a folder");
    for (bytes, is_read) in [(2_000_000, true), (2 * 0xf_ffff, false)] {
        let data = own(&root.path().join(bytes.to_string()), 0, 2);
        let set = SetDataTxn { path: "/a".into(), data: Some(vec![1; bytes].into()), version: 1 };
        add(&data, Txn::SetData(set));
        let file = config(&data, "jute.maxbuffer=5000000\n");
        if is_read {
            assert_eq!(report(&file)["record_max"], 2_097_150);
        } else {
            let problem = problem(&file);
            assert!(problem.contains("cannot read one of more than 2097150"), "{problem}");
        }
    }
}

#[test]
fn znodes_with_a_time_to_live_need_their_key() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 0, 2);
    let create = CreateTtlTxn {
        path: "/brief".into(),
        data: None,
        acl: Some(vec![Acl::anyone(31)]),
        parent_cversion: 2,
        ttl: 5000,
    };
    add(&data, Txn::CreateTtl(create));
    let file = config(&data, "extendedTypesEnabled=true\nautopurge.purgeInterval=1\n");
    assert_eq!((&report(&file)["ttl_znodes"], costs(&file)), (&1.into(), vec![]));
    assert!(costs(&data)[0].ends_with("extendedTypesEnabled=true: /brief"));
    let problem = problem(&config(&data, ""));
    assert!(problem.starts_with("1 znode with a time to live would be"), "{problem}");
}

#[test]
fn names_that_are_not_ascii_depend_on_the_jvm() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 0, 1);
    let digest = |id: &'static str| Acl {
        perms: perms::ALL,
        scheme: Some("digest".into()),
        id: Some(id.into()),
    };
    add_with_acl(&data, vec![digest("müller:x1nq8J5GOJVPY6zgzhtTtA9izLc="), digest("a:b")]);
    let costs = costs(&config(&data, "autopurge.purgeInterval=1\n"));
    assert!(costs.len() == 1 && costs[0].ends_with(": müller:x1nq8J5GOJVPY6zgzhtTtA9izLc="));
}

#[test]
fn a_log_that_a_start_would_cut_or_refuse_is_a_problem() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 4, 9);
    let log = data.join("version-2/log.1");
    let whole = fs::read(&log).expect("a log");
    let records = offsets(&whole);
    let with_flip = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&log, bytes).expect("written");
    };
    with_flip(records[records.len() - 2] + 20);
    let torn = problem(&data);
    assert!(torn.contains("start ferrokeeper once more, which cuts them off"), "{torn}");
    with_flip(records[0] + 20);
    let damaged = problem(&data);
    assert!(damaged.starts_with("[FK0207]"), "{damaged}");
}

#[test]
fn a_member_must_be_what_zookeeper_takes_it_for() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 1, 2);
    fs::write(data.join("myid"), "1").expect("written");
    let members =
        || Members { voters: vec![0x101, 0x302], learners: vec![0x403], ..Members::default() };
    let is = |state: RaftState| {
        let state = RaftState { id: 0x101, ..state };
        RaftStateFile::create(&open(&data), &state, None).expect("a member");
    };
    let good = || RaftState { members: members(), ..RaftState::default() };
    let three = config(&data, &format!("{THREE}autopurge.purgeInterval=1\n"));
    is(good());
    assert_eq!(costs(&three), [""; 0]);
    let people = fine(&["migrate", "check", "--to-zookeeper", text(&three)]).out;
    assert!(people.contains("stop ferrokeeper on all 3 servers"), "{people}");

    for (state, expected) in [
        (RaftState { over: Some(Over::Removed), ..good() }, "was removed from its ensemble"),
        (RaftState { over: Some(Over::OlderCopy), ..good() }, "an older copy"),
        (RaftState { founds: true, ..good() }, "between two states"),
        (
            RaftState { members: Members { voters: vec![0x101], ..members() }, ..good() },
            "do not vote yet: 2;",
        ),
        (
            RaftState {
                members: Members { voters: vec![0x101, 0x302, 0x403], ..members() },
                ..good()
            },
            "are not voters in zoo.cfg: 3;",
        ),
        (
            RaftState { members: Members { voters_outgoing: vec![0x101], ..members() }, ..good() },
            "are being changed",
        ),
    ] {
        is(state);
        let problem = problem(&three);
        assert!(problem.contains(expected), "{problem}");
    }
    // The voter is an earlier life of this server.
    let later = RaftState { id: 0x501, members: members(), ..RaftState::default() };
    RaftStateFile::create(&open(&data), &later, None).expect("a member");
    assert!(problem(&three).contains("do not vote yet: 1;"));
    assert!(costs(&data)[0].starts_with("this member does not vote"));
    is(good());
    let alone = costs(&config(&data, "autopurge.purgeInterval=1\n"));
    assert!(alone.len() == 1 && alone[0].contains("one of 2 voters"), "{alone:?}");
}

#[test]
fn an_empty_voter_is_a_problem_and_an_empty_observer_is_none() {
    let root = tempfile::tempdir().expect("a folder");
    let data = root.path().join("data");
    fs::create_dir_all(data.join("version-2")).expect("a folder");
    let file = config(&data, THREE);
    for (id, is_voter) in [("1", true), ("2", true), ("3", false)] {
        fs::write(data.join("myid"), id).expect("written");
        if is_voter {
            assert!(problem(&file).starts_with("the directory has no data"));
        } else {
            assert_eq!(report(&file)["can_go_back"], true);
        }
    }
    assert_eq!(report(&config(&data, ""))["can_go_back"], true);
}

/// As `QuorumPeer.loadDataBase`: what is missing is the epoch of the last transaction.
#[test]
fn epochs_are_compared_as_zookeeper_does_it() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 1, 2);
    fs::write(data.join("myid"), "1").expect("written");
    let file = config(&data, THREE);
    let epochs = |current: Option<&str>, accepted: Option<&str>| {
        for (name, epoch) in [("currentEpoch", current), ("acceptedEpoch", accepted)] {
            let path = data.join("version-2").join(name);
            let _ = fs::remove_file(&path);
            if let Some(epoch) = epoch {
                fs::write(path, epoch).expect("written");
            }
        }
    };
    for good in [(None, None), (Some("0"), Some("0")), (Some("3"), Some("4"))] {
        epochs(good.0, good.1);
        assert_eq!(report(&file)["can_go_back"], true, "{good:?}");
    }
    for bad in [(Some("5"), Some("4")), (Some("5"), None)] {
        epochs(bad.0, bad.1);
        let problem = problem(&file);
        assert!(problem.starts_with("acceptedEpoch is "), "{problem}");
    }
    // Nobody reads them where a server is alone.
    assert_eq!(report(&config(&data, ""))["can_go_back"], true);
    epochs(Some("x"), None);
    assert_eq!(run(&["migrate", "check", "--to-zookeeper", text(&file)]).code, 1);
}
