//! What is named as it was before this product was called ferrokeeper is refused, or warned about,
//! and never passed over.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use ferrokeeper::storage::{
    DataDirectory, DirectoryOptions, Members, RaftState, RaftStateFile, RealDisk,
};
use jute::CreateMode;

use crate::client::{create, open, until};
use crate::ensemble::prepare;
use crate::process::Server;
use crate::refusal::{refusal, type_in, worn};

const TIMEOUT_MS: i32 = 10_000;

fn version(server: &Server) -> PathBuf {
    server.data().join("version-2")
}

/// Every file with its content.
fn image(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("an entry").path());
    let mut image: Vec<_> =
        files.map(|path| (path.clone(), fs::read(&path).expect("reads"))).collect();
    image.sort();
    image
}

/// Gives the marks of a directory the names that they had.
fn to_old_names(server: &Server, marks: &[(&str, &str)]) {
    for (mark, content) in marks {
        let path = version(server).join(format!("ferrokeeper.{mark}"));
        if !path.exists() {
            fs::write(&path, content).expect("written");
        }
        fs::rename(&path, path.with_file_name(format!("rookeeper.{mark}"))).expect("renamed");
    }
}

/// What a command says that fails.
fn failing(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    let ended = command.args(words).output().expect("it runs");
    assert!(!ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stdout));
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// What stands between the first backticks.
fn command_in(said: &str) -> &str {
    said.split('`').nth(1).unwrap_or_else(|| panic!("no command in {said}"))
}

#[test]
fn each_mark_of_an_old_name_is_refused_and_the_command_keeps_what_it_says() {
    for (mark, content) in
        [("lock", ""), ("logged", ""), ("sealed", "0x0\n"), ("unsynced", ""), ("restoring", "")]
    {
        let mut server = worn();
        to_old_names(&server, &[(mark, content)]);
        let before = image(&version(&server));
        let said = refusal(&server);
        assert!(said.contains("[FK0259]"), "{said}");
        assert!(
            said.contains(&format!("version-2/rookeeper.{mark} was written by a release")),
            "{said}"
        );
        assert!(before == image(&version(&server)), "{mark}: something was changed");
        type_in(command_in(&said));
        if mark == "restoring" {
            assert!(refusal(&server).contains("[FK0213]"), "the mark still counts");
            continue;
        }
        server.run();
        assert!(server.connect(TIMEOUT_MS).exists("/4"), "{mark}");
    }
}

#[test]
fn one_command_renames_all_marks_in_both_folders() {
    let mut server = worn();
    let logs = server.data().with_file_name("my log");
    fs::create_dir_all(logs.join("version-2")).expect("a folder");
    for (path, _) in image(&version(&server)) {
        let name = path.file_name().expect("a name").to_owned();
        if name.to_string_lossy().starts_with("log.") {
            fs::rename(&path, logs.join("version-2").join(name)).expect("renamed");
        }
    }
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    fs::write(server.config(), format!("{config}dataLogDir={}\n", logs.display()))
        .expect("zoo.cfg");
    to_old_names(&server, &[("lock", ""), ("logged", "")]);
    fs::write(logs.join("version-2/rookeeper.unsynced"), "").expect("written");
    let first = refusal(&server);
    type_in(command_in(&first));
    let names = |folder: &Path| -> Vec<String> {
        let names = image(folder).into_iter().map(|(path, _)| path);
        names.map(|path| path.file_name().expect("a name").to_string_lossy().into()).collect()
    };
    let kept = names(&version(&server));
    assert!(
        ["ferrokeeper.lock", "ferrokeeper.logged"]
            .iter()
            .all(|name| kept.contains(&(*name).into()))
    );
    let second = refusal(&server);
    assert!(
        second.contains("my log/version-2/rookeeper.unsynced was written by a release"),
        "{second}"
    );
    type_in(command_in(&second));
    assert_eq!(names(&logs.join("version-2"))[0], "ferrokeeper.unsynced");
    server.run();
    assert!(server.connect(TIMEOUT_MS).exists("/4"));
}

/// The server of the earlier version still runs: also after the command nobody else gets the
/// directory.
#[test]
fn a_lock_that_is_held_under_its_old_name_is_held_under_the_new_one() {
    let server = worn();
    to_old_names(&server, &[("lock", "")]);
    let lock = File::options().write(true).open(version(&server).join("rookeeper.lock"));
    let lock = lock.expect("opens");
    lock.try_lock().expect("nobody has it");
    type_in(command_in(&refusal(&server)));
    assert!(refusal(&server).contains("[FK0204]"));
    drop(lock);
}

