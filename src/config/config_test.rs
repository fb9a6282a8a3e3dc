//! Texts of zoo.cfg against what ZooKeeper 3.9.5 makes of them.

mod beyond;
mod lists;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;

use super::keys;
use super::*;

/// What a zoo.cfg must have, ahead of the lines under test: those begin in line 3.
const BASE: &str = "dataDir=/d\nclientPort=2181\n";

const OF_LISTS: [&str; 2] = ["server.N", "dynamicConfigFile"];

const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

fn load_bytes(text: &[u8], defines: &[&str], flags: &str) -> Result<Loaded, ConfigError> {
    let defines: Vec<Define> = defines.iter().map(|word| word.parse().expect("a define")).collect();
    let environment = |name: &str| (name == "JVMFLAGS").then(|| flags.to_owned());
    loaded(assemble(Some((Path::new("zoo.cfg"), text)), &defines, environment)?)
}

fn load_lines(lines: &str) -> Result<Loaded, ConfigError> {
    load_bytes(format!("{BASE}{lines}").as_bytes(), &[], "")
}

fn config(lines: &str) -> Config {
    let loaded = load_lines(lines).unwrap_or_else(|error| panic!("{lines}: {error}"));
    // The text of the file is another with each line.
    Config { file: None, ..loaded.config }
}

fn admin(config: &mut Config) -> &mut Admin {
    config.admin.as_mut().expect("it is on by default")
}

fn notes(lines: &str) -> Vec<String> {
    let notes = load_lines(lines).unwrap_or_else(|error| panic!("{lines}: {error}")).notes;
    notes.into_iter().map(|note| note.text).collect()
}

fn error(text: &str) -> String {
    match load_bytes(text.as_bytes(), &[], "") {
        Ok(loaded) => panic!("{text:?} was taken: {loaded:?}"),
        Err(error) => error.to_string(),
    }
}

fn bytes(count: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(count)
}

fn words(listed: &[&str]) -> FourLetterWords {
    FourLetterWords::Listed(listed.iter().map(ToString::to_string).collect())
}

#[test]
fn defaults_are_those_of_zookeeper() {
    let expected = Config {
        client_listen: ListenAddress { address: None, port: 2181 },
        session_passwords: None,
        client_listen_backlog: None,
        client_tcp_keep_alive: false,
        max_client_cnxns: NonZeroU32::new(60),
        max_cnxns: None,
        sessionless_timeout: Duration::from_secs(10),
        global_outstanding_limit: 1000,
        throttle: Throttle {
            max_requests: None,
            op_wait_ms: None,
            large_requests: None,
            connections: None,
        },
        jute_max_buffer: 1_048_575,
        jute_max_record: 2_097_150,
        four_letter_words: words(&["srvr"]),
        tick_time_ms: 3000,
        min_session_timeout_ms: 6000,
        max_session_timeout_ms: 60_000,
        extended_types_enabled: false,
        data_dir: "/d".into(),
        data_log_dir: "/d".into(),
        data_dir_autocreate: true,
        db_autocreate: true,
        snapshot_trust_empty: false,
        snapshot_compression: SnapshotCompression::None,
        snap_count: 100_000,
        snap_size_limit_bytes: bytes(4 << 30),
        txn_log_size_limit_bytes: None,
        prealloc_bytes: bytes(64 << 20),
        fsync_warning_threshold: Duration::from_secs(1),
        force_sync: true,
        digest_enabled: true,
        snap_retain_count: 3,
        purge: Purge::Every(Duration::from_secs(3600)),
        metrics_listen: None,
        admin: Some(Admin {
            listen: ListenAddress { address: None, port: 8080 },
            idle_timeout: Some(Duration::from_secs(30)),
            command_url: "/commands".to_owned(),
            rate_limiter_interval: Duration::from_secs(300),
            snapshot_enabled: true,
            restore_enabled: true,
            remote_allow_world: false,
            x_forwarded_for: false,
        }),
        file: Some(ZooCfg { path: "zoo.cfg".into(), shown: BASE.to_owned() }),
        access: Access {
            skip_acl: false,
            digest: Some(DigestScheme { algorithm: DigestAlgorithm::Sha1, super_digest: None }),
            ensemble: None,
            enforced: None,
        },
        enforce_quota: false,
        reconfig_enabled: false,
        ensemble: None,
        logs: Logs::default(),
        memory_limit_bytes: None,
        unread_limit_bytes: None,
        containers: Containers {
            check_interval: Duration::from_secs(60),
            max_per_minute: 10_000,
            max_never_used: None,
        },
    };
    let keys_in_effect = ["clientPort", "dataDir"].map(str::to_owned).to_vec();
    assert_eq!(
        load_lines("").expect("the least zoo.cfg"),
        Loaded {
            config: expected.clone(),
            keys_in_effect,
            keys_only_here: Vec::new(),
            notes: Vec::new()
        }
    );

    let without_file =
        assemble(None, &[], |_| None).and_then(loaded).expect("no file is needed").config;
    let local = ListenAddress { address: Some(Ipv4Addr::LOCALHOST.into()), port: 2181 };
    assert_eq!(
        without_file,
        Config {
            client_listen: local,
            tick_time_ms: 2000,
            min_session_timeout_ms: 4000,
            max_session_timeout_ms: 40_000,
            data_dir: "./ferrokeeper-data".into(),
            data_log_dir: "./ferrokeeper-data".into(),
            admin: expected.admin.clone().map(|admin| Admin {
                listen: ListenAddress { address: Some(Ipv4Addr::LOCALHOST.into()), port: 8080 },
                ..admin
            }),
            file: None,
            ..expected
        }
    );
}

