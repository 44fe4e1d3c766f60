//! Collects the data of an access request from the store.

use std::panic::{AssertUnwindSafe, catch_unwind};

use porchlight_actors::service::{RecorderOrder, Service};
use porchlight_actors::webhook::Webhooks;
use porchlight_core::privacy::{PrivacyRequest, RecordedSubject};
use porchlight_export::{
    AccessArchive, ExportError, ExportedEvidence, ExportedSession, Request as ExportRequest,
};
use porchlight_http::problem::{Code, Problem, privacy_request_not_found};
use porchlight_picture::{self as picture, png::png};
use porchlight_ports::SessionRow;
use porchlight_schema::ids::RecorderId;
use porchlight_schema::insight::{InsightView, Score};
use porchlight_schema::limits::ACCESS_ARCHIVE_BYTES_MAX;
use porchlight_schema::review::ReviewView;
use porchlight_schema::session::{Address, Point, SessionStart, SessionView, Tenant};
use porchlight_schema::time::{DAY_MS, TimestampMs};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::sessions::acknowledged_view;
use super::super::webhooks::exported_delivery;
use super::samples;

/// The number of batches per read.
const BATCHES_AT_ONCE: usize = 256;

/// The data of one tenant, for an archive.
pub(super) struct Source {
    pub(super) service: Service,
    pub(super) webhooks: Option<Webhooks>,
    pub(super) tenant: Tenant,
}

/// A recorder with every field of its order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecorderView<'a> {
    recorder_id: RecorderId,
    external_rider_id: &'a str,
    delivery_id: Option<&'a str>,
    address: Value,
    created_at: TimestampMs,
    expires_at: TimestampMs,
}

impl<'a> RecorderView<'a> {
    fn new(recorder_id: RecorderId, order: &'a RecorderOrder) -> Self {
        Self {
            recorder_id,
            external_rider_id: &order.external_rider_id,
            delivery_id: order.delivery_id.as_deref(),
            address: address(&order.address),
            created_at: order.created_at,
            expires_at: order.expires_at,
        }
    }
}

/// Returns an address with every field that the API accepts.
fn address(address: &Address) -> Value {
    let point = |point: &Point| json!({ "lat": point.lat, "lng": point.lng });
    let gates: Vec<Value> = address.gates.iter().map(point).collect();
    json!({
        "line1": address.line1,
        "city": address.city,
        "country": address.country,
        "lat": address.point.lat,
        "lng": address.point.lng,
        "unit": address.unit,
        "floor": address.floor,
        "accuracyM": address.accuracy_m,
        "storeyHeightM": address.storey_height_m,
        "entrance": address.entrance.as_ref().map(point),
        "gates": gates,
    })
}

/// Returns the facts of a session's start of which `session.json` contains a part or none.
fn start(start: &SessionStart) -> Value {
    let device = start.device.as_ref().map(|device| {
        json!({
            "platform": device.platform,
            "model": device.model,
            "osVersion": device.os_version,
            "sdkVersion": device.sdk_version,
            "sensors": device.sensors,
        })
    });
    json!({
        "address": address(&start.address),
        "device": device,
        "createdAt": start.created_at,
    })
}

fn refused(error: ExportError) -> Problem {
    match error {
        ExportError::TooLarge | ExportError::TooManySessions => Problem::new(
            Code::PrivacyRequestNotFound,
            "The data is too large for one archive. Request access by delivery or by session.",
        ),
        other => Problem::internal(other),
    }
}

/// Builds the archive of an access request.
///
/// # Errors
///
/// Returns 404 if the request names no subject or the data is too large; 503 if the store fails.
pub(super) async fn archive(source: &Source, request: &PrivacyRequest) -> Result<Vec<u8>, Problem> {
    let service = &source.service;
    let privacy = service.privacy(source.tenant);
    let (kind, subject) = match &request.subject {
        RecordedSubject::Clear(subject) => subject.parts(),
        RecordedSubject::Hashed(_) => return Err(privacy_request_not_found()),
    };
    let mut archive = AccessArchive::new(ExportRequest {
        request_id: request.request_id.clone(),
        subject_kind: kind.to_owned(),
        subject,
        received_at: request.received_at,
        read_at: service.now(),
        erased: privacy.erased_sessions(request).await?,
    });
    for (id, order) in privacy.recorders_to_access(request).await? {
        let recorder = RecorderView::new(id, &order);
        archive.add_recorder(&recorder).map_err(refused)?;
    }
    let mut after = None;
    loop {
        let (rows, next) = privacy.sessions_to_access(request, after).await?;
        for row in &rows {
            add(&mut archive, source, row).await?;
        }
        match next {
            Some(next) => after = Some(next),
            None => return archive.finish().map_err(refused),
        }
    }
}

