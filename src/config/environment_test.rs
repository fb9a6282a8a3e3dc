//! Start scripts and the official image's variables, against what bash and `docker-entrypoint.sh`
//! make of them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::config::{Loaded, Purge, assemble, loaded};

/// A zoo.cfg with `files` beside it, or none where there are none.
fn load_with(
    zoo_cfg: Option<&str>,
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> (Result<Loaded, ConfigError>, String) {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("written");
    }
    let file = dir.path().join("zoo.cfg");
    let file = zoo_cfg.map(|text| (file.as_path(), text.as_bytes()));
    let variable = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let found = assemble(file, &[], variable).and_then(loaded);
    (found, dir.path().display().to_string())
}

const LEAST: &str = "dataDir=/d\nclientPort=2181\n";

fn started(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Loaded {
    load_with(Some(LEAST), files, variables).0.expect("a configuration")
}

#[test]
fn shell_files_beside_zoo_cfg_add_to_the_environment() {
    let snap_count = |files: &[(&str, &str)], variables: &[(&str, &str)]| {
        started(files, variables).config.snap_count
    };
    let server = "export SERVER_JVMFLAGS=\"-Xmx1g -Dzookeeper.snapCount=10 $SERVER_JVMFLAGS\"\n";
    let jvm = "# comment\nJVMFLAGS='-Dzookeeper.snapCount=20'\n";
    let debian = "NAME=zookeeper\nJAVA=/usr/bin/java\nJAVA_OPTS=\"-Dzookeeper.snapCount=30\"\n";
    assert_eq!(snap_count(&[("zookeeper-env.sh", server)], &[]), 10);
    assert_eq!(snap_count(&[("java.env", jvm)], &[]), 20);
    assert_eq!(snap_count(&[("environment", debian)], &[]), 30);
    // zkEnv.sh reads both files; zkServer.sh puts JVMFLAGS last.
    assert_eq!(snap_count(&[("zookeeper-env.sh", server), ("java.env", jvm)], &[]), 20);
    assert_eq!(snap_count(&[("environment", debian), ("zookeeper-env.sh", server)], &[]), 10);
    // What a file refers to is there, and what it does not is gone.
    let words = ("SERVER_JVMFLAGS", "-Dzookeeper.snapCount=40");
    assert_eq!(snap_count(&[("zookeeper-env.sh", server)], &[words]), 40);
    assert_eq!(snap_count(&[("zookeeper-env.sh", "SERVER_JVMFLAGS=")], &[words]), 100_000);
    assert_eq!(snap_count(&[], &[("JAVA_OPTS", "-Dzookeeper.snapCount=50")]), 100_000);
    let no = ("ZOO_DATADIR_AUTOCREATE_DISABLE", "1");
    assert!(!started(&[], &[no]).config.data_dir_autocreate);
    assert!(started(&[], &[]).config.data_dir_autocreate);

    let both = Some("dataDir=/d\nclientPort=2181\nsnapCount=60\n");
    let (loaded, folder) = load_with(both, &[("java.env", jvm)], &[]);
    let loaded = loaded.expect("a configuration");
    assert_eq!(loaded.config.snap_count, 60);
    let note = format!("{folder}/java.env:2: zookeeper.snapCount is overridden by snapCount ");
    assert!(loaded.notes[0].text.starts_with(&note), "{:?}", loaded.notes);
}

#[test]
fn what_would_take_a_shell_is_said_where_it_matters() {
    let text = "export JAVA_HOME=$(readlink -f /usr/bin/java)\nexport \
        JVMFLAGS=\"-Dzookeeper.snapCount=$(nproc)\"\nif true; then \
        SERVER_JVMFLAGS=-Dzookeeper.snapCount=7; fi\n";
    let (loaded, folder) = load_with(Some(LEAST), &[("java.env", text)], &[]);
    let loaded = loaded.expect("a configuration");
    let notes: Vec<_> = loaded.notes.iter().map(|note| note.text.as_str()).collect();
    let expected = [
        format!(
            "{folder}/java.env:2: this assignment of JVMFLAGS is ignored: only a shell could \
             evaluate it"
        ),
        format!(
            "{folder}/java.env:3: this assignment of SERVER_JVMFLAGS is ignored: only a shell \
             could tell whether it is executed"
        ),
    ];
    assert_eq!(notes, expected);
    assert_eq!(loaded.config.snap_count, 100_000);
}

#[test]
fn without_a_zoo_cfg_the_variables_of_the_official_image_make_one() {
    let image = |variables: &[(&str, &str)]| load_with(None, &[], variables).0;
    let config = |variables: &[(&str, &str)]| image(variables).expect("a configuration").config;
    let least = config(&[("ZOO_MY_ID", "1")]);
    assert_eq!((least.data_dir.as_path(), least.tick_time_ms), (Path::new("/data"), 2000));
    assert_eq!(least.data_log_dir, Path::new("/datalog"));
    assert_eq!(least.client_listen.to_string(), "0.0.0.0:2181");
    assert!(least.ensemble.is_none());

    let three = "server.1=zoo1:2888:3888;2181 \
        server.2=0.0.0.0:2888:3888;2182\nserver.3=zoo3:2888:3888;2183";
    let found = config(&[
        ("ZOO_MY_ID", "2"),
        ("ZOO_SERVERS", three),
        ("ZOO_DATA_DIR", "/d"),
        ("ZOO_DATA_LOG_DIR", "/l"),
        ("ZOO_TICK_TIME", "500"),
        ("ZOO_INIT_LIMIT", "7"),
        ("ZOO_SYNC_LIMIT", "3"),
        ("ZOO_MAX_CLIENT_CNXNS", "0"),
        ("ZOO_AUTOPURGE_PURGEINTERVAL", "1"),
        ("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "5"),
        ("ZOO_STANDALONE_ENABLED", "false"),
        ("ZOO_4LW_COMMANDS_WHITELIST", "ruok"),
        ("ZOO_CFG_EXTRA", "snapCount=7 extendedTypesEnabled=true"),
        ("JVMFLAGS", "-Dzookeeper.snapCount=8 -Dzookeeper.maxCnxns=9"),
    ]);
    assert_eq!(found.client_listen.to_string(), "0.0.0.0:2182");
    assert_eq!((found.data_dir.as_path(), found.tick_time_ms), (Path::new("/d"), 500));
    assert_eq!(found.data_log_dir, Path::new("/l"));
    assert_eq!((found.max_client_cnxns, found.snap_retain_count), (None, 5));
    assert_eq!(found.purge, Purge::Every(Duration::from_secs(3600)));
    assert!(found.four_letter_words.allows("ruok") && found.extended_types_enabled);
    assert_eq!((found.snap_count, found.max_cnxns.map(u32::from)), (7, Some(9)));
    let ensemble = found.ensemble.expect("an ensemble");
    assert_eq!((ensemble.my_id, ensemble.list.servers.iter().len()), (2, 3));
    assert_eq!(ensemble.init_limit, Duration::from_millis(3500));
    assert_eq!(ensemble.sync_limit, Duration::from_millis(1500));

    let error = image(&[("ZOO_TICK_TIME", "fast")]).expect_err("no number").to_string();
    assert!(error.starts_with("environment, ZOO_TICK_TIME: tickTime is \"fast\""), "{error}");
    let other_image = image(&[("ZOO_SERVERS", "zoo1:2888:3888::1,zoo2:2888:3888::2")]);
    let error = other_image.expect_err("of another image").to_string();
    assert!(error.starts_with("environment, ZOO_SERVERS: ZOO_SERVERS is \"zoo1:"), "{error}");
}

#[test]
fn a_zoo_cfg_is_not_added_to_by_the_image_but_for_its_id() {
    let variables = [("ZOO_TICK_TIME", "500"), ("ZOO_MY_ID", "3")];
    let list = "server.3=a:1:2;9\n";
    let (loaded, _) = load_with(Some(&format!("dataDir=/d\n{list}")), &[], &variables);
    let loaded = loaded.expect("a configuration");
    assert_eq!((loaded.config.tick_time_ms, loaded.config.client_listen.port), (3000, 9));
    assert!(
        loaded.notes.iter().any(|note| note.text.starts_with("environment: ZOO_TICK_TIME ignored")),
        "{:?}",
        loaded.notes
    );
    // Without any of them the server is one to try.
    let alone = load_with(None, &[], &[("ZOO_LOG_DIR", "/l")]).0.expect("a configuration");
    assert_eq!(alone.config.client_listen.to_string(), "127.0.0.1:2181");
    assert_eq!(alone.config.logs.file.as_deref(), Some(Path::new("/l/zookeeper.log")));
}
