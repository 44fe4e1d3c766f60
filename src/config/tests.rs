//! Tests the sources of the configuration, their order and their errors.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn load(toml: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("porchlight-config-{}-{number}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, toml).unwrap();
    let variables = variables.iter().map(|&(k, v)| (k.into(), v.into()));
    let config = Config::load_from(Some(&file), variables);
    std::fs::remove_file(file).unwrap();
    config
}

/// A configuration that sets one of the limits need not know the default of the other.
#[test]
fn either_session_limit_may_be_the_shorter_one() {
    for toml in [
        "max_duration = \"5s\"",
        "max_duration = \"72h\"",
        "idle_timeout = \"13h\"",
    ] {
        load(&format!("[session]\n{toml}"), &[]).unwrap();
    }
}

#[test]
fn a_list_variable_is_comma_separated_or_in_toml_syntax() {
    for value in [
        "127.0.0.0/8,::1/128",
        "127.0.0.0/8, ::1/128",
        "[\"127.0.0.0/8\", \"::1/128\"]",
    ] {
        let config = load("", &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", value)]).unwrap();
        assert_eq!(
            config.webhook.allow_addresses,
            ["127.0.0.0/8", "::1/128"],
            "{value}"
        );
    }
    for value in ["", "[]"] {
        let config = load("", &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", value)]).unwrap();
        assert!(config.webhook.allow_addresses.is_empty(), "{value:?}");
    }
}

#[test]
fn an_empty_configuration_is_the_default() {
    let config = load("", &[]).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.session.idle_timeout.as_millis(), 30 * 60 * 1000);
}

#[test]
fn the_environment_overrides_the_file() {
    let toml = "[server]\nlisten = \"127.0.0.1:1\"\n[session]\nidle_timeout = \"90s\"\n[webhook]\nallow_addresses = [\"::1/128\"]";
    let config = load(
        toml,
        &[
            ("PORCHLIGHT__SERVER__LISTEN", "127.0.0.1:2"),
            ("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0"),
            (
                "PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES",
                "127.0.0.0/8,10.0.0.0/8",
            ),
        ],
    )
    .unwrap();
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.server.rate_limit_per_second, 0);
    assert_eq!(config.session.idle_timeout.as_millis(), 90_000);
    assert_eq!(
        config.webhook.allow_addresses,
        ["127.0.0.0/8", "10.0.0.0/8"]
    );
}