#[test]
fn no_tool_works_on_a_directory_with_an_old_name() {
    let server = worn();
    to_old_names(&server, &[("sealed", "0x0\n")]);
    let (data, config) = (server.data(), server.config());
    let (data, config) = (data.to_str().expect("a name"), config.to_str().expect("a name"));
    let other = server.data().with_file_name("other");
    let other = other.to_str().expect("a name");
    let before = image(&version(&server));
    for words in [
        &["data", "check", data][..],
        &["data", "check", config],
        &["data", "seal", data],
        &["data", "seal", "--dry-run", data],
        &["data", "leave", data],
        &["data", "truncate", data, "--to-zxid", "0x3"],
        &["data", "first-snapshot", data],
        &["backup", data, other],
        &["restore", data, other],
        &["migrate", "check", config],
    ] {
        let said = failing(words);
        assert!(said.contains("[FK0259]"), "{words:?}: {said}");
    }
    assert!(before == image(&version(&server)), "something was changed");
    assert!(!Path::new(other).exists());
    // A restore moves away what it replaces, and a server may be running on it.
    let good = worn();
    let from = good.data();
    let said = failing(&["restore", "--replace", from.to_str().expect("a name"), data]);
    assert!(said.contains("[FK0259]"), "{said}");
    assert!(before == image(&version(&server)), "something was changed");
}

/// In either slot: of a file that was just begun, one is still empty.
#[test]
fn what_a_member_promised_under_an_old_name_is_not_forgotten() {
    for (name, slots) in
        [("raft.state", &[0, 4096][..]), ("raft.state", &[4096]), ("raft.state.left", &[0])]
    {
        let server = worn();
        let options = DirectoryOptions {
            data_dir: server.data(),
            data_log_dir: server.data(),
            create: false,
        };
        let directory =
            DataDirectory::open(std::sync::Arc::new(RealDisk), &options).expect("opens");
        let members = Members { voters: vec![0x101, 0x102, 0x103], ..Members::default() };
        let state = RaftState { id: 0x102, members, ..RaftState::default() };
        RaftStateFile::create(&directory, &state, None).expect("a member");
        drop(directory);
        let path = version(&server).join("raft.state");
        let mut bytes = fs::read(&path).expect("reads");
        for at in slots {
            bytes[*at..at + 4].copy_from_slice(b"RKRS");
        }
        fs::remove_file(&path).expect("removed");
        fs::write(version(&server).join(name), bytes).expect("written");
        let before = image(&version(&server));
        let said = refusal(&server);
        assert!(said.contains("[FK0259]"), "{said}");
        assert!(said.contains(&format!("version-2/{name} was written by a release")), "{said}");
        let said = failing(&["data", "leave", server.data().to_str().expect("a name")]);
        assert!(said.contains("[FK0259]"), "{said}");
        assert!(before == image(&version(&server)), "something was changed");
        // Also beside marks: the release that reads it has to find these.
        to_old_names(&server, &[("logged", "")]);
        let said = refusal(&server);
        assert!(said.contains(&format!("version-2/{name} was written by a release")), "{said}");
    }
}

/// Without zoo.cfg the folder has a name of its own: an empty one beside it would be served in its
/// place.
#[test]
fn the_default_folder_of_an_old_name_is_not_begun_anew() {
    let mut server = worn();
    let old = server.data().with_file_name("rookeeper-data");
    let new = server.data().with_file_name("ferrokeeper-data");
    fs::rename(server.data(), &old).expect("renamed");
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    let config = config.replace(&server.data().display().to_string(), &new.display().to_string());
    fs::write(server.config(), config).expect("zoo.cfg");
    let said = refusal(&server);
    assert!(
        said.contains("[FK0259]") && said.contains("rookeeper-data was written by a release"),
        "{said}"
    );
    assert!(!new.exists(), "begun anew");
    type_in(command_in(&said));
    server.run();
    assert!(server.connect(TIMEOUT_MS).exists("/4"));
}

#[test]
fn a_server_of_an_old_name_is_refused_by_name() {
    let mut servers = prepare(3, "");
    servers.iter_mut().take(1).for_each(Server::run);
    let config = fs::read_to_string(servers[0].config()).expect("zoo.cfg");
    let line = config.lines().find_map(|line| line.strip_prefix("server.1=127.0.0.1:"));
    let port = line.and_then(|line| line.split(':').next()).expect("a port");
    let mut stream: TcpStream =
        open(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().expect("a port"))));
    stream.write_all(&[&b"rookeepr"[..], &62_u32.to_be_bytes(), &[0; 62]].concat()).expect("sent");
    let mut len = [0; 4];
    stream.read_exact(&mut len).expect("an answer");
    let mut reason = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut reason).expect("a reason");
    let reason = String::from_utf8_lossy(&reason);
    assert!(
        reason.contains("a release from before the product was renamed to ferrokeeper"),
        "{reason}"
    );
    until("it is in the log", || servers[0].log().contains(&*reason));
}

#[test]
fn a_variable_of_an_old_name_is_warned_about() {
    let mut server = Server::prepare("");
    let mut command = server.command();
    command.env("ROOKEEPER_LOG", "trace").env("ROOKEEPER_LOG_FORMAT", "json").env("ROOKEEPER", "x");
    server.run_as(command);
    let log = server.log();
    for (old, new) in [
        ("ROOKEEPER", "FERROKEEPER"),
        ("ROOKEEPER_LOG", "FERROKEEPER_LOG"),
        ("ROOKEEPER_LOG_FORMAT", "FERROKEEPER_LOG_FORMAT"),
    ] {
        let text = format!("the environment has {old}, which is not read: its name is now {new}");
        assert!(log.lines().any(|line| line.contains("[FK0715]") && line.contains(&text)), "{log}");
    }
    assert!(!log.contains("TRACE"), "{log}");
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/a", Vec::new(), CreateMode::Persistent));
}
