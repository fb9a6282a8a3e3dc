//! Rows of observed behaviour on raw sockets: one table of expectations for Apache ZooKeeper and
//! for the server under test.

mod acls;
mod connecting;
mod malformed;
mod requests;

use std::panic::{AssertUnwindSafe, catch_unwind};

use compat_tests::{Kind, Server};

/// What is claimed, and the check.
type Row = (&'static str, fn(&Server));

/// What both servers do.
const SHARED: [&[Row]; 4] = [&acls::ROWS, &connecting::ROWS, &malformed::ROWS, &requests::ROWS];

fn run(kind: Kind, tables: &[&[Row]]) {
    let server = Server::start(
        kind,
        &["tickTime=1000", "maxSessionTimeout=20000", "4lw.commands.whitelist=ruok,isro"],
    );
    let mut failed = Vec::new();
    // ZooKeeper 3.9.5 closes a connection now and then before its last answer is sent.
    let tries = if kind == Kind::Reference { 3 } else { 1 };
    for (claim, check) in tables.iter().copied().flatten() {
        // One failure must not hide the other rows.
        let holds = (0..tries).any(|_| catch_unwind(AssertUnwindSafe(|| check(&server))).is_ok());
        if !holds {
            failed.push(*claim);
        }
    }
    assert!(failed.is_empty(), "{kind:?} fails:\n- {}", failed.join("\n- "));
}

#[test]
fn apache_zookeeper() {
    run(Kind::Reference, &SHARED);
}

#[test]
fn subject() {
    let kind = Kind::subject();
    let mut tables = SHARED.to_vec();
    if kind == Kind::Ferrokeeper {
        tables.extend([&connecting::MEANT_DIFFERENCES[..], &malformed::MEANT_DIFFERENCES]);
    }
    run(kind, &tables);
}
