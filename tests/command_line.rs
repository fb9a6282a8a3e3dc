//! The binary's answers that need no running server.

use std::fs;
use std::process::{Command, Output, Stdio};

fn ferrokeeper(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    command.args(arguments).env_remove("SERVER_JVMFLAGS").env_remove("JVMFLAGS");
    command.stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    ferrokeeper(arguments).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn version_is_one_line() {
    let output = output(&["--version"]);
    assert_eq!(stdout(&output), concat!("ferrokeeper ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn help_names_the_subcommand_and_its_arguments() {
    let help = output(&["--help"]);
    assert!(stdout(&help).contains("server"), "{help:?}");
    assert_eq!(help.status.code(), Some(0));
    let help = output(&["server", "--help"]);
    assert!(stdout(&help).contains("[ZOO.CFG]"), "{help:?}");
    assert!(stdout(&help).contains("-D <zookeeper.NAME=VALUE>"), "{help:?}");
}

#[test]
fn bad_arguments_are_code_2() {
    for arguments in [&[][..], &["serve"], &["server", "-Dname"], &["server", "a", "b"]] {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_what_to_do() {
    let output = output(&["server", "/no/such/zoo.cfg"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "ferrokeeper: [FK0101] /no/such/zoo.cfg: cannot read the configuration: No such file or \
         directory (os error 2)\n  Check the path; it is relative to the working directory.\n"
    );
}

#[test]
fn a_bad_value_is_named_with_its_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("zoo.cfg");
    fs::write(&file, "dataDir=/d\nclientPort=2181\ntickTime=fast\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    let output = output(&["server", file]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        format!(
            "ferrokeeper: [FK0105] {file}:3: tickTime is \"fast\", expected a number of \
             milliseconds from 1 to 2147483647\n  Correct tickTime, or remove it to get its \
             default.\n"
        )
    );
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("zoo.cfg");
    fs::write(&file, "dataDir=/d\nclientPort=2181\ntickTime=fast\noraclePath=/o\n")
        .expect("written");
    let output = output(&["server", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    let places: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_once("zoo.cfg:")?.1.split_once(' '))
        .map(|(line, _)| line)
        .collect();
    assert_eq!(places, ["4:", "3:"], "{said}");
}

/// Each way to write `-D`, told by the error of its bad value.
#[test]
fn defines_count_ahead_of_the_subcommand_and_behind_it() {
    let bad = "zookeeper.tickTime=x";
    let attached = format!("-D{bad}");
    for arguments in [
        &["server", &attached][..],
        &["server", "-D", bad],
        &[&attached, "server"],
        &["-D", bad, "server"],
        &[&attached, "server", "-Dzookeeper.maxCnxns=1"],
        &["-Dzookeeper.maxCnxns=1", "server", &attached],
        &["-Dzookeeper.tickTime=1", "server", &attached],
    ] {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let expected = "ferrokeeper: [FK0105] command line, -D: tickTime is \"x\", expected ";
        assert!(stderr(&output).starts_with(expected), "{arguments:?}: {output:?}");
    }
}

#[test]
fn the_environment_of_the_start_script_is_read() {
    let flags = "-Xmx1g -Dzookeeper.tickTime=y";
    // Refused by itself: without the flags it would be a server, whose end nobody sees.
    let mut server = ferrokeeper(&["server", "-Dzookeeper.minSessionTimeout=x"]);
    let output = server.env("SERVER_JVMFLAGS", flags).output().expect("runs");
    let expected =
        "ferrokeeper: [FK0105] environment, SERVER_JVMFLAGS: tickTime is \"y\", expected ";
    assert!(stderr(&output).lines().any(|line| line.starts_with(expected)), "{output:?}");
}
