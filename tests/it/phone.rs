//! Phones that send simulated deliveries and retry without a limit.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use porchlight_schema::time::TimestampMs;
use porchlight_sim::{Delivery, Kind, ParameterSet, Scenario};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::fixed::assert_answer;
use crate::server::http;

/// The kinds of deliveries, sent in turn.
const KINDS: [Kind; 6] = [
    Kind::House,
    Kind::Elevator,
    Kind::Stairs,
    Kind::LobbyHandOff,
    Kind::NeverCame,
    Kind::WrongAddress,
];
/// The seconds of telemetry in one batch.
const BATCH_SEC: f64 = 15.0;
/// The maximum number of batches of one session in flight.
const AT_ONCE: usize = 3;

/// Returns the delivery of this number; each has its own place, and no two have the same trace.
pub(crate) fn delivery(number: u64) -> Delivery {
    let kind = KINDS[(number % KINDS.len() as u64) as usize];
    Scenario::new(kind, ParameterSet::Tuning, 50_000 + number).deliver()
}

/// A sent session, and its acknowledged batches.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) session_id: String,
    /// The bodies that were answered with 202, by number.
    pub(crate) acknowledged: Vec<(u32, String)>,
}

/// A session that is being sent.
#[derive(Debug)]
pub(crate) struct OpenDelivery {
    /// The part sent so far.
    pub(crate) sent: Sent,
    /// The batches still to be sent.
    pub(crate) batches: Vec<(u32, String)>,
    ended_at: TimestampMs,
}

/// The current address of the server, which changes its port after each crash.
pub(crate) type ServerUrl = Arc<RwLock<String>>;

/// The results of requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The number of requests refused with a retry time.
    pub(crate) refused: AtomicU64,
    /// The number of requests that found no server to connect to.
    pub(crate) unreachable: AtomicU64,
    /// The number of requests that were started, and not answered.
    pub(crate) unanswered: AtomicU64,
    /// The errors of the first few unanswered requests.
    pub(crate) reasons: Mutex<Vec<String>>,
    /// The longest time until a request was answered, over all attempts, in milliseconds.
    pub(crate) slowest_ms: AtomicU64,
}

impl Tally {
    fn note(&self, path: &str, began: Instant, error: &reqwest::Error) {
        const KEPT_MAX: usize = 8;
        let mut reasons = self.reasons.lock().unwrap();
        if reasons.len() < KEPT_MAX {
            reasons.push(format!("{path} after {:?}: {error:?}", began.elapsed()));
        }
    }
}

/// A client of the service with a secret key.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The nodes, used in turn.
    urls: Vec<ServerUrl>,
    next: Arc<AtomicUsize>,
    key: String,
    /// The results of the client's requests.
    pub(crate) tally: Arc<Tally>,
}

/// An answer: its status, and its body as JSON.
pub(crate) type Answer = (StatusCode, Value);

impl Client {
    pub(crate) fn new(url: &ServerUrl, key: &str) -> Self {
        Self {
            http: http(),
            urls: vec![Arc::clone(url)],
            next: Arc::default(),
            key: key.to_owned(),
            tally: Arc::default(),
        }
    }