/// Each line changes the one field that is named beside it, and nothing else.
#[test]
fn every_key_in_effect_sets_its_field() {
    type Change = fn(&mut Config);
    let table: &[(&str, Change)] = &[
        ("tickTime=1000", |c| {
            c.tick_time_ms = 1000;
            c.min_session_timeout_ms = 2000;
            c.max_session_timeout_ms = 20_000;
        }),
        ("dataDir=/e", |c| (c.data_dir, c.data_log_dir) = ("/e".into(), "/e".into())),
        ("dataLogDir=/l", |c| c.data_log_dir = "/l".into()),
        ("clientPort=1", |c| c.client_listen.port = 1),
        ("clientPortAddress=127.0.0.2", |c| {
            c.client_listen.address = Some(IpAddr::from([127, 0, 0, 2]));
        }),
        ("clientPortAddress=[::1]", |c| {
            c.client_listen.address = Some(Ipv6Addr::LOCALHOST.into());
        }),
        ("clientPortAddress=::1%lo", |c| {
            c.client_listen.address = Some(Ipv6Addr::LOCALHOST.into());
        }),
        ("clientPortAddress=0.0.0.0", |_| ()),
        ("clientPortAddress=::", |_| ()),
        ("clientPortListenBacklog=7", |c| c.client_listen_backlog = NonZeroU32::new(7)),
        ("clientPortListenBacklog=-1", |_| ()),
        ("maxClientCnxns=0", |c| c.max_client_cnxns = None),
        ("maxCnxns=9", |c| c.max_cnxns = NonZeroU32::new(9)),
        ("minSessionTimeout=1", |c| c.min_session_timeout_ms = 1),
        ("minSessionTimeout=-1", |_| ()),
        ("maxSessionTimeout=6000", |c| c.max_session_timeout_ms = 6000),
        ("globalOutstandingLimit=5", |c| c.global_outstanding_limit = 5),
        ("largeRequestThreshold=1\nlargeRequestMaxBytes=2", |c| {
            let large = LargeRequests { threshold: 1, max_bytes: 2 };
            c.throttle.large_requests = Some(large);
        }),
        ("connection_throttle_tokens=5", |c| c.throttle.connections = Some(five_tokens())),
        ("connection_throttle_tokens=0\nconnection_throttle_fill_count=0", |_| ()),
        ("connection_throttle_tokens=5\nconnection_throttle_fill_time=7", |c| {
            let fill_ms = NonZeroU32::new(7).expect("not 0");
            c.throttle.connections = Some(ConnectionThrottle { fill_ms, ..five_tokens() });
        }),
        (
            "connection_throttle_tokens=5\nconnection_throttle_freeze_time=0\n\
             connection_throttle_drop_increase=.5\nconnection_throttle_drop_decrease=0.25\n\
             connection_throttle_decrease_ratio=1",
            |c| {
                c.throttle.connections = Some(ConnectionThrottle {
                    freeze_ms: Some(0),
                    drop_increase: 0.5,
                    drop_decrease: 0.25,
                    decrease_ratio: 1.0,
                    ..five_tokens()
                });
            },
        ),
        (
            "connection_throttle_tokens=5\nconnection_throttle_weight_enabled=true\n\
             connection_throttle_global_session_weight=7\n\
             connection_throttle_local_session_weight=4\n\
             connection_throttle_renew_session_weight=3",
            |c| {
                c.throttle.connections = Some(ConnectionThrottle {
                    tokens: NonZeroU32::new(35).expect("not 0"),
                    fill_count: 7,
                    weights: Some(SessionWeights { global: 7, local: 4, renewed: 4 }),
                    ..five_tokens()
                });
            },
        ),
        ("request_throttle_max_requests=8", |c| c.throttle.max_requests = NonZeroU32::new(8)),
        ("request_throttle_max_requests=-8", |_| ()),
        ("throttled_op_wait_time=9", |c| c.throttle.op_wait_ms = NonZeroU32::new(9)),
        ("throttled_op_wait_time=-9", |_| ()),
        ("preAllocSize=1", |c| c.prealloc_bytes = bytes(1024)),
        ("zookeeper.preAllocSize=2", |c| c.prealloc_bytes = bytes(2048)),
        ("preAllocSize=0", |c| c.prealloc_bytes = None),
        ("snapshot.compression.method=gz", |c| {
            c.snapshot_compression = SnapshotCompression::Gzip;
        }),
        ("snapshot.compression.method=Snappy", |c| {
            c.snapshot_compression = SnapshotCompression::Snappy;
        }),
        ("snapshot.compression.method=", |_| ()),
        ("snapCount=2", |c| c.snap_count = 2),
        ("snapCount=-7", |c| c.snap_count = 2),
        ("snapCount=0x10", |c| c.snap_count = 16),
        ("snapCount=#10", |c| c.snap_count = 16),
        ("snapCount=010", |c| c.snap_count = 8),
        ("snapSizeLimitInKb=3", |c| c.snap_size_limit_bytes = bytes(3072)),
        ("snapSizeLimitInKb=-1", |c| c.snap_size_limit_bytes = None),
        ("txnLogSizeLimitInKb=3", |c| c.txn_log_size_limit_bytes = bytes(3072)),
        ("fsync.warningthresholdms=20", |c| {
            c.fsync_warning_threshold = Duration::from_millis(20);
        }),
        ("forceSync=no", |c| c.force_sync = false),
        ("forceSync=NO", |_| ()),
        ("autopurge.snapRetainCount=4", |c| c.snap_retain_count = 4),
        ("autopurge.snapRetainCount=1", |_| ()),
        ("autopurge.purgeInterval=2", |c| c.purge = Purge::Every(Duration::from_secs(7200))),
        ("autopurge.purgeInterval=0", |c| c.purge = Purge::Never),
        ("autopurge.purgeInterval=-1", |c| c.purge = Purge::Never),
        ("datadir.autocreate=false", |c| c.data_dir_autocreate = false),
        ("db.autocreate=no", |c| c.db_autocreate = false),
        ("snapshot.trust.empty=TRUE", |c| c.snapshot_trust_empty = true),
        ("digest.enabled=False", |c| c.digest_enabled = false),
        ("extendedTypesEnabled=true", |c| c.extended_types_enabled = true),
        ("extendedTypesEnabled=yes", |_| ()),
        ("jute.maxbuffer=0x9fffff", |c| {
            (c.jute_max_buffer, c.jute_max_record) = (10_485_759, 20_971_518);
        }),
        ("jute.maxbuffer.extrasize=10000", |c| c.jute_max_record = 1_058_575),
        ("jute.maxbuffer.extrasize=-1", |c| c.jute_max_record = 1_049_599),
        ("jute.maxbuffer.extrasize=2147483647", |c| c.jute_max_record = 2_147_483_647),
        ("skipACL=yes", |c| c.access.skip_acl = true),
        ("skipACL=true", |_| ()),
        ("DigestAuthenticationProvider.enabled=false", |c| c.access.digest = None),
        ("DigestAuthenticationProvider.superDigest=super:abc=", |c| {
            if let Some(digest) = &mut c.access.digest {
                digest.super_digest = Some("super:abc=".to_owned());
            }
        }),
        ("DigestAuthenticationProvider.digestAlg=SHA-256", |c| {
            if let Some(digest) = &mut c.access.digest {
                digest.algorithm = DigestAlgorithm::Sha256;
            }
        }),
        ("DigestAuthenticationProvider.digestAlg=sha3-256", |c| {
            if let Some(digest) = &mut c.access.digest {
                digest.algorithm = DigestAlgorithm::Sha3At256;
            }
        }),
        ("authProvider.2=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider", |c| {
            c.access.ensemble = Some(EnsembleScheme { names: None });
        }),
        (
            "authProvider.2=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider\n\
             ensembleAuthName=a, b",
            |c| {
                let names = Some(vec!["a".to_owned(), "b".to_owned()]);
                c.access.ensemble = Some(EnsembleScheme { names });
            },
        ),
        ("ensembleAuthName=a", |_| ()),
        ("enforce.auth.enabled=true\nenforce.auth.schemes= digest ,ip", |c| {
            c.access.enforced = Some(vec!["digest".to_owned(), "ip".to_owned()]);
        }),
        ("enforce.auth.schemes=sasl", |_| ()),
        ("sessionRequireClientSASLAuth=false", |_| ()),
        ("enforceQuota=true", |c| c.enforce_quota = true),
        ("reconfigEnabled=true", |c| c.reconfig_enabled = true),
        ("znode.container.checkIntervalMs=500", |c| {
            c.containers.check_interval = Duration::from_millis(500);
        }),
        ("znode.container.maxPerMinute=7", |c| c.containers.max_per_minute = 7),
        ("znode.container.maxNeverUsedIntervalMs=9", |c| {
            c.containers.max_never_used = Some(Duration::from_millis(9));
        }),
        ("nio.sessionlessCnxnTimeout=1", |c| c.sessionless_timeout = Duration::from_millis(1)),
        ("clientTcpKeepAlive=true", |c| c.client_tcp_keep_alive = true),
        ("4lw.commands.whitelist= mntr ,,ruok", |c| {
            c.four_letter_words = words(&["mntr", "ruok", "srvr"]);
        }),
        ("4lw.commands.whitelist=stat, *", |c| c.four_letter_words = FourLetterWords::All),
        (
            "metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
            |_| (),
        ),
        ("metricsProvider.httpPort=no port, and not read", |_| ()),
        ("metricsProvider.httpHost=-", |_| ()),
        ("admin.enableServer=false", |c| c.admin = None),
        ("admin.forceHttps=true", |c| c.admin = None),
        ("admin.serverAddress=127.0.0.1", |c| {
            admin(c).listen.address = Some(Ipv4Addr::LOCALHOST.into());
        }),
        ("admin.serverPort=0x1f91", |c| admin(c).listen.port = 8081),
        ("admin.idleTimeout=1", |c| admin(c).idle_timeout = Some(Duration::from_millis(1))),
        ("admin.idleTimeout=0", |c| admin(c).idle_timeout = None),
        ("admin.commandURL=/a/b/", |c| admin(c).command_url = "/a/b".to_owned()),
        ("admin.rateLimiterIntervalInMS=0", |c| admin(c).rate_limiter_interval = Duration::ZERO),
        ("admin.snapshot.enabled=false", |c| admin(c).snapshot_enabled = false),
        ("admin.restore.enabled=false", |c| admin(c).restore_enabled = false),
        ("admin.remote.allowWorld=true", |c| admin(c).remote_allow_world = true),
        ("IPAuthenticationProvider.usexforwardedfor=true", |c| admin(c).x_forwarded_for = true),
        ("electionAlg=3", |_| ()),
        // Of an ensemble, and this is none.
        ("initLimit=10", |_| ()),
        ("syncLimit=5", |_| ()),
        ("standaloneEnabled=TRUE", |_| ()),
        ("secureClientPort=2281", |_| ()),
        ("sslQuorum=true", |_| ()),
        ("portUnification=true", |_| ()),
        ("quorum.auth.secretFile=/s", |_| ()),
        ("leader.snapSyncLimitInKbPerSecond=1", |_| ()),
        ("linearizableReads=true", |_| ()),
        ("sessions.passwords=zookeeper", |c| {
            c.session_passwords = Some(SessionPasswords::ZooKeepers);
        }),
        ("sessions.passwords=keyed", |c| c.session_passwords = Some(SessionPasswords::Keyed)),
        ("leaderServes=no", |_| ()),
        ("localSessionsEnabled=true", |_| ()),
        ("localSessionsUpgradingEnabled=true", |_| ()),
        ("readonlymode.enabled=true", |c| c.four_letter_words = words(&["isro", "srvr"])),
        ("memoryLimitInKb=5", |c| c.memory_limit_bytes = bytes(5 << 10)),
        ("unreadLimitInKb=7", |c| c.unread_limit_bytes = bytes(7 << 10)),
        ("log.dir=/var/log/zk", |c| c.logs.file = Some("/var/log/zk/zookeeper.log".into())),
        ("audit.enable=true", |c| c.logs.audit = Some(AuditTo::Stdout)),
        ("audit.failClosed=true", |c| c.logs.audit_fails_closed = true),
        // Of a folder, or of an audit log, and there is none.
        ("log.file=z.log", |_| ()),
        ("audit.impl.class=a.b.C", |_| ()),
        ("audit.log=syslog", |_| ()),
        ("auditlog.dir=/l", |_| ()),
        ("auditlog.file=a.log", |_| ()),
    ];
    for (line, change) in table {
        let mut expected = config("");
        change(&mut expected);
        assert_eq!(config(line), expected, "{line}");
    }
    // Those of TLS between servers and those of a list are tried in an ensemble.
    let elsewhere = |key: &str| key.starts_with("ssl.quorum.") || OF_LISTS.contains(&key);
    for key in keys::all().filter(|key| key.fate == Fate::Works && !elsewhere(key.name)) {
        assert!(table.iter().any(|(line, _)| line.contains(key.name)), "{} is not tried", key.name);
    }
}

