//! Files zoo.cfg as they are found in production: Apache ZooKeeper and the server under test start
//! on each, or refuse it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use compat_tests::request::{self, mode, op};
use compat_tests::zoo_cfg::{self, Expected, ZooCfg};
use compat_tests::{Kind, Server, ferrokeeper, four_letter_words};

/// Started at once; each is up to three JVMs.
const AT_ONCE: usize = 3;

#[test]
fn every_file_is_taken_as_by_apache_zookeeper() {
    let files = zoo_cfg::all();
    assert!(files.len() >= 20, "{} files", files.len());
    let left = Mutex::new(files.iter());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no panic holds it").next();
                    let Some(file) = next else { return };
                    if catch_unwind(AssertUnwindSafe(|| compare(file))).is_err() {
                        failed.lock().expect("no panic holds it").push(file.name.as_str());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic held it");
    assert!(failed.is_empty(), "not as expected: {failed:?}");
}

fn compare(file: &ZooCfg) {
    let reference = start(file, Kind::Reference);
    let subject = start(file, Kind::subject());
    match (&file.expected, reference, subject) {
        (Expected::Serves, Ok(reference), Ok(subject)) => {
            assert_eq!(reference, subject, "{}: ruok", file.name);
        }
        (Expected::Refused(_), Err(_), Err(said))
        | (Expected::RefusedHere(_), Ok(_), Err(said)) => {
            if Kind::subject() == Kind::Ferrokeeper {
                is_told(file, &said);
            }
        }
        (Expected::RefusedHere(_), Ok(_), Ok(_)) if Kind::subject() == Kind::Reference => {}
        (expected, reference, subject) => {
            panic!("{}: {expected:?}, and it was {reference:?}, {subject:?}", file.name)
        }
    }
}

/// The key, and the line of the file that it is about.
fn is_told(file: &ZooCfg, said: &str) {
    let (Expected::Refused(key) | Expected::RefusedHere(key)) = &file.expected else { return };
    let line = said.lines().find(|line| line.starts_with("ferrokeeper: ")).unwrap_or_default();
    let (_, place) = line.split_once("zoo.cfg:").unwrap_or_else(|| panic!("{}: {said}", file.name));
    let number = place.split_once(": ").and_then(|(number, _)| number.parse::<u32>().ok());
    assert!(number.is_some() && line.contains(key.as_str()), "{}: {said}", file.name);
}

/// What all servers of the file answer to ruok once they serve and a client was served; else why
/// they do not.
fn start(file: &ZooCfg, kind: Kind) -> Result<Vec<String>, String> {
    let mut begun = file.begin(kind);
    let waited = begun.wait();
    if kind == Kind::Ferrokeeper {
        check_agrees(file, &begun.servers()[0], waited.is_ok());
    }
    waited?;
    Ok(begun.servers().iter().map(served).collect())
}

/// `config check` says the same of the file as the start.
fn check_agrees(file: &ZooCfg, server: &Server, serves: bool) {
    let output = Command::new(ferrokeeper())
        .args(["config", "check"])
        .arg(server.config_file())
        .output()
        .expect("it runs");
    let expected = if serves { 0 } else { 2 };
    assert_eq!(output.status.code(), Some(expected), "{}: {output:?}", file.name);
}

/// A znode is made and read on this server; returns its answer to ruok.
fn served(server: &Server) -> String {
    let path = format!("/of-{}", server.address().port());
    let mut client = server.connect(10_000);
    let create = request::create(&path, Some(b"data"), mode::PERSISTENT);
    assert_eq!(client.call(op::CREATE, &create).expect("a reply").err, 0);
    let reply = client.call(op::GET_DATA, &request::path_watch(&path, false)).expect("a reply");
    assert_eq!((reply.err, &*reply.data()), (0, &b"data"[..]));
    four_letter_words::ask(server.address(), "ruok").expect("an answer")
}
