//! Tests properties of the process that the API does not show: the addresses that it dials, its
//! memory, and the keys with which it seals secrets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use porchlight_core::webhook::signature::service_signature;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::flow::header;
use crate::receiver::{Authority, OK, Receiver, Shown, Stream, read_request};
use crate::server::{Folder, Server, http, porchlight, successful};
use crate::service::{Customer, customer, serve, serve_with};

#[tokio::test(flavor = "multi_thread")]
async fn proxies_from_the_environment_are_never_used() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let dialled = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&dialled);
    tokio::spawn(async move {
        while proxy.accept().await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut variables = vec![("NO_PROXY", ""), ("no_proxy", "")];
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ] {
        variables.push((name, url.as_str()));
    }
    let server = serve_with(&folder, &authority, &variables);
    let customer = customer(&server);
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let url = receiver.local_url();
    let registered = customer.post("/v1/webhooks", json!({"url": url})).await;
    assert_eq!(registered.0, 201);
    let tested = customer.send_test_event(None).await;
    assert_eq!(tested.1["statusCode"], 200);
    customer.start().await.unwrap();
    customer.row("/v1/webhooks/deliveries", "delivered").await;
    assert!(receiver.seen() >= 2, "{}", receiver.seen());
    assert_eq!(dialled.load(Ordering::SeqCst), 0);
    server.stop();
}

/// Creates a customer of another organization.
fn customer_of(server: &Server, folder: &Folder, organization: &str) -> Customer {
    let made = porchlight()
        .args([
            "keys", "create", "--init", "--env", "sandbox", "--kind", "secret",
        ])
        .args(["--org", organization])
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output()
        .unwrap();
    Customer {
        api: server.api.clone(),
        key: successful(made).trim().to_owned(),
        http: http(),
    }
}

