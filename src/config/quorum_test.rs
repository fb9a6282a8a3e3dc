//! How servers know each other, by texts of zoo.cfg: names and defaults of `QuorumPeerConfig` and
//! `X509Util`.

use std::num::NonZeroU64;
use std::path::Path;

use super::*;
use crate::config::{Config, Fate, Loaded, SessionsLive, assemble, keys, loaded};

const KEY: &str = "ssl.quorum.keyStore.location=/k.pem\n";
const TRUST: &str = "ssl.quorum.trustStore.location=/t.pem\n";

/// A server of three, with `lines` in its zoo.cfg.
fn load_with(lines: &str, defines: &[&str]) -> Result<Loaded, ConfigError> {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("myid"), "1").expect("written");
    let text = format!(
        "{lines}\ndataDir={}\nclientPort=2181\ninitLimit=10\nsyncLimit=5\n\
         server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n",
        dir.path().display()
    );
    let defines: Vec<_> = defines.iter().map(|word| word.parse().expect("a define")).collect();
    loaded(assemble(Some((Path::new("zoo.cfg"), text.as_bytes())), &defines, |_| None)?)
}

fn config(lines: &str) -> Config {
    load_with(lines, &[]).unwrap_or_else(|error| panic!("{lines}: {error}")).config
}

fn security(lines: &str) -> QuorumSecurity {
    config(lines).ensemble.expect("an ensemble").security
}

fn error(lines: &str) -> String {
    let error = load_with(lines, &[]).expect_err(lines);
    format!("{error} {}", error.remedy())
}

fn tls() -> QuorumTls {
    QuorumTls {
        key_store: "/k.pem".into(),
        trust_store: "/t.pem".into(),
        client_auth: ClientAuth::Need,
        checks_called: true,
        checks_caller: true,
        protocols: Protocols { tls12: true, tls13: true },
        cipher_suites: None,
    }
}

#[test]
fn without_a_key_there_is_neither_tls_nor_a_secret() {
    assert_eq!(security(""), QuorumSecurity::default());
    // The stores alone do not change anything, as in ZooKeeper.
    assert_eq!(security(&format!("{KEY}{TRUST}")), QuorumSecurity::default());
    assert_eq!(config("").ensemble.expect("an ensemble").snap_sync_bytes, None);
}