#[test]
fn audit_lines_go_where_they_are_sent() {
    let audit = |lines: &str| config(&format!("audit.enable=true\n{lines}")).logs.audit;
    let file = |path: &str| Some(AuditTo::File(path.into()));
    for (lines, expected) in [
        ("audit.log=stdout\nlog.dir=/l", Some(AuditTo::Stdout)),
        ("audit.log=syslog", Some(AuditTo::Syslog)),
        ("audit.log=/var/audit", file("/var/audit")),
        ("log.dir=/l", file("/l/zookeeper_audit.log")),
        ("log.dir=/l\nauditlog.dir=/a\nauditlog.file=z", file("/a/z")),
        ("audit.impl.class=org.apache.zookeeper.audit.Log4jAuditLogger", Some(AuditTo::Stdout)),
    ] {
        assert_eq!(audit(lines), expected, "{lines}");
    }
    let error = load_lines("audit.enable=true\naudit.impl.class=a.b.C").expect_err("no such class");
    assert!(error.to_string().contains("audit.impl.class is \"a.b.C\""), "{error}");
}

#[test]
fn only_the_prometheus_provider_serves_metrics() {
    let listen = |lines: &str| config(&format!("metricsProvider.className={PROMETHEUS}\n{lines}"));
    let everywhere = ListenAddress { address: None, port: 7000 };
    assert_eq!(listen("").metrics_listen, Some(everywhere));
    let one = ListenAddress { address: Some(IpAddr::from([127, 0, 0, 1])), port: 9 };
    let lines = "metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=9";
    assert_eq!(listen(lines).metrics_listen, Some(one));
}