async fn add(
    archive: &mut AccessArchive,
    source: &Source,
    row: &SessionRow,
) -> Result<(), Problem> {
    let service = &source.service;
    let telemetry = telemetry(service, row).await?;
    let sessions = service.of(source.tenant);
    let stored = sessions.scored(row).await?;
    let review = sessions.review(row).await?;
    let acknowledged = sessions.acknowledged(row).await?;
    let acknowledged = acknowledged_view(row, &acknowledged).map_err(Problem::internal)?;
    let stored = stored.as_ref();
    let score = stored.and_then(|stored| Some((stored.record.score.as_ref()?, stored.dropped)));
    let path = match score {
        Some((score, _)) => path(service, row, score).await?,
        None => None,
    };
    let session = ExportedSession {
        session_id: row.start.session_id,
        session: SessionView::answer(&row.start, row.end.as_ref()),
        start: start(&row.start),
        telemetry_ndjson: &telemetry,
        insight: stored.map(|stored| InsightView::scored(&row.start, &stored.record, None)),
        evidence: score.map(|(score, dropped_samples)| ExportedEvidence {
            data: &score.evidence,
            weights: &score.weights,
            dropped_samples,
        }),
        path_png: path.as_deref(),
        review: review.as_ref().map(ReviewView::from),
        acknowledged: Some(acknowledged),
        messages: messages(source, row).await?,
        places: places(source, row).await?,
    };
    archive.add(&session).map_err(refused)
}

/// Returns the webhook messages of a session, oldest first, with their payloads and attempts. The
/// read ends once the payloads are larger than an archive may be.
async fn messages(source: &Source, row: &SessionRow) -> Result<Vec<Value>, Problem> {
    let Some(webhooks) = &source.webhooks else {
        return Ok(Vec::new());
    };
    let webhooks = webhooks.of(source.tenant);
    let endpoint = webhooks.endpoint().await?;
    let rows = webhooks.deliveries_to_access(row.start.session_id).await?;
    let (mut views, mut bytes) = (Vec::with_capacity(rows.len()), 0);
    for row in rows.iter().rev() {
        let Some(detail) = webhooks.delivery_to_access(row.queued.id).await? else {
            continue;
        };
        bytes += detail.body.as_ref().map_or(0, |body| body.len());
        if bytes > ACCESS_ARCHIVE_BYTES_MAX {
            return Err(refused(ExportError::TooLarge));
        }
        let view = exported_delivery(&detail, endpoint.as_ref());
        views.push(view.map_err(Problem::internal)?);
    }
    Ok(views)
}

/// Returns the contributions of a session to the knowledge of its place.
async fn places(source: &Source, row: &SessionRow) -> Result<Vec<Value>, Problem> {
    let privacy = source.service.privacy(source.tenant);
    let found = privacy.contributions_to_access(row).await?;
    let point = |(point, accuracy_m): &(Point, f32)| json!({ "lat": point.lat, "lng": point.lng, "accuracyM": accuracy_m });
    let places = found.places.iter().map(|facts| {
        let floor = facts.floor_height_m.as_ref();
        json!({
            "kind": "place",
            "day": TimestampMs(i64::from(facts.day) * DAY_MS),
            "floor": floor.map(|(floor, _)| floor),
            "floorHeightM": floor.map(|(_, metres)| metres),
            "entrance": facts.entrance.as_ref().map(point),
            "dropOff": facts.drop_off.as_ref().map(point),
        })
    });
    let traces = (found.traces > 0).then(|| json!({ "kind": "fingerprint", "rows": found.traces }));
    Ok(places.chain(traces).collect())
}

/// Returns the telemetry of a session as NDJSON.
async fn telemetry(service: &Service, row: &SessionRow) -> Result<Vec<u8>, Problem> {
    let (mut text, mut from_seq) = (Vec::new(), 0);
    loop {
        let sessions = service.of(row.start.tenant);
        let page = sessions.batches(row, from_seq, BATCHES_AT_ONCE).await?;
        let Some(last) = page.last() else {
            return Ok(text);
        };
        for entry in &page {
            samples::write_line(entry, &mut text).map_err(Problem::internal)?;
        }
        if text.len() > ACCESS_ARCHIVE_BYTES_MAX {
            return Err(refused(ExportError::TooLarge));
        }
        let Some(next) = last.seq.checked_add(1) else {
            return Ok(text);
        };
        from_seq = next;
    }
}

/// Returns the path of a session as PNG; `None` if it has no path to draw.
async fn path(
    service: &Service,
    row: &SessionRow,
    score: &Score,
) -> Result<Option<Vec<u8>>, Problem> {
    if !score.has_path {
        return Ok(None);
    }
    let Some(track) = service.path_track(row, score).await? else {
        return Ok(None);
    };
    let drawn = catch_unwind(AssertUnwindSafe(|| picture::draw(&track, score)));
    let Ok(drawn) = drawn else {
        return Ok(None);
    };
    png(&drawn).map(Some).map_err(Problem::internal)
}
