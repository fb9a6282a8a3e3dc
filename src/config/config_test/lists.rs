//! Lists of servers in a file of their own, and of one server, against `QuorumPeerConfig` of 3.9.5.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{examine, load_bytes, loaded};
use crate::config::{Config, ConfigError};
use crate::list::Role;
use crate::message::MessageId;

/// A folder with the files of server 1.
struct Files {
    dir: TempDir,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("myid"), "1\n").expect("written");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Loads a zoo.cfg with these lines behind its first four.
    fn load(&self, lines: &str) -> Result<Config, ConfigError> {
        let path = self.path("zoo.cfg");
        let data_dir = self.dir.path().display();
        let text = format!("dataDir={data_dir}\ninitLimit=5\nsyncLimit=2\ntickTime=9\n{lines}");
        fs::write(&path, &text).expect("written");
        let loaded = examine(Some(&path), &[]).and_then(loaded);
        loaded.map(|loaded| loaded.config)
    }

    /// The same, with a list in a file of this name.
    fn load_with(&self, name: &str, list: &str) -> Result<Config, ConfigError> {
        let path = self.path(name);
        fs::write(&path, list).expect("written");
        self.load(&format!("dynamicConfigFile={}", path.display()))
    }
}

fn list_of(config: &Config) -> String {
    config.ensemble.as_ref().map(|its| its.list.text()).unwrap_or_default()
}

#[test]
fn a_list_in_a_file_is_that_of_zoo_cfg_and_its_name_has_the_version() {
    let files = Files::new();
    let list = "server.2=b:1:2:observer;[::1]:9\nserver.1=a:1:2;127.0.0.1:7";
    let text = "server.1=a:1:2:participant;127.0.0.1:7\n\
                server.2=b:1:2:observer;[0:0:0:0:0:0:0:1]:9\nversion=";
    for (name, version) in [("zoo.cfg.dynamic.10000000a", "10000000a"), ("zoo.cfg.dynamic", "0")] {
        let config = files.load_with(name, list).expect("a list");
        assert_eq!(list_of(&config), format!("{text}{version}"));
        assert_eq!(config.client_listen.to_string(), "127.0.0.1:7");
        let file = config.file.map(|file| file.path);
        assert_eq!(file, Some(files.path("zoo.cfg")));
        let me = config.ensemble.and_then(|its| its.me().cloned()).expect("it is in the list");
        assert_eq!((me.role, me.quorum_port), (Role::Participant, 1));
    }
    // `setupClientPort`: a wildcard says no address.
    let named = format!("dynamicConfigFile={}\n", files.path("zoo.cfg.dynamic").display());
    for (own, outcome) in [
        ("clientPort=7", Some("127.0.0.1:7")),
        ("clientPort=7\nclientPortAddress=127.0.0.1", Some("127.0.0.1:7")),
        ("clientPort=8", None),
        ("clientPort=7\nclientPortAddress=127.0.0.2", None),
    ] {
        let loaded = files.load(&format!("{named}{own}"));
        let listen = loaded.as_ref().ok().map(|config| config.client_listen.to_string());
        assert_eq!(listen.as_deref(), outcome, "{own}: {loaded:?}");
    }
    // A file with one server: `isDistributed` is false.
    let alone = files.load_with("one", "server.1=a:1:2;7").expect("a list");
    assert_eq!((alone.ensemble, alone.client_listen.port), (None, 7));
}

/// The file is read where the server runs, not beside zoo.cfg: `new FileInputStream(path)`.
#[test]
fn a_relative_path_is_relative_to_the_working_directory() {
    let files = Files::new();
    fs::write(files.path("list"), "server.1=a:1:2;7\nserver.2=b:1:2").expect("written");
    let error = files.load("dynamicConfigFile=list").expect_err("it is not there");
    let place = format!("{}:5", files.path("zoo.cfg").display());
    let text = error.to_string();
    assert!(text.starts_with(&format!("{place}: cannot read dynamicConfigFile, list: ")), "{text}");
    assert_eq!(error.id(), MessageId::CONFIG_UNREADABLE);
    let config = files.load("dynamicConfigFile=Cargo.toml");
    assert!(matches!(config, Err(ConfigError::List { .. })), "{config:?}");
}