/// The maximum number of new messages that one endpoint has in flight: all its permits except the
/// eighth reserved for retries and manual attempts.
const EACH: usize = porchlight_schema::limits::ENDPOINT_IN_FLIGHT_MAX * 7 / 8;
/// The number of endpoints.
const CUSTOMERS: usize = 4;
/// The timeout for the first requests of all attempts. Generous, for a busy machine.
const ATTEMPTS_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the growth of the process, in KiB, per attempt in flight at receivers with this
/// behaviour.
async fn growth_kib_of<F, D>(behave: F) -> u64
where
    F: Fn(Stream) -> D + Clone + Send + Sync + 'static,
    D: Future<Output = ()> + Send + 'static,
{
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let good = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let hostile = Receiver::start(&authority, Shown::Good, move |mut stream, log| {
        let behave = behave.clone();
        async move {
            // A handshake without a request is the probe of a registration.
            if let Some(request) = read_request(&mut stream).await {
                log.lock().unwrap().push(request);
                behave(stream).await;
            }
        }
    })
    .await;
    let mut customers = Vec::new();
    for number in 0..CUSTOMERS {
        let customer = customer_of(&server, &folder, &format!("customer {number}"));
        let url = good.local_url();
        customer.post("/v1/webhooks", json!({"url": url})).await;
        // Resources that are created once, such as threads and caches, exist before the measurement
        // starts.
        for _ in 0..2 * EACH {
            customer.start().await.unwrap();
        }
        customers.push(customer);
    }
    while good.seen() < 2 * EACH * CUSTOMERS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = server.resident_kib();
    for customer in &customers {
        let body = json!({"url": hostile.local_url()});
        let changed = customer.call("PUT", "/v1/webhooks", Some(body)).await;
        assert_eq!(changed.0, 200);
        for _ in 0..EACH {
            customer.start().await.unwrap();
        }
    }
    // All attempts are in flight concurrently: none ends before its five seconds are over.
    let (mut most, all) = (before, EACH * CUSTOMERS);
    let began = Instant::now();
    while hostile.seen() < all {
        assert!(
            began.elapsed() < ATTEMPTS_TIMEOUT,
            "{} of {all} attempts",
            hostile.seen()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
        most = most.max(server.resident_kib());
    }
    for _ in 0..150 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        most = most.max(server.resident_kib());
    }
    server.stop();
    (most - before) / all as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_attempt_holds_less_than_a_mebibyte() {
    let growth_kib = growth_kib_of(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    });
    let growth_kib = growth_kib.await;
    println!("{growth_kib} KiB for each");
    assert!(growth_kib < 1_024, "{growth_kib} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_an_end_holds_less_than_a_mebibyte() {
    let growth_kib = growth_kib_of(|mut stream| async move {
        let text = format!("HTTP/1.1 200 OK\r\nx-long: {}", "y".repeat(390_000));
        let _gone = stream.write_all(text.as_bytes()).await;
        let _gone = stream.flush().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    let growth_kib = growth_kib.await;
    println!("{growth_kib} KiB for each");
    assert!(growth_kib < 1_024, "{growth_kib} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_an_end_holds_less_than_a_mebibyte() {
    let growth_kib = growth_kib_of(|mut stream| async move {
        // Sends one byte less than the read limit, and then nothing.
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
        let text = format!("{head}{}", "y".repeat(16 * 1024 - 1));
        let _gone = stream.write_all(text.as_bytes()).await;
        let _gone = stream.flush().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    let growth_kib = growth_kib.await;
    println!("{growth_kib} KiB for each");
    assert!(growth_kib < 1_024, "{growth_kib} KiB");
}

fn key_file(folder: &Folder, name: &str, digits: &str) -> PathBuf {
    let file = folder.path().join(name);
    std::fs::write(&file, digits.repeat(32)).unwrap();
    file
}

fn listed(files: &[&Path]) -> String {
    let texts: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
    texts.join(",")
}

/// Runs `porchlight secrets rewrap` with these keys. Returns whether it succeeded, its output, and
/// its error.
fn rewrap(folder: &Folder, files: &[&Path]) -> (bool, Value, String) {
    let output = porchlight()
        .args(["secrets", "rewrap", "--json"])
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .env("PORCHLIGHT__SECRETS__KEY_FILES", listed(files))
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), report, error)
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_resealed_with_and_without_a_server() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let keys = ["first", "second", "third", "fourth"];
    let digits = ["a1", "b2", "c3", "d4"];
    let [first, second, third, fourth] =
        [0, 1, 2, 3].map(|place| key_file(&folder, keys[place], digits[place]));
    let with = |files: &[&Path]| {
        let variables = [("PORCHLIGHT__SECRETS__KEY_FILES", listed(files))];
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        serve_with(&folder, &authority, &variables)
    };
    let server = with(&[&first]);
    let key = server.key("secret");
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let old = customer(&server);
    let url = receiver.local_url();
    let (_, made) = old.post("/v1/webhooks", json!({"url": url})).await;
    let (_, rotated) = old
        .post("/v1/webhooks/rotate", json!({"overlapSec": 600}))
        .await;
    let (done, _, error) = rewrap(&folder, &[&second, &first]);
    assert!(!done && error.contains("restart the server"), "{error}");
    server.stop();

    let server = with(&[&second, &first]);
    let (done, report, error) = rewrap(&folder, &[&second, &first]);
    assert!(done, "{error}");
    assert_eq!(
        (&report["rewrapped"], &report["current"]),
        (&json!(2), &json!(0))
    );
    let (done, report, _) = rewrap(&folder, &[&second, &first]);
    assert!(done);
    assert_eq!(
        (&report["rewrapped"], &report["current"]),
        (&json!(0), &json!(2))
    );
    server.stop();
    std::fs::remove_file(first).unwrap();

    let (done, report, _) = rewrap(&folder, &[&third, &second]);
    assert!(done && report["rewrapped"] == 2, "{report}");
    std::fs::remove_file(second).unwrap();
    // The command refuses a key that is not the store's before it reads a secret.
    let (done, report, error) = rewrap(&folder, &[&fourth]);
    assert!(!done && report.is_null(), "{report}");
    assert!(error.contains("the store depends on secret key"), "{error}");

    let server = with(&[&third]);
    let customer = Customer {
        api: server.api.clone(),
        key,
        http: http(),
    };
    let tested = customer.send_test_event(None).await;
    assert_eq!(tested.1["statusCode"], 200, "{}", tested.1);
    let request = receiver.requests.lock().unwrap()[0].clone();
    let body = request.split_once("\r\n\r\n").unwrap().1;
    for (name, secret) in [
        ("x-service-signature", &rotated),
        ("x-service-signature-previous", &made),
    ] {
        let signature = service_signature(secret["secret"].as_str().unwrap(), body.as_bytes());
        assert_eq!(header(&request, name), Some(signature.as_str()));
    }
    server.stop();
}