#[test]
fn unknown_keys_and_invalid_values_are_errors() {
    assert!(
        load("[server]\nlissten = \"127.0.0.1:1\"", &[])
            .unwrap_err()
            .to_string()
            .contains("lissten")
    );
    assert!(
        load("", &[("PORCHLIGHT__SERVER__LISSTEN", "1")])
            .unwrap_err()
            .to_string()
            .contains("lissten")
    );
    for (toml, message) in [
        (
            "[session]\nidle_timeout = \"soon\"",
            "not a duration such as 90s, 30m, 12h or 90d for key `session.idle_timeout`",
        ),
        (
            "[store]\nkind = \"mysql\"",
            "must be \"embedded\" or \"cql\" for key `store.kind`",
        ),
        (
            "[server]\nlisten = \"localhost:8080\"",
            "not an address and a port such as 127.0.0.1:8080 for key `server.listen`",
        ),
        ("[store]\nretention = \"0d\"", "store.retention"),
        ("[store]\nretention = \"71h\"", "store.retention"),
        ("[retention]\nshortest = \"25h\"", "retention.shortest"),
        ("[retention]\nshortest = \"91d\"", "retention.shortest"),
        (
            "[retention]\nshortest_audit = \"29d\"",
            "retention.shortest_audit",
        ),
        ("[limits]\ntenant_requests = -1", "limits.tenant_requests"),
        ("[session]\nidle_timeout = \"0s\"", "session.idle_timeout"),
        ("[session]\nidle_timeout = \"1ms\"", "session.idle_timeout"),
        (
            "[privacy]\ndelay = \"8d\"",
            "privacy.delay: must be at most 7d",
        ),
        ("[session]\nmax_duration = \"0s\"", "session.max_duration"),
        ("[session]\nmax_duration = \"73h\"", "at most 72h"),
        (
            "[server]\nworkers = 257",
            "server.workers: must be at most 256",
        ),
        (
            "[log]\nfilter = \"warning\"",
            "log.filter: `warning` is not a level",
        ),
        ("[log]\nfilter = \"\"", "log.filter: must name a level"),
        ("[server]\ndrain_grace = \"21s\"", "server.drain_grace"),
    ] {
        let error = load(toml, &[]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let folder = Config::load_from(Some(&std::env::temp_dir()), std::iter::empty());
    assert!(folder.unwrap_err().to_string().contains("is a folder"));
    assert!(
        load("[store]\nkind = \"cql\"", &[])
            .unwrap_err()
            .to_string()
            .contains("secrets.key_files")
    );
}

#[test]
fn a_text_from_the_environment_is_used_as_it_is_given() {
    for text in ["007", "1e5", "TRUE", "-1", "0x10", "nan"] {
        let config = load(
            "",
            &[
                ("PORCHLIGHT__STORE__PATH", text),
                ("PORCHLIGHT__STORE__CQL__USER", text),
                ("PORCHLIGHT__SECRETS__KEY_FILES", text),
            ],
        )
        .unwrap();
        assert_eq!(config.store.path, PathBuf::from(text));
        assert_eq!(config.store.cql.user, text);
        assert_eq!(config.secrets.key_files, [PathBuf::from(text)]);
    }
}

#[test]
fn numbers_and_truth_values_can_come_from_the_environment() {
    let config = load(
        "",
        &[
            ("PORCHLIGHT__SERVER__WORKERS", "3"),
            ("PORCHLIGHT__STORE__RESERVE_BYTES", "18446744073709551615"),
            ("PORCHLIGHT__LIMITS__TENANT_REQUESTS", "12"),
            ("PORCHLIGHT__STORE__CQL__TLS", "TRUE"),
        ],
    )
    .unwrap();
    assert_eq!(config.server.workers, 3);
    assert_eq!(config.store.reserve_bytes, u64::MAX);
    assert_eq!(config.limits.tenant_requests, 12);
    assert!(config.store.cql.tls);
}

/// A value of another type is refused: converted to an integer, 0.4 requests per second would be 0,
/// which means no limit.
#[test]
fn a_value_of_another_type_is_an_error_that_names_the_key() {
    let mut refused = vec![
        ("store.cql", "tls", "2"),
        ("store.cql", "tls", "1.0"),
        ("store.cql", "tls", "\"maybe\""),
        ("store", "path", "7"),
        ("store", "path", "true"),
        ("store", "kind", "7"),
        ("store", "retention", "90"),
        ("store.cql", "keyspace", "1.5"),
        ("store.cql", "nodes", "[7]"),
        ("store.cql", "nodes", "\"127.0.0.1:9042\""),
        ("secrets", "key_files", "[true]"),
        ("map", "file", "7"),
        ("log", "filter", "false"),
    ];
    for (section, key) in [
        ("server", "rate_limit_per_second"),
        ("server", "workers"),
        ("store", "reserve_bytes"),
        ("store.cql", "replication_factor"),
        ("limits", "tenant_in_flight_bytes"),
        ("limits", "tenant_requests"),
        ("limits", "tenant_sockets"),
        ("limits", "tenant_event_streams"),
        ("limits", "tenant_live_sessions"),
        ("limits", "tenant_lists"),
        ("limits", "tenant_session_starts_per_second"),
        ("limits", "tenant_pod_changes_per_second"),
        ("limits", "tenant_stored_bytes_per_second"),
    ] {
        let values = [
            "0.4", "1.0", "true", "false", "-1", "\"0.4\"", "\"true\"", "[1]",
        ];
        refused.extend(values.map(|value| (section, key, value)));
    }
    for (section, key, value) in refused {
        let toml = format!("[{section}]\n{key} = {value}");
        let error = load(&toml, &[]).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{section}.{key}")),
            "{toml}: {error}"
        );
    }
    let error = load("[server]\nrate_limit_per_second = 4294967296", &[]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("server.rate_limit_per_second"), "{error}");
    let quoted = load("[server]\nworkers = \"3\"", &[]).unwrap();
    assert_eq!(quoted.server.workers, 3);
}

#[test]
fn a_bad_public_url_and_equal_listeners_are_refused() {
    for (toml, message) in [
        ("public_url = \"https://\"", "server.public_url"),
        ("public_url = \"https://bad host\"", "server.public_url"),
        ("listen = \"127.0.0.1:9464\"", "server.ops_listen"),
    ] {
        let error = load(&format!("[server]\n{toml}"), &[]).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// A file, the key of its error, the line that sets it, and a part of the allowed values.
const WRONG_FILES: &[(&str, &str, u32, &str)] = &[
    (
        "[server]\nlisten = \"localhost:80\"",
        "server.listen",
        2,
        "127.0.0.1:8080",
    ),
    (
        "[server]\nworkers = 4\nlissten = 1",
        "server.lissten",
        3,
        "ops_listen",
    ),
    (
        "[serverr]\nlisten = 1",
        "serverr",
        1,
        "server, session, store",
    ),
    ("\nserver = \"x\"", "server", 2, "section"),
    (
        "[server.listen]\nport = 1",
        "server.listen",
        1,
        "single setting",
    ),
    (
        "[session]\nidle_timeout = \"30 minutes\"",
        "session.idle_timeout",
        2,
        "90s, 30m",
    ),
    (
        "[server]\npublic_url = \"ftp://x\"",
        "server.public_url",
        2,
        "https://",
    ),
    (
        "[server]\nworkers = 300",
        "server.workers",
        2,
        "at most 256",
    ),
    (
        "[server]\nops_hosts = [\"a b\"]",
        "server.ops_hosts",
        2,
        "ops.example.com",
    ),
    (
        "[server]\nops_hosts = [1]",
        "server.ops_hosts",
        2,
        "a text in quotes",
    ),
    ("store.kind = \"mysql\"", "store.kind", 1, "\"cql\""),
    ("[store.cql]\ntls = 2", "store.cql.tls", 2, "true or false"),
];

/// A variable, its value, the key of its error, and a part of the allowed values.
const WRONG_VARIABLES: &[(&str, &str, &str, &str)] = &[
    ("PORCHLIGHT__SERVER", "x", "server", "section"),
    (
        "PORCHLIGHT__SERVER__LISSTEN",
        "1",
        "server.lissten",
        "ops_listen",
    ),
    (
        "PORCHLIGHT__SERVER__LISTEN__X",
        "1",
        "server.listen",
        "single setting",
    ),
    (
        "PORCHLIGHT__SESSION__IDLE_TIMEOUT",
        "30",
        "session.idle_timeout",
        "90s, 30m",
    ),
    (
        "PORCHLIGHT__SERVER__PUBLIC_URL",
        "x.example",
        "server.public_url",
        "https://",
    ),
    (
        "PORCHLIGHT__SERVER__WORKERS",
        "x",
        "server.workers",
        "whole number, 0 or more",
    ),
    (
        "PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND",
        "4294967296",
        "server.rate_limit_per_second",
        "at most 4294967295",
    ),
    (
        "PORCHLIGHT__SERVER__OPS_HOSTS",
        "a b",
        "server.ops_hosts",
        "ops.example.com",
    ),
    (
        "PORCHLIGHT__STORE__RETENTION",
        "1d",
        "store.retention",
        "3d or more",
    ),
    (
        "PORCHLIGHT__STORE__CQL__TLS",
        "maybe",
        "store.cql.tls",
        "true or false",
    ),
    (
        "porchlight__server__workers",
        "300",
        "server.workers",
        "at most 256",
    ),
];

#[test]
fn an_error_in_a_file_names_the_key_its_line_and_the_allowed_values() {
    for &(toml, key, line, allowed) in WRONG_FILES {
        let error = load(toml, &[]).unwrap_err().to_string();
        let place = format!(".toml, line {line})");
        for part in [key, &place, allowed] {
            assert!(error.contains(part), "{toml}: {part}: {error}");
        }
    }
}

#[test]
fn an_error_in_a_variable_names_it_the_key_and_the_allowed_values() {
    for &(variable, value, key, allowed) in WRONG_VARIABLES {
        let toml = "[server]\nworkers = 1\nops_hosts = []\n[store]\nretention = \"90d\"";
        let error = load(toml, &[(variable, value)]).unwrap_err().to_string();
        let place = format!("(variable {variable})");
        for part in [key, &place, allowed] {
            assert!(error.contains(part), "{variable}: {part}: {error}");
        }
    }
}