#[test]
fn every_key_of_the_quorum_sets_its_field() {
    let with = |change: fn(&mut QuorumTls)| {
        let mut tls = tls();
        change(&mut tls);
        tls
    };
    let table: &[(&str, QuorumTls)] = &[
        ("", tls()),
        ("ssl.quorum.keyStore.location=/k.crt", with(|tls| tls.key_store = "/k.crt".into())),
        ("ssl.quorum.keyStore.location=/k.p12\nssl.quorum.keyStore.type=pem", {
            with(|tls| tls.key_store = "/k.p12".into())
        }),
        ("ssl.quorum.trustStore.location=/x.pem\nssl.quorum.trustStore.type=PEM", {
            with(|tls| tls.trust_store = "/x.pem".into())
        }),
        ("ssl.quorum.clientAuth=none", with(|tls| tls.client_auth = ClientAuth::None)),
        ("ssl.quorum.clientAuth=WANT", with(|tls| tls.client_auth = ClientAuth::Want)),
        ("ssl.quorum.clientAuth=need", tls()),
        ("ssl.quorum.clientHostnameVerification=false", with(|tls| tls.checks_caller = false)),
        (
            "ssl.quorum.hostnameVerification=false",
            with(|tls| (tls.checks_called, tls.checks_caller) = (false, false)),
        ),
        ("ssl.quorum.protocol=TLSv1.3", tls()),
        ("ssl.quorum.protocol=TLSv1.2", with(|tls| tls.protocols.tls13 = false)),
        ("ssl.quorum.enabledProtocols=TLSv1.3", with(|tls| tls.protocols.tls12 = false)),
        ("ssl.quorum.enabledProtocols=TLSv1.2, TLSv1.3", tls()),
        (
            "ssl.quorum.ciphersuites=TLS_AES_128_GCM_SHA256,X",
            with(|tls| {
                tls.cipher_suites = Some(vec!["TLS_AES_128_GCM_SHA256".into(), "X".into()]);
            }),
        ),
    ];
    for (lines, expected) in table {
        // The later of two lines counts, as in ZooKeeper.
        let found = security(&format!("sslQuorum=true\n{KEY}{TRUST}{lines}"));
        assert_eq!((found.tls, found.dials_tls), (Some(expected.clone()), true), "{lines}");
    }
    let secret = security("quorum.auth.secretFile=/s");
    assert_eq!(secret, QuorumSecurity { secret_file: Some("/s".into()), ..Default::default() });
    let rate = config("leader.snapSyncLimitInKbPerSecond=100").ensemble.expect("an ensemble");
    assert_eq!(rate.snap_sync_bytes, NonZeroU64::new(100 << 10));
    assert!(!rate.linearizable_reads);
    assert!(config("linearizableReads=true").ensemble.expect("an ensemble").linearizable_reads);
    for (lines, sessions) in [
        ("", SessionsLive::Everywhere),
        ("localSessionsUpgradingEnabled=true", SessionsLive::Everywhere),
        ("localSessionsEnabled=TRUE", SessionsLive::Here { upgrades: false }),
        (
            "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true",
            SessionsLive::Here { upgrades: true },
        ),
    ] {
        assert_eq!(config(lines).ensemble.expect("an ensemble").sessions, sessions, "{lines}");
    }
    for (line, serves) in [
        ("", true),
        ("leaderServes=yes", true),
        ("leaderServes=no", false),
        ("leaderServes=NO", true),
    ] {
        let found = config(line).ensemble.expect("an ensemble").leader_serves;
        assert_eq!(found, serves, "{line}");
    }

    let tried = |key: &str| {
        let others = ["sslQuorum", "portUnification", "quorum.auth.", "leader.snapSyncLimit"];
        table.iter().any(|(line, _)| line.contains(key))
            || others.iter().any(|other| key.starts_with(other))
    };
    let all = keys::all().filter(|key| key.fate == Fate::Works);
    let names = all.map(|key| key.name).filter(|name| name.starts_with("ssl.quorum."));
    names.for_each(|name| assert!(tried(name), "{name} is not tried"));
}

#[test]
fn the_way_to_tls_goes_over_a_port_for_both() {
    let both = security(&format!("portUnification=true\n{KEY}{TRUST}"));
    assert_eq!((both.tls, both.dials_tls, both.is_lenient), (Some(tls()), false, true));
    let dials = security(&format!("portUnification=true\nsslQuorum=TRUE\n{KEY}{TRUST}"));
    assert_eq!((dials.tls, dials.dials_tls, dials.is_lenient), (Some(tls()), true, true));
    // Without certificates it can still be the way to a secret.
    let secret = security("portUnification=true\nquorum.auth.secretFile=/s");
    assert_eq!((secret.tls, secret.is_lenient), (None, true));
}

#[test]
fn properties_set_the_same() {
    let defines = [
        "zookeeper.sslQuorum=true",
        "zookeeper.ssl.quorum.keyStore.location=/k.pem",
        "zookeeper.ssl.quorum.trustStore.location=/t.pem",
        "zookeeper.ssl.quorum.hostnameVerification=false",
    ];
    let loaded = load_with("", &defines).expect("all values are good");
    let found = loaded.config.ensemble.expect("an ensemble").security.tls.expect("TLS");
    assert_eq!(found, QuorumTls { checks_called: false, checks_caller: false, ..tls() });
    assert_eq!(loaded.notes, []);
}