#[test]
fn the_syntax_of_a_properties_file_is_javas() {
    for (lines, tick_time_ms) in [
        ("tickTime=1\r\ntickTime=2\r\n", 2),
        ("tickTime : 4", 4),
        ("tickTime 5", 5),
        ("  tickTime  =  6  \t", 6),
        ("tickTime=\\\n    7", 7),
        ("tick\\\nTime=8", 8),
        ("#tickTime=9", 3000),
        ("!tickTime=9", 3000),
        ("tickTime=\\u0031\\u0030", 10),
        ("tickTime\\ =11", 11),
        ("tickTime=+12", 12),
    ] {
        assert_eq!(config(lines).tick_time_ms, tick_time_ms, "{lines:?}");
    }
    let latin1 = load_bytes(b"dataDir=/d\xe9\nclientPort=1", &[], "").expect("Latin-1 is allowed");
    assert_eq!(latin1.config.data_dir, PathBuf::from("/d\u{e9}"));
    let utf8 = load_bytes("dataDir=/d\u{e9}\nclientPort=1".as_bytes(), &[], "").expect("allowed");
    assert_eq!(utf8.config.data_dir, PathBuf::from("/d\u{c3}\u{a9}"));
}

#[test]
fn a_value_that_a_key_in_effect_cannot_take_stops_the_start() {
    for (line, expected) in [
        ("tickTime=x", "tickTime is \"x\", expected a number of milliseconds from 1 to 2147483647"),
        (
            "tickTime=0x10",
            "tickTime is \"0x10\", expected a number of milliseconds from 1 to 2147483647",
        ),
        ("tickTime=0", "tickTime is \"0\", expected a number of milliseconds from 1 to 2147483647"),
        ("tickTime=", "tickTime is \"\", expected a number of milliseconds from 1 to 2147483647"),
        ("clientPort=65536", "clientPort is \"65536\", expected a TCP port from 0 to 65535"),
        (
            "maxClientCnxns=2147483648",
            "maxClientCnxns is \"2147483648\", expected a number of connections from \
             -2147483648 to 2147483647",
        ),
        (
            "jute.maxbuffer=-1",
            "jute.maxbuffer is \"-1\", expected a number of bytes from 1 to 2147483647",
        ),
        (
            "minSessionTimeout=-2",
            "minSessionTimeout is \"-2\", expected a number of milliseconds from -1 to 2147483647",
        ),
        ("jvm.pause.monitor=yes", "jvm.pause.monitor is \"yes\", expected true or false"),
        (
            "observerMasterPort=0x10",
            "observerMasterPort is \"0x10\", expected a whole number from -2147483648 to \
             2147483647",
        ),
        (
            "jvm.pause.sleep.time.ms=1s",
            "jvm.pause.sleep.time.ms is \"1s\", expected a whole number",
        ),
        ("peerType=boss", "peerType is \"boss\", expected participant or observer"),
        ("dataLogDir=", "dataLogDir is \"\", expected a directory"),
        ("electionAlg=0", "electionAlg is \"0\", expected 3, the only one supported"),
        ("standaloneEnabled=yes", "standaloneEnabled is \"yes\", expected true or false"),
        (
            "clientPortAddress=::1%nowhere",
            "clientPortAddress is \"::1%nowhere\", expected an address, or a host name that can be \
             resolved",
        ),
        (
            "clientPortAddress=256.1.1.1.",
            "clientPortAddress is \"256.1.1.1.\", expected an address, or a host name that can be \
             resolved",
        ),
        (
            "metricsProvider.className=a.B",
            "metricsProvider.className is \"a.B\", expected \
             org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider or \
             org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
        ),
    ] {
        assert_eq!(error(&format!("{BASE}{line}")), format!("zoo.cfg:3: {expected}"), "{line}");
    }
}

