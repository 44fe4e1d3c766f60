//! Links and status of recorders (contract section 12), for the API and the console.

use porchlight_actors::service::Recorder;
use porchlight_core::recorder::Activity;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::limits::RECORDER_RECEIVING_MS;
use porchlight_schema::sample::Kind;
use porchlight_schema::time::TimestampMs;

use super::problem::Problem;
use super::state::State;

/// An app that pushes to a recorder.
#[derive(Debug, Clone, Copy)]
pub struct App {
    /// The name of the app in `pushUrls`.
    pub json_name: &'static str,
    /// The last segment of the app's push URL.
    pub path_end: &'static str,
    /// The name of the app in app stores.
    pub store_name: &'static str,
}

const fn app(json_name: &'static str, path_end: &'static str, store_name: &'static str) -> App {
    App {
        json_name,
        path_end,
        store_name,
    }
}

/// The apps that can push to a recorder.
pub const APPS: [App; 5] = [
    app("sensorLogger", "sensor-logger", "Sensor Logger"),
    app("traccar", "traccar", "Traccar Client"),
    app("owntracks", "owntracks", "OwnTracks"),
    app("overland", "overland", "Overland"),
    app("gpslogger", "gpslogger", "GPSLogger"),
];

/// The state of a recorder as its customer and its courier see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownRecorder {
    /// The present activity.
    pub activity: Activity,
    /// The newest session.
    pub session_id: Option<SessionId>,
    /// The time of the last push.
    pub last_heard_at: Option<TimestampMs>,
    /// The recently received values per second, by kind.
    pub rates_hz: Vec<(Kind, f64)>,
}

impl ShownRecorder {
    /// The state of a recorder without data, or whose newest session is restricted or erased.
    const WAITING: Self = Self {
        activity: Activity::Waiting,
        session_id: None,
        last_heard_at: None,
        rates_hz: Vec::new(),
    };

    /// Returns the state of a recorder. A restricted session is not shown, and neither is its data.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn of(state: &State, recorder: &Recorder) -> StoreResult<Self> {
        let session_id = recorder.state.newest().and_then(|newest| newest.session_id);
        let session = match session_id {
            Some(session_id) => match state.service.find_shown(session_id).await? {
                None => return Ok(Self::WAITING),
                session => session,
            },
            None => None,
        };
        let now = state.service.now();
        let has_ended = session.is_some_and(|session| session.end.is_some());
        Ok(Self {
            activity: recorder.state.activity(now, has_ended),
            session_id,
            last_heard_at: recorder.state.last_heard_at,
            rates_hz: recorder.state.recent_rates_hz(now),
        })
    }

    /// Describes the activity in a sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.activity {
            Activity::Waiting => "Nothing received yet.".to_owned(),
            Activity::Silent => {
                let seconds = RECORDER_RECEIVING_MS / 1_000;
                format!("Nothing received in the last {seconds} s.")
            }
            Activity::Recorded => {
                "The delivery is recorded. The next position begins a new one.".to_owned()
            }
            Activity::Receiving if self.rates_hz.is_empty() => {
                "The app is connected. It has sent no readings yet.".to_owned()
            }
            Activity::Receiving => {
                let rates = self.rates_hz.iter().map(|&(kind, hz)| match kind {
                    Kind::Mark | Kind::Activity | Kind::Steps => kind_name(kind).to_owned(),
                    _ => format!("{} {hz:.1} Hz", kind_name(kind)),
                });
                let rates: Vec<_> = rates.collect();
                format!("Receiving: {}.", rates.join(", "))
            }
        }
    }
}

/// Returns the name of a kind of sample for people.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Location => "position",
        Kind::Pressure => "pressure",
        Kind::Steps => "steps",
        Kind::Imu | Kind::Motion => "motion",
        Kind::Magnetic => "magnetic field",
        Kind::Activity => "activity",
        Kind::Mark => "marks",
        Kind::System => "phone state",
    }
}

/// Returns the link of a recorder, which contains its token.
///
/// # Errors
///
/// Returns 500: this process creates no links.
pub fn link(state: &State, id: RecorderId) -> Result<String, Problem> {
    let base = state.links.as_ref().and_then(|links| links.base());
    let base = base.ok_or_else(|| Problem::internal("this process creates no links"))?;
    Ok(format!("{base}/r/{}", state.auth.recorder_token(id)))
}

/// Draws a text as a QR code, dark on white.
///
/// # Errors
///
/// Returns 500: the text is too long for a QR code.
pub fn qr_svg(text: &str) -> Result<String, Problem> {
    let code = qrcode::QrCode::new(text).map_err(Problem::internal)?;
    Ok(code
        .render::<qrcode::render::svg::Color<'_>>()
        .min_dimensions(240, 240)
        .build())
}
