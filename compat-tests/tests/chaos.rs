//! Three servers in network namespaces of their own, and stock clients, while everything goes wrong
//! that a seed can think of: what the clients were told can be true of one tree. `src/bin/chaos`
//! says how.
//!
//! `CHAOS_MINUTES` and `CHAOS_SEED` choose a run.

use std::process::Command;

#[test]
#[ignore = "scripts/test --all, as root"]
fn clients_see_one_tree_whatever_goes_wrong() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    for (variable, option) in [("CHAOS_MINUTES", "--minutes"), ("CHAOS_SEED", "--seed")] {
        if let Some(value) = std::env::var_os(variable) {
            command.arg(option).arg(value);
        }
    }
    if std::env::var("SUBJECT").as_deref() == Ok("reference") {
        command.arg("--reference");
    }
    let output = command.output().expect("the program runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