#[test]
fn startup_errors_have_the_conditions_of_zookeeper() {
    for (text, expected) in [
        ("clientPort=1", "zoo.cfg: dataDir is not set"),
        ("dataDir=/d", "zoo.cfg: clientPort is not set"),
        ("dataDir=/d\nclientPort=0", "zoo.cfg: clientPort is not set"),
        ("dataDir=/d\nsecureClientPort=2281", "zoo.cfg:2: clientPort is not set"),
        ("dataDir=/d\nclientPortAddress=127.0.0.1", "zoo.cfg:2: clientPort is not set"),
        (
            "dataDir=/d\nclientPort=1\nsecureClientPortAddress=127.0.0.1",
            "zoo.cfg:3: secureClientPort is not set",
        ),
        (
            "dataDir=/d\nclientPort=1\nquorum.auth.learnerRequireSasl=true",
            "zoo.cfg:3: quorum.auth.learnerRequireSasl is true but quorum.auth.enableSasl is not",
        ),
        (
            "dataDir=/d\nclientPort=1\nquorum.auth.enableSasl=true\n\
             quorum.auth.serverRequireSasl=true",
            "zoo.cfg:4: quorum.auth.serverRequireSasl is true but quorum.auth.learnerRequireSasl \
             is not",
        ),
        (
            "dataDir=/d\nclientPort=8080\nadmin.serverPort=8080",
            "zoo.cfg:3: clientPort and admin.serverPort are both port 8080",
        ),
        (
            "dataDir=/d\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=9\nclientPort=9",
            "zoo.cfg:3: clientPort and admin.serverPort are both port 9",
        ),
        (
            "dataDir=/d\nclientPort=8080\nmetricsProvider.httpPort=8080\n\
             metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
            "zoo.cfg:3: clientPort and metricsProvider.httpPort are both port 8080",
        ),
        (
            "dataDir=/d\nclientPort=1\nminSessionTimeout=9\nmaxSessionTimeout=8",
            "zoo.cfg:3: minSessionTimeout 9 is larger than maxSessionTimeout 8",
        ),
        (
            "dataDir=/d\nclientPort=1\nmaxSessionTimeout=5999",
            "zoo.cfg:3: minSessionTimeout 6000 is larger than maxSessionTimeout 5999",
        ),
        ("a=1\nb=\\u1", "zoo.cfg:2: \\u is not followed by four hexadecimal digits"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

/// `Integer.getInteger` and `Long.getLong` of OpenJDK 17 on the same texts: what is no number is
/// the default.
#[test]
fn a_property_that_is_no_number_is_the_default_and_a_warning() {
    for line in [
        "snapCount=08",
        "snapCount=x",
        "snapCount=",
        "snapCount=2147483648",
        "jute.maxbuffer=4m",
        "jute.maxbuffer=0x",
        "maxCnxns=1e3",
        "snapSizeLimitInKb=9223372036854775808",
        "preAllocSize=0x10",
        "nio.sessionlessCnxnTimeout=10s",
    ] {
        assert_eq!(config(line), config(""), "{line}");
        let notes = notes(line);
        let (key, value) = line.split_once('=').expect("a line");
        let expected = format!("zoo.cfg:3: {key} is {value:?}, expected a whole number");
        assert!(notes.len() == 1 && notes[0].starts_with(&expected), "{notes:?}");
        assert!(notes[0].ends_with("; the default is used, as in ZooKeeper"), "{notes:?}");
    }
    assert_eq!(config("znode.container.maxNeverUsedIntervalMs=0x10").containers.max_never_used, {
        Some(Duration::from_millis(16))
    });
}

#[test]
fn what_cannot_be_honoured_is_refused_with_its_line() {
    let tls = "sslQuorum=true\nssl.quorum.keyStore.location=/k.pem\n\
               ssl.quorum.trustStore.location=/t.pem";
    let three = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2";
    for (lines, expected) in [
        ("group.1=1:2:3".to_owned(), "zoo.cfg:3: group.1 is refused: a majority of all voters"),
        (
            "weight.1=2".to_owned(),
            "zoo.cfg:3: weight.1 is refused: all voters have the same weight",
        ),
        ("oraclePath=/o".to_owned(), "zoo.cfg:3: oraclePath is refused: an ensemble of two"),
        ("authProvider.1=a.B".to_owned(), "zoo.cfg:3: authProvider.1 is refused: the class is"),
        ("emulate353TTLNodes=TRUE".to_owned(), "zoo.cfg:3: emulate353TTLNodes=true is refused: "),
        (
            "sessionRequireClientSASLAuth=true".to_owned(),
            "zoo.cfg:3: sessionRequireClientSASLAuth=true is refused: there is no SASL",
        ),
        (
            format!("quorum.auth.enableSasl=true\n{three}"),
            "zoo.cfg:3: quorum.auth.enableSasl=true is refused: there is no SASL between",
        ),
        (
            format!("ssl.quorum.crl=true\n{tls}\n{three}"),
            "zoo.cfg:3: ssl.quorum.crl=true is refused: a revoked certificate would be accepted",
        ),
        (
            format!("ssl.quorum.context.supplier.class=a.B\n{tls}\n{three}"),
            "zoo.cfg:3: ssl.quorum.context.supplier.class is refused: what a Java class",
        ),
    ] {
        let error = load_lines(&lines).expect_err(&lines);
        assert!(error.to_string().starts_with(expected), "{lines}: {error}");
        assert!(!error.to_string().contains("a.B"), "{error}");
    }
    for lines in [
        "quorum.auth.enableSasl=true",
        "quorum.auth.enableSasl=false\nquorum.auth.serverRequireSasl=false",
        "sessionRequireClientSASLAuth=false",
        "emulate353TTLNodes=false",
        "ssl.quorum.ocsp=true\nssl.quorum.context.supplier.class=a.B",
        "authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider",
        // What asks for nothing is no reason for a word.
        "admin.enableServer=false\naudit.enable=False\nleaderServes=yes\nsecureClientPort=0",
    ] {
        assert_eq!(notes(lines), [""; 0], "{lines}");
    }
}

#[test]
fn every_refusal_is_told_of_at_once() {
    let text = "dataDir=/d\nclientPort=2181\ntickTime=x\ngroup.1=1\nmaxClientCnxns=many\n\
                clientPortListenBacklog=x\n";
    let examined = assemble(Some((Path::new("zoo.cfg"), text.as_bytes())), &[], |_| None);
    let refusals = examined.expect("it can be read").outcome.expect_err("refused");
    let all: Vec<_> = std::iter::once(&refusals.first).chain(&refusals.more).collect();
    let places: Vec<_> =
        all.iter().map(|error| error.to_string().split(' ').next().map(str::to_owned)).collect();
    let expected = ["zoo.cfg:4:", "zoo.cfg:3:", "zoo.cfg:6:", "zoo.cfg:5:"];
    assert_eq!(places, expected.map(|place| Some(place.to_owned())), "{all:?}");
}

/// `QuorumPeerConfig` makes a property of what it does not know, and ZooKeeper reads some
/// properties without that prefix only.
#[test]
fn what_counts_only_here_is_known() {
    let lines = "jute.maxbuffer=5\nsnapCount=7\nlinearizableReads=true\n\
                 sessions.passwords=keyed\nflushDelay=1";
    let only_here = load_lines(lines).expect("good").keys_only_here;
    assert_eq!(only_here, ["jute.maxbuffer", "linearizableReads", "sessions.passwords"]);
    let defined = ["jute.maxbuffer=5"];
    let only_here = load_bytes(BASE.as_bytes(), &defined, "").expect("good").keys_only_here;
    assert_eq!(only_here, [""; 0]);
}

#[test]
fn a_formula_of_passwords_that_does_not_exist_is_refused() {
    for value in ["", "Zookeeper", "java"] {
        let error = load_lines(&format!("sessions.passwords={value}")).expect_err(value);
        let expected =
            format!("zoo.cfg:3: sessions.passwords is {value:?}, expected keyed or zookeeper");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn the_table_of_keys_holds_each_once_with_a_sentence() {
    let names: std::collections::BTreeSet<_> = keys::all().map(|key| key.name).collect();
    assert_eq!(names.len(), keys::all().count());
    for key in keys::all() {
        assert!(key.note.ends_with('.') && !key.note.contains(['|', '\n']), "{key:?}");
        assert_eq!(keys::canonical(key.name), key.name);
        let later = matches!(key.fate, Fate::NotYet(_));
        assert_eq!(later, key.note.starts_with("Not yet: "), "{key:?}");
        let is_own = [
            "quorum.auth.secretFile",
            "leader.snapSyncLimitInKbPerSecond",
            "linearizableReads",
            "audit.log",
            "audit.failClosed",
            "memoryLimitInKb",
            "admin.remote.allowWorld",
            "unreadLimitInKb",
            "sessions.passwords",
        ];
        assert_eq!(
            is_own.contains(&key.name),
            key.note.starts_with("Ferrokeeper's own: "),
            "{key:?}"
        );
    }
}

#[test]
fn a_server_list_is_an_ensemble_and_myid_says_who_this_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().display();
    let load = |lines: &str| {
        let text = format!("tickTime=500\ndataDir={path}\nclientPort=2181\n{lines}");
        load_bytes(text.as_bytes(), &[], "").map(|loaded| loaded.config)
    };
    let error = |lines: &str| load(lines).expect_err(lines).to_string();
    let limits = "initLimit=10\nsyncLimit=4\n";
    let three = "server.0=a:2888:3888\nserver.2=[::1]:2889:3889;127.0.0.1:9\n\
                 server.3=c:2888:3888:observer";
    let no_id = format!(
        "{path}/myid: this file does not exist; it should say which of the 3 servers this is"
    );
    assert_eq!(error(&format!("{limits}{three}")), no_id);

    fs::write(dir.path().join("myid"), "0").expect("written");
    let config = load(&format!("{limits}{three}")).expect("an ensemble");
    assert_eq!(config.client_listen.to_string(), "0.0.0.0:2181");
    let ensemble = config.ensemble.expect("an ensemble");
    assert_eq!((ensemble.my_id, ensemble.init_limit.as_millis()), (0, 5000));
    assert_eq!(ensemble.sync_limit.as_millis(), 2000);
    // QuorumMaj.toString of 3.9.5.
    let list = "server.0=a:2888:3888:participant\n\
                server.2=[0:0:0:0:0:0:0:1]:2889:3889:participant;127.0.0.1:9\n\
                server.3=c:2888:3888:observer\nversion=0";
    assert_eq!(ensemble.list.text(), list);

    assert_eq!(error(three), "zoo.cfg:4: initLimit is not set");
    assert_eq!(error(&format!("initLimit=10\n{three}")), "zoo.cfg:5: syncLimit is not set");
    let zero = error(&format!("initLimit=0\nsyncLimit=4\n{three}"));
    assert_eq!(
        zero,
        "zoo.cfg:4: initLimit is \"0\", expected a number of ticks from 1 to 2147483647"
    );
    let observers = "server.0=a:1:2:observer\nserver.1=b:1:2:observer";
    let nobody = "zoo.cfg: every server is an observer: none can vote";
    assert_eq!(error(&format!("{limits}{observers}")), nobody);
    let bad = error(&format!("{limits}server.0=a:1:2\nserver.256=b:1:2"));
    assert!(bad.starts_with("zoo.cfg:7: server.256 is "), "{bad}");

    fs::write(dir.path().join("myid"), "2").expect("written");
    let both = error(&format!("{limits}{three}"));
    assert_eq!(both, "zoo.cfg:7: clientPort says 0.0.0.0:2181, server.2 says 127.0.0.1:9");
    fs::write(dir.path().join("myid"), "1").expect("written");
    let missing =
        format!("{path}/myid: this server's number is 1, but zoo.cfg has no server.1 line");
    assert_eq!(error(&format!("{limits}{three}")), missing);

    fs::write(dir.path().join("myid"), "255").expect("written");
    let last = "extendedTypesEnabled=true\nserver.254=a:1:2\nserver.255=b:1:2";
    let most = "this server's number is 255; with extendedTypesEnabled it can be at most 254";
    assert_eq!(error(&format!("{limits}{last}")), format!("{path}/myid: {most}"));
}

#[test]
fn a_single_server_line_runs_standalone_and_can_give_the_client_port() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().display();
    let listen = |lines: &str| {
        load_bytes(format!("dataDir={path}\n{lines}").as_bytes(), &[], "")
            .map(|loaded| loaded.config.client_listen.to_string())
            .map_err(|error| error.to_string())
    };
    let line = "server.5=h:2888:3888:participant";
    assert_eq!(listen(&format!("{line}\nclientPort=7")), Ok("0.0.0.0:7".to_owned()));
    assert_eq!(listen(&format!("{line};9")), Ok("0.0.0.0:9".to_owned()));
    assert_eq!(listen(&format!("{line};127.0.0.1:9")), Ok("127.0.0.1:9".to_owned()));
    assert_eq!(listen("server.5=[::1]:2888:3888;[::1]:9"), Ok("[::1]:9".to_owned()));
    assert_eq!(listen(&format!("{line};9\nclientPort=7")), Ok("0.0.0.0:7".to_owned()));
    assert_eq!(listen(line), Err("zoo.cfg: clientPort is not set".to_owned()));

    fs::write(dir.path().join("myid"), "5\n").expect("written");
    assert_eq!(listen(&format!("{line};9\nclientPort=9")), Ok("0.0.0.0:9".to_owned()));
    assert_eq!(listen(&format!("{line};127.0.0.1:9\nclientPort=9")), Ok("127.0.0.1:9".to_owned()));
    assert_eq!(
        listen(&format!("{line};9\nclientPort=7")),
        Err("zoo.cfg:2: clientPort says 0.0.0.0:7, server.5 says 0.0.0.0:9".to_owned())
    );

    fs::write(dir.path().join("myid"), "6").expect("written");
    assert_eq!(listen(&format!("{line};9\nclientPort=7")), Ok("0.0.0.0:7".to_owned()));
    fs::write(dir.path().join("myid"), "six").expect("written");
    let error = listen(&format!("{line};9")).expect_err("not a number");
    assert!(error.contains("myid is \"six\", expected the number of this server"), "{error}");

    for bad in ["h:2888", "h:1:1", "h:2888:3888:boss", "h:2888:3888;x", "h:2888:3888:observer", ""]
    {
        let error = listen(&format!("server.5={bad}\nclientPort=7")).expect_err(bad);
        assert!(error.starts_with("zoo.cfg:2: server.5 is "), "{error}");
    }
}

#[test]
fn zoo_cfg_wins_over_the_command_line_and_that_over_the_environment() {
    let flags = "-Xmx1g -Dzookeeper.snapCount=10 -Dcom.sun.x=y -Djute.maxbuffer=100 -Dsnap=1";
    let load = |lines: &str, defines: &[&str]| {
        let loaded = load_bytes(format!("{BASE}{lines}").as_bytes(), defines, flags);
        loaded.expect("all values are good")
    };
    assert_eq!(load("", &[]).notes, []);
    assert_eq!(load("", &[]).config.snap_count, 10);
    assert_eq!(load("", &["zookeeper.snapCount=20"]).config.snap_count, 20);
    assert_eq!(load("", &["snapCount=20", "snapCount=21"]).config.snap_count, 21);
    assert_eq!(load("snapCount=30", &["zookeeper.snapCount=20"]).config.snap_count, 30);
    // ZooKeeper ignores a prefix in zoo.cfg: what it reads there wins.
    assert_eq!(load("snapCount=30\nzookeeper.snapCount=40", &[]).config.snap_count, 30);
    // ZooKeeper reads this one from -D only.
    assert_eq!(load("", &[]).config.jute_max_buffer, 100);
    assert_eq!(load("jute.maxbuffer=300", &[]).config.jute_max_buffer, 100);
    assert_eq!(load("jute.maxbuffer=300", &["jute.maxbuffer=200"]).config.jute_max_buffer, 200);
    assert_eq!(
        load("jute.maxbuffer=300", &[]).notes[0].text,
        "zoo.cfg:3: jute.maxbuffer is overridden by jute.maxbuffer (environment, JVMFLAGS)"
    );
}

/// In an ensemble ZooKeeper warns of the `BindException` and serves without it.
#[test]
fn the_admin_server_gives_way_where_nobody_set_its_port() {
    for (lines, key) in [
        ("dataDir=/d\nclientPort=8080".to_owned(), "zoo.cfg:2: clientPort"),
        (
            format!(
                "{BASE}metricsProvider.httpPort=8080\n\
             metricsProvider.className={PROMETHEUS}"
            ),
            "zoo.cfg:3: metricsProvider.httpPort",
        ),
    ] {
        let loaded = load_bytes(lines.as_bytes(), &[], "").expect("a configuration");
        assert_eq!(loaded.config.admin, None, "{lines}");
        let notes: Vec<_> = loaded.notes.into_iter().map(|note| note.text).collect();
        let expected = format!("{key} is 8080, the default port of the AdminServer");
        assert!(notes.len() == 1 && notes[0].starts_with(&expected), "{notes:?}");
    }
}

/// `QuorumPeer.start` binds the clients' port before, and only warns of an `AdminServerException`;
/// `ZooKeeperServerMain` ends.
#[test]
fn of_a_member_the_admin_server_gives_way_where_somebody_set_its_port() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("myid"), "1").expect("written");
    let base = format!("dataDir={}\nadmin.serverPort=9\n", dir.path().display());
    let members = "initLimit=5\nsyncLimit=2\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    let clients = "clientPort=9\n";
    let metrics = format!(
        "clientPort=7\nmetricsProvider.httpPort=9\nmetricsProvider.className={PROMETHEUS}\n"
    );
    for (ports, key) in [(clients, "clientPort"), (&metrics, "metricsProvider.httpPort")] {
        let lines = format!("{base}{ports}{members}");
        let loaded = load_bytes(lines.as_bytes(), &[], "").expect("a configuration");
        assert_eq!(loaded.config.admin, None, "{lines}");
        let notes: Vec<_> = loaded.notes.into_iter().map(|note| note.text).collect();
        let expected = format!("zoo.cfg:2: admin.serverPort and {key} are both port 9: ");
        assert!(notes.len() == 1 && notes[0].starts_with(&expected), "{notes:?}");

        let alone = load_bytes(format!("{base}{ports}").as_bytes(), &[], "");
        assert!(alone.expect_err("one port").to_string().contains("are both port 9"), "{lines}");
    }
    let both = format!("{base}{metrics}{members}").replace("clientPort=7", "clientPort=9");
    let both = load_bytes(both.as_bytes(), &[], "").expect_err("one port").to_string();
    assert!(both.contains("clientPort and metricsProvider.httpPort are both port 9"), "{both}");
}

#[test]
fn an_unknown_key_is_a_warning_with_the_nearest_name() {
    for (line, expected) in [
        ("ticktime=5", "unknown key ticktime is ignored; did you mean tickTime?"),
        ("\nsnapcout=5", "unknown key snapcout is ignored; did you mean snapCount?"),
        (
            "\n\n# c\nautopurge.purgeIntervall=1",
            "unknown key autopurge.purgeIntervall is ignored; did you mean \
             autopurge.purgeInterval?",
        ),
        ("zookeeper.maxCnxn=5", "unknown key zookeeper.maxCnxn is ignored; did you mean maxCnxns?"),
        ("qqqqqqqq=5", "unknown key qqqqqqqq is ignored"),
        ("x\\ny=5", "unknown key x\\ny is ignored"),
        ("=5", "a value without a key is ignored"),
    ] {
        let number = 2 + line.lines().count();
        assert_eq!(notes(line), [format!("zoo.cfg:{number}: {expected}")], "{line}");
    }
}

#[test]
fn a_known_key_without_effect_says_so_once_and_hides_its_value() {
    for (line, expected) in [
        ("cnxTimeout=hunter2", "cnxTimeout is known but has no effect here"),
        (
            "requestThrottleStallTime=hunter2",
            "requestThrottleStallTime (request_throttle_stall_time) is",
        ),
        ("maxConcurrentSnapSyncs=1", "maxConcurrentSnapSyncs (leader.maxConcurrentSnapSyncs) is"),
        ("ssl.keyStore.password=hunter2", "ssl.keyStore.password is known but has no effect here"),
        ("ssl.quorum.trustStore.password=hunter2", "ssl.quorum.trustStore.password is known"),
        (
            "authProvider.7=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "authProvider.7 is known but has no effect here. Not yet: there is no such scheme",
        ),
        (
            "secureClientPort=2281",
            "secureClientPort is known but has no effect here. Not yet: there is",
        ),
    ] {
        let notes = notes(line);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with(&format!("zoo.cfg:3: {expected}")), "{notes:?}");
        assert!(!notes[0].contains("hunter2"), "{notes:?}");
    }
    assert_eq!(config("initLimit=10\nssl.clientAuth=none"), config(""));
}