#[test]
fn what_cannot_be_done_is_refused_with_the_way_to_do_it() {
    for (lines, expected) in [
        (
            "sslQuorum=true".to_owned(),
            "zoo.cfg: ssl.quorum.keyStore.location is not set Add ssl.quorum.keyStore.location=",
        ),
        (
            format!("sslQuorum=true\n{KEY}"),
            "zoo.cfg: ssl.quorum.trustStore.location is not set Add \
             ssl.quorum.trustStore.location=",
        ),
        (
            "sslQuorum=true\nssl.quorum.keyStore.location=/d/k.p12".to_owned(),
            "zoo.cfg:2: ssl.quorum.keyStore.location is /d/k.p12, of type PKCS12; this version \
             reads only PEM Convert it with `openssl pkcs12 -in /d/k.p12 -nodes -out /d/k.pem`, \
             and configure the new file.",
        ),
        (
            format!("sslQuorum=true\n{KEY}ssl.quorum.trustStore.location=/d/t.jks"),
            "zoo.cfg:3: ssl.quorum.trustStore.location is /d/t.jks, of type JKS; this version \
             reads only PEM Convert it with `keytool -importkeystore -srckeystore /d/t.jks \
             -srcstoretype JKS -destkeystore /d/t.p12 -deststoretype PKCS12 && openssl pkcs12 -in \
             /d/t.p12 -nodes -out /d/t.pem`, and configure the new file.",
        ),
        (
            format!("sslQuorum=true\n{KEY}{TRUST}ssl.quorum.keyStore.type=bcfks"),
            "zoo.cfg:4: ssl.quorum.keyStore.location is /k.pem, of type BCFKS",
        ),
        (
            format!("sslQuorum=true\n{KEY}{TRUST}ssl.quorum.keyStore.type=DER"),
            "zoo.cfg:4: ssl.quorum.keyStore.type is \"DER\", expected PEM",
        ),
        (
            format!("sslQuorum=true\n{KEY}{TRUST}ssl.quorum.clientAuth=maybe"),
            "zoo.cfg:4: ssl.quorum.clientAuth is \"maybe\", expected none, want or need",
        ),
        (
            format!("sslQuorum=true\n{KEY}{TRUST}ssl.quorum.enabledProtocols=TLSv1.1"),
            "zoo.cfg:4: ssl.quorum.enabledProtocols is \"TLSv1.1\", expected TLSv1.2, TLSv1.3, or \
             both",
        ),
        (
            format!("sslQuorum=true\n{KEY}{TRUST}ssl.quorum.enabledProtocols=,"),
            "zoo.cfg:4: ssl.quorum.enabledProtocols is \",\"",
        ),
        (
            format!("sslQuorum=true\n{KEY}{TRUST}ssl.quorum.protocol=SSLv3"),
            "zoo.cfg:4: ssl.quorum.protocol is \"SSLv3\", expected TLSv1.2 or TLSv1.3",
        ),
        ("sslQuorum=yes".to_owned(), "zoo.cfg:1: sslQuorum is \"yes\", expected true or false"),
        (
            "leader.snapSyncLimitInKbPerSecond=-1".to_owned(),
            "zoo.cfg:1: leader.snapSyncLimitInKbPerSecond is \"-1\", expected a number of KiB per \
             second, 0 for no limit",
        ),
    ] {
        let found = error(&lines);
        assert!(found.starts_with(expected), "{lines}\n{found}\n{expected}");
    }
}

#[test]
fn what_has_no_effect_is_said() {
    for key in [
        "ssl.quorum.keyStore.password",
        "ssl.quorum.keyStore.passwordPath",
        "fips-mode",
        "quorum.auth.kerberos.servicePrincipal",
    ] {
        let loaded = load_with(&format!("{key}=hunter2"), &[]).expect("no effect");
        let [note] = loaded.notes.as_slice() else { panic!("{key}: {:?}", loaded.notes) };
        let expected = format!("zoo.cfg:1: {key} is known but has no effect here. ");
        assert!(note.text.starts_with(&expected) && !note.text.contains("hunter2"), "{note:?}");
    }
}

#[test]
fn read_only_mode_is_on_as_a_property_of_java_is_and_has_isro_answered() {
    // `Boolean.getBoolean`.
    for (line, is_on) in [
        ("", false),
        ("readonlymode.enabled=true", true),
        ("readonlymode.enabled=TRUE", true),
        ("readonlymode.enabled=yes", false),
    ] {
        assert_eq!(config(line).ensemble.expect("an ensemble").read_only_mode, is_on, "{line}");
    }
    // `FourLetterCommands` adds it to the list, whatever that is.
    let words = |lines| config(lines).four_letter_words;
    let allowed = |lines| ["isro", "srvr", "ruok"].map(|word| words(lines).allows(word));
    assert_eq!(allowed("readonlymode.enabled=true"), [true, true, false]);
    let listed = "4lw.commands.whitelist=ruok\nreadonlymode.enabled=true";
    assert_eq!(allowed(listed), [true, true, true]);
    assert_eq!(allowed("4lw.commands.whitelist=ruok"), [false, true, true]);
}