#[test]
fn a_file_that_has_no_list_ends_the_start() {
    let files = Files::new();
    let path = files.path("list.5");
    for (list, what) in [
        ("server.1=a:1:2\nclientPort=7", "\"clientPort\" is not server.N"),
        ("server.1=a:1:2\nversion=5", "the name of the file says its version, and no line in it"),
        ("server.1=a:1:1", "\"server.1\": the first two ports are the same"),
        (
            "server.1=a:1:2\ngroup.1=1",
            "\"group.1\" is refused: a majority of all voters decides, and all have the same \
             weight",
        ),
        // With these, ZooKeeper runs on its own, or does not start either.
        ("", "no server of the list votes"),
        ("server.1=a:1:2:observer", "no server of the list votes"),
    ] {
        let error = files.load_with("list.5", list).expect_err(list);
        assert_eq!(error.to_string(), format!("{}: {what}", path.display()));
        assert_eq!(error.id(), MessageId::NO_LIST_IN_FILE);
    }
    // "parameter: server.1 must be in a separate dynamic config file".
    fs::write(&path, "server.1=a:1:2;7\nserver.2=b:1:2").expect("written");
    let both = format!("dynamicConfigFile={}\nserver.1=a:1:2;7", path.display());
    let error = files.load(&both).expect_err("two lists");
    let place = format!("{}:6", files.path("zoo.cfg").display());
    let text =
        format!("{place}: server.1 is here, and dynamicConfigFile says that the list is in a file");
    assert_eq!(error.to_string(), text);
    // Who this is, is missing in that file.
    fs::write(files.path("myid"), "3").expect("written");
    let error = files.load_with("list.5", "server.1=a:1:2\nserver.2=b:1:2").expect_err("no line");
    let what = format!("this server's number is 3, but {} has no server.3 line", path.display());
    assert_eq!(error.to_string(), format!("{}: {what}", files.path("myid").display()));
}

/// ZooKeeper's next leader would complete it.
#[test]
fn a_change_that_zookeeper_has_begun_ends_the_start() {
    let files = Files::new();
    let list = "server.1=a:1:2;7\nserver.2=b:1:2";
    let next = files.path("zoo.cfg.dynamic.next");
    fs::write(&next, "server.1=a:1:2;7\nversion=200000001").expect("written");
    let error = files.load_with("zoo.cfg.dynamic.100000000", list).expect_err("it may be the old");
    assert!(matches!(&error, ConfigError::ProposedList { path } if *path == next), "{error}");
    assert!(error.remedy().contains("start its ensemble"), "{}", error.remedy());
    // It is looked at only where zoo.cfg names a file.
    let config = files.load(&format!("clientPort=7\n{}", list.replace(";7", "")));
    assert!(config.expect("a list").ensemble.is_some());
    fs::remove_file(next).expect("removed");
    assert!(files.load_with("zoo.cfg.dynamic.100000000", list).is_ok());
}

/// `isDistributed`: not `standaloneEnabled`, or more than one voter.
#[test]
fn one_server_is_an_ensemble_where_standalone_is_off() {
    let files = Files::new();
    let one = "server.1=a:1:2;7";
    let config = files.load(&format!("{one}\nstandaloneEnabled=False")).expect("an ensemble");
    assert_eq!(list_of(&config), "server.1=a:1:2:participant;0.0.0.0:7\nversion=0");
    assert_eq!(config.client_listen.port, 7);
    assert_eq!(files.load(one).expect("standalone").ensemble, None);
    assert_eq!(
        files.load(&format!("{one}\nstandaloneEnabled=true")).expect("standalone").ensemble,
        None
    );
    let list = "server.1=a:1:2;7";
    fs::write(files.path("list"), list).expect("written");
    let lines =
        format!("standaloneEnabled=false\ndynamicConfigFile={}", files.path("list").display());
    assert_eq!(list_of(&files.load(&lines).expect("an ensemble")), list_of(&config));

    for lines in ["server.1=a:1:2:observer;7", "server.2=a:1:2;7", "server.1=a:1;7"] {
        files.load(&format!("{lines}\nstandaloneEnabled=false")).expect_err(lines);
    }
    let nobody = "dataDir=/d\nclientPort=1\nstandaloneEnabled=false";
    let error = load_bytes(nobody.as_bytes(), &[], "").expect_err("nobody");
    let what = "standaloneEnabled=false asks for an ensemble, and there is no server.N line";
    assert_eq!(error.to_string(), format!("zoo.cfg:3: {what}"));

    fs::remove_file(files.path("myid")).expect("removed");
    let error = files.load(&format!("{one}\nstandaloneEnabled=false")).expect_err("who is it");
    let path = files.path("myid");
    let what = "this file does not exist; it should say which server this is";
    assert_eq!(error.to_string(), format!("{}: {what}", path.display()));
}