#[test]
fn a_superuser_is_no_secret_that_is_shown() {
    let line = "DigestAuthenticationProvider.superDigest=super:hunter2";
    assert_eq!(notes(line), [""; 0]);
    assert!(!format!("{:?}", config(line)).contains("hunter2"));
}

#[test]
fn authentication_that_cannot_be_enforced_stops_the_start() {
    for lines in [
        "enforce.auth.enabled=true",
        "enforce.auth.enabled=true\nenforce.auth.schemes=",
        "enforce.auth.enabled=true\nenforce.auth.schemes=digest,sasl",
        "sessionRequireClientSASLAuth=true",
        "DigestAuthenticationProvider.digestAlg=MD4",
    ] {
        let error = load_lines(lines).expect_err(lines).to_string();
        let named = ["zoo.cfg:3: ", "zoo.cfg:4: "];
        assert!(named.iter().any(|place| error.starts_with(place)), "{error}");
    }
}

/// A throttle with ZooKeeper's defaults beside its tokens.
fn five_tokens() -> ConnectionThrottle {
    ConnectionThrottle {
        tokens: NonZeroU32::new(5).expect("not 0"),
        fill_ms: NonZeroU32::MIN,
        fill_count: 1,
        freeze_ms: None,
        drop_increase: 0.02,
        drop_decrease: 0.002,
        decrease_ratio: 0.0,
        weights: None,
    }
}