    /// Creates a client of several nodes that does not wait long for a silent one.
    pub(crate) fn with_nodes(urls: &[ServerUrl], key: &str) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(7));
        Self {
            http: http.no_proxy().build().unwrap(),
            urls: urls.to_vec(),
            next: Arc::default(),
            key: key.to_owned(),
            tally: Arc::default(),
        }
    }

    /// Sends a request once. Returns an error if the server is unreachable or stops before it has
    /// answered.
    pub(crate) async fn attempt(
        &self,
        path: &str,
        body: Option<&str>,
        idempotency_key: Option<&str>,
    ) -> reqwest::Result<Answer> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.urls.len();
        let url = format!("{}{path}", self.urls[index].read().unwrap());
        let method = if body.is_some() { "POST" } else { "GET" };
        let mut request = match body {
            Some(body) => self
                .http
                .post(url)
                .header("Content-Type", "application/json")
                .body(body.to_owned()),
            None => self.http.get(url),
        };
        request = request.header("Service-Key", &self.key);
        if let Some(key) = idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        assert_answer(method, path, status.as_u16(), &text);
        Ok((status, serde_json::from_str(&text).unwrap_or_default()))
    }

    /// Retries a request until the server answers with a status other than 408, 429 and 503.
    pub(crate) async fn request(
        &self,
        path: &str,
        body: Option<&str>,
        idempotency_key: Option<&str>,
    ) -> Answer {
        let (began, tally) = (Instant::now(), &self.tally);
        loop {
            let counter = match self.attempt(path, body, idempotency_key).await {
                Ok((status, _)) if status == 408 || status == 429 || status == 503 => {
                    &tally.refused
                }
                Ok(answer) => {
                    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap();
                    tally.slowest_ms.fetch_max(took_ms, Ordering::Relaxed);
                    return answer;
                }
                Err(error) if error.is_connect() => &tally.unreachable,
                Err(error) => {
                    tally.note(path, began, &error);
                    &tally.unanswered
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends a whole delivery, with a pause between batches.
    pub(crate) async fn send(&self, number: u64, pause: Duration) -> Sent {
        let mut open = self.begin(number).await;
        self.send_next(&mut open, usize::MAX, pause).await;
        self.finish(open).await
    }

    /// Starts the session of a delivery.
    pub(crate) async fn begin(&self, number: u64) -> OpenDelivery {
        let delivery = delivery(number);
        let started_at = TimestampMs(jiff::Timestamp::now().as_millisecond() - 3_600_000);
        let mut start = delivery.start.clone();
        start["startedAt"] = json!(started_at);
        let start = start.to_string();
        let idempotency_key = format!("delivery-{number}");
        let (status, session) = self
            .request("/v1/sessions/start", Some(&start), Some(&idempotency_key))
            .await;
        assert_eq!(status, 201, "{session}");
        let ended_at = started_at.plus_ms((delivery.end_t * 1000.0).ceil() as i64);
        let batches = delivery
            .batches(BATCH_SEC)
            .map(|batch| (batch.seq, batch.json().unwrap()));
        OpenDelivery {
            batches: batches.collect(),
            ended_at,
            sent: Sent {
                number,
                session_id: session["sessionId"].as_str().unwrap().to_owned(),
                acknowledged: Vec::new(),
            },
        }
    }

    /// Sends the next batches, at most `at_most`, with a pause between.
    pub(crate) async fn send_next(&self, open: &mut OpenDelivery, at_most: usize, pause: Duration) {
        let path = format!("/v1/sessions/{}/telemetry", open.sent.session_id);
        let rest = open.batches.split_off(at_most.min(open.batches.len()));
        let batches = std::mem::replace(&mut open.batches, rest);
        for some in batches.chunks(AT_ONCE) {
            let answers = some
                .iter()
                .map(|(_, body)| self.request(&path, Some(body), None));
            let answers = futures_util::future::join_all(answers).await;
            for ((seq, body), (status, answer)) in some.iter().zip(answers) {
                assert_eq!(
                    (status, &answer["ackSeq"]),
                    (StatusCode::ACCEPTED, &json!(seq))
                );
                open.sent.acknowledged.push((*seq, body.clone()));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Stops the session.
    pub(crate) async fn finish(&self, open: OpenDelivery) -> Sent {
        let session_id = &open.sent.session_id;
        let stop = json!({ "sessionId": session_id, "endedAt": open.ended_at }).to_string();
        let (status, stopped) = self.request("/v1/sessions/stop", Some(&stop), None).await;
        assert_eq!(
            (status, &stopped["status"]),
            (StatusCode::OK, &json!("completed"))
        );
        open.sent
    }

    /// Returns the insight once it is no longer processing, without the fields that differ from run
    /// to run.
    pub(crate) async fn insight(&self, session_id: &str) -> Value {
        let path = format!("/v1/sessions/{session_id}/insights");
        for _ in 0..600 {
            let (status, mut insight) = self.request(&path, None, None).await;
            assert_eq!(status, 200, "{insight}");
            if insight["status"] != "processing" {
                let fields = insight.as_object_mut().unwrap();
                for own in [
                    "sessionId",
                    "organizationId",
                    "createdAt",
                    "updatedAt",
                    "pathImageUrl",
                ] {
                    fields.remove(own);
                }
                return insight;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("session {session_id} was not scored within a minute")
    }
}
