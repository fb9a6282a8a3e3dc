//! What stands in the folder of a zoo.cfg afterwards. Names and texts are those that
//! `QuorumPeerConfig` of 3.9.5 writes, but for the lines of zoo.cfg that need not change.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

const ZOO_CFG: &str = "# ours\ndataDir=/d\nclientPort=2181\nserver.1=a:1:2;2181\nserver.2=b:1:2\n";
const FIRST: &str = "server.1=a:1:2;2181\nserver.10=c:1:2\nserver.2=b:1:2\nversion=100000007";
const SECOND: &str = "server.1=a:1:2;2181\nserver.2=b:1:2\nversion=20000000a";

const FIRST_FILE: &str = "server.10=c:1:2:participant\nserver.1=a:1:2:participant;0.0.0.0:2181\n\
                          server.2=b:1:2:participant";
const SECOND_FILE: &str = "server.1=a:1:2:participant;0.0.0.0:2181\nserver.2=b:1:2:participant";

/// A folder with this zoo.cfg, and no links above.
fn folder(zoo_cfg: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().canonicalize().expect("it is there").join("zoo.cfg");
    fs::write(&path, zoo_cfg).expect("written");
    (dir, path)
}

fn wrote(zoo_cfg: &Path, list: &str) -> bool {
    write(zoo_cfg, &ServerList::parse(list).expect("a list"), 1).expect("written")
}

/// All files beside zoo.cfg and itself, by name.
fn files(zoo_cfg: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder_of(zoo_cfg)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().expect("a name").to_str().map(str::to_owned);
    paths
        .map(|path| (name(&path).expect("text"), fs::read_to_string(&path).expect("text")))
        .collect()
}

fn expected<const N: usize>(files: [(&str, String); N]) -> BTreeMap<String, String> {
    files.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The static file that names the list of this version.
fn naming(zoo_cfg: &Path, version: &str) -> String {
    let path = zoo_cfg.display();
    format!("# ours\ndataDir=/d\ndynamicConfigFile={path}.dynamic.{version}\n")
}

#[test]
fn the_first_list_leaves_a_copy_of_zoo_cfg_and_the_second_one_none() {
    let (_dir, zoo_cfg) = folder(ZOO_CFG);
    assert!(wrote(&zoo_cfg, FIRST));
    let mut first = [
        ("zoo.cfg", naming(&zoo_cfg, "100000007")),
        ("zoo.cfg.bak", ZOO_CFG.to_owned()),
        ("zoo.cfg.dynamic.100000007", FIRST_FILE.to_owned()),
    ];
    assert_eq!(files(&zoo_cfg), expected(first.clone()));

    assert!(wrote(&zoo_cfg, SECOND));
    first[0].1 = naming(&zoo_cfg, "20000000a");
    let mut second = expected(first);
    second.insert("zoo.cfg.dynamic.20000000a".to_owned(), SECOND_FILE.to_owned());
    assert_eq!(files(&zoo_cfg), second);
}

#[test]
fn files_that_are_right_are_left_alone() {
    let (_dir, zoo_cfg) = folder(ZOO_CFG);
    assert!(wrote(&zoo_cfg, FIRST));
    let numbers = || {
        let paths = fs::read_dir(folder_of(&zoo_cfg)).expect("a folder").flatten();
        paths.map(|entry| entry.metadata().expect("it is there").ino()).collect::<Vec<_>>()
    };
    let before = numbers();
    assert!(!wrote(&zoo_cfg, FIRST));
    assert_eq!(numbers(), before);
}

/// The file of the list is there, and zoo.cfg is the old one; and before that, half of a draft.
#[test]
fn what_a_crash_left_is_finished() {
    let (_dir, zoo_cfg) = folder(ZOO_CFG);
    fs::write(with_end(&zoo_cfg, ".dynamic.100000007"), FIRST_FILE).expect("written");
    assert!(wrote(&zoo_cfg, FIRST));
    let whole = files(&zoo_cfg);
    assert_eq!(whole["zoo.cfg"], naming(&zoo_cfg, "100000007"));
    assert_eq!(whole["zoo.cfg.bak"], ZOO_CFG);

    fs::write(&zoo_cfg, ZOO_CFG).expect("written");
    fs::write(with_end(&zoo_cfg, ".dynamic.100000007"), &FIRST_FILE[..9]).expect("written");
    fs::write(with_end(&zoo_cfg, ".dynamic.100000007.tmp"), "serv").expect("written");
    fs::write(with_end(&zoo_cfg, ".tmp"), "dat").expect("written");
    assert!(wrote(&zoo_cfg, FIRST));
    assert_eq!(files(&zoo_cfg), whole);
}

/// The client port of zoo.cfg stays where the list says none of this server.
#[test]
fn the_client_port_goes_only_where_the_own_line_has_one() {
    let (_dir, zoo_cfg) = folder(ZOO_CFG);
    let list = ServerList::parse(FIRST).expect("a list");
    write(&zoo_cfg, &list, 2).expect("written");
    let with_port = naming(&zoo_cfg, "100000007").replace("/d\n", "/d\nclientPort=2181\n");
    assert_eq!(files(&zoo_cfg)["zoo.cfg"], with_port);
    // A server that the list does not have.
    write(&zoo_cfg, &list, 3).expect("written");
    assert_eq!(files(&zoo_cfg)["zoo.cfg"], with_port);
}

#[test]
fn mode_and_link_of_zoo_cfg_stay() {
    let (_dir, real) = folder(ZOO_CFG);
    fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("it is ours");
    let (_other, link) = folder("");
    fs::remove_file(&link).expect("removed");
    symlink(&real, &link).expect("linked");
    assert!(wrote(&link, FIRST));
    assert_eq!(fs::read_link(&link).expect("a link"), real);
    assert_eq!(fs::read_to_string(&real).expect("text"), naming(&link, "100000007"));
    assert_eq!(files(&link)["zoo.cfg.dynamic.100000007"], FIRST_FILE);
    for path in [real.clone(), with_end(&real, ".bak")] {
        assert_eq!(fs::metadata(path).expect("it is there").mode() & 0o7777, 0o640);
    }
}

/// A folder in the place of a draft: root may write into any folder.
#[test]
fn a_file_that_cannot_be_written_is_named_and_leaves_the_old_zoo_cfg() {
    let (_dir, zoo_cfg) = folder(ZOO_CFG);
    let list = ServerList::parse(FIRST).expect("a list");
    for (blocked, named) in
        [(".dynamic.100000007.tmp", ".dynamic.100000007"), (".bak.tmp", ".bak"), (".tmp", "")]
    {
        let blocked = with_end(&zoo_cfg, blocked);
        fs::create_dir(&blocked).expect("made");
        let error = write(&zoo_cfg, &list, 1).expect_err("it is in the way");
        assert_eq!(error.to_string(), format!("cannot write {}{named}", zoo_cfg.display()));
        assert_eq!(fs::read_to_string(&zoo_cfg).expect("text"), ZOO_CFG);
        fs::remove_dir(&blocked).expect("removed");
    }
    assert!(wrote(&zoo_cfg, FIRST));

    fs::remove_file(&zoo_cfg).expect("removed");
    let error = write(&zoo_cfg, &list, 1).expect_err("it is gone");
    assert_eq!(error.to_string(), format!("cannot read {}", zoo_cfg.display()));
}