#[test]
fn a_throttle_that_could_not_work_stops_the_start() {
    for line in [
        "connection_throttle_drop_increase=x",
        "connection_throttle_drop_decrease=NaN",
        "connection_throttle_decrease_ratio=1.5",
        "connection_throttle_fill_time=0",
        "connection_throttle_tokens=-1",
        "connection_throttle_freeze_time=-2",
    ] {
        let error = load_lines(line).expect_err(line).to_string();
        assert!(error.starts_with("zoo.cfg:3: "), "{error}");
    }
    let lines = "connection_throttle_local_session_weight=0";
    assert!(notes(lines)[0].contains("1 is used"), "{:?}", notes(lines));
}

#[test]
fn a_large_request_is_above_a_threshold_that_is_set() {
    let large = |lines| config(lines).throttle.large_requests;
    assert_eq!(
        large("largeRequestThreshold=0x400"),
        Some(LargeRequests { threshold: 1024, max_bytes: 100 << 20 })
    );
    assert_eq!(
        large("largeRequestThreshold=1\nlargeRequestMaxBytes=2"),
        Some(LargeRequests { threshold: 1, max_bytes: 2 })
    );
    assert_eq!(large("largeRequestMaxBytes=2"), None);
    for lines in ["largeRequestThreshold=0", "largeRequestThreshold=-2"] {
        assert_eq!(large(lines), None);
        assert_eq!(notes(lines).len(), 1, "{lines}");
    }
    let lines = "largeRequestThreshold=5\nlargeRequestMaxBytes=0";
    assert_eq!(large(lines), Some(LargeRequests { threshold: 5, max_bytes: 100 << 20 }));
    assert_eq!(notes(lines).len(), 1);
}

#[test]
fn headings_of_the_admin_guide_are_known_for_keys_that_work() {
    for heading in [
        "connectionMaxTokens",
        "connectionTokenFillTime",
        "connectionTokenFillCount",
        "connectionFreezeTime",
        "connectionDropIncrease",
        "connectionDropDecrease",
        "connectionDecreaseRatio",
        "requestThrottleLimit",
        "throttledOpWaitTime",
    ] {
        assert_ne!(keys::canonical(heading), heading);
        let key = keys::find(keys::canonical(heading));
        assert!(key.is_some_and(Key::is_in_effect), "{heading}: {key:?}");
    }
}

/// The reference's table: names of the admin guide that are not keys, and the keys that work.
#[test]
fn headings_of_the_admin_guide_are_known() {
    for heading in [
        "requestThrottleStallTime",
        "requestThrottleDropStale",
        "requestStaleLatencyCheck",
        "requestStaleConnectionCheck",
        "advancedFlowControlEnabled",
        "maxConcurrentSnapSyncs",
        "maxConcurrentDiffSyncs",
        "maxTimeToWaitForEpoch",
        "outstandingHandshake.limit",
    ] {
        assert_ne!(keys::canonical(heading), heading);
        let key = keys::find(keys::canonical(heading));
        assert!(key.is_some_and(|key| !key.is_in_effect()), "{heading}: {key:?}");
    }
}

#[test]
fn values_that_differ_from_what_was_meant_are_warned_of() {
    for (line, expected) in [
        ("forceSync=no", "zoo.cfg:3: forceSync=no: ACKNOWLEDGED CHANGES CAN BE LOST"),
        ("forceSync=false", "zoo.cfg:3: forceSync is \"false\", neither yes nor no: the log is"),
        ("snapshot.compression.method=zip", "zoo.cfg:3: snapshot.compression.method is \"zip\", "),
        ("snapCount=1", "zoo.cfg:3: snapCount is 1, raised to 2"),
        ("autopurge.snapRetainCount=2", "zoo.cfg:3: autopurge.snapRetainCount is 2, raised to 3"),
        (
            "extendedTypesEnabled=yes",
            "zoo.cfg:3: extendedTypesEnabled is \"yes\", which means false",
        ),
        ("dataLogDir=l", "zoo.cfg:3: dataLogDir is relative to the working directory: l;"),
        ("4lw.commands.whitelist=mntr,rouk", "zoo.cfg:3: 4lw.commands.whitelist has \"rouk\""),
        ("tickTime=5\ntickTime=6", "zoo.cfg:3: tickTime is overridden by tickTime (zoo.cfg:4)"),
        (
            "server.1=h:2888:3888",
            "zoo.cfg:3: server.1 is the only server, so this server runs standalone",
        ),
    ] {
        let notes = notes(line);
        assert!(notes.len() == 1 && notes[0].starts_with(expected), "{line}: {notes:?}");
    }
    assert_eq!(notes("dataLogDir=./l\nforceSync=yes\ntickTime=1\ntickTime=1"), [""; 0]);
}

#[test]
fn a_file_that_is_none_has_a_plain_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("none.cfg");
    let error = load(Some(&missing), &[]).expect_err("missing");
    assert!(matches!(&error, ConfigError::Unreadable { path, .. } if *path == missing), "{error}");
    let error = load(Some(dir.path()), &[]).expect_err("a directory");
    assert!(matches!(error, ConfigError::Directory { .. }), "{error}");
    let large = dir.path().join("large.cfg");
    fs::write(&large, vec![b'#'; (1 << 20) + 1]).expect("written");
    let error = load(Some(&large), &[]).expect_err("too large");
    assert!(matches!(error, ConfigError::TooLarge { .. }), "{error}");
}

/// Lines of known keys with values that look right, nearly right or like nothing. Names that would
/// have to be looked up are left out: a test asks no name server.
fn line() -> impl Strategy<Value = String> {
    let keys: Vec<&str> = keys::all()
        .map(|key| key.name)
        .filter(|key| !key.ends_with("Address") && !key.ends_with("Host"))
        .chain(["server.1", "server.x", "ssl.quorum.crl", "zookeeper.", "x"])
        .collect();
    let values = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        Just("true".to_owned()),
        Just(PROMETHEUS.to_owned()),
        Just("127.0.0.1:2888:3888;127.0.0.1:9".to_owned()),
        "[-+0-9a-fx#:;|\\[\\]\\\\ ]{0,12}",
        any::<String>(),
    ];
    (prop::sample::select(keys), values).prop_map(|(key, value)| format!("{key}={value}"))
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
        let _ = load_bytes(&bytes, &[], "");
    }

    #[test]
    fn no_lines_make_it_panic(lines in prop::collection::vec(line(), 0..8)) {
        let _ = load_bytes(lines.join("\n").as_bytes(), &[], "");
        let _ = load_lines(&lines.join("\r\n"));
    }
}
