//! Metrics of HTTP, by route.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// A route of the public API. All unmatched paths share one value, so that callers cannot
    /// create series.
    Route {
        /// `POST /v1/sessions/start`
        SessionStart = "/v1/sessions/start",
        /// `POST /v1/sessions/stop`
        SessionStop = "/v1/sessions/stop",
        /// `POST /v1/sessions/{id}/telemetry`
        SessionTelemetry = "/v1/sessions/{id}/telemetry",
        /// `POST /v1/telemetry`
        Telemetry = "/v1/telemetry",
        /// `POST /v1/sessions/{id}/pod`
        SessionPod = "/v1/sessions/{id}/pod",
        /// `GET /v1/sessions/{id}`
        Session = "/v1/sessions/{id}",
        /// `GET /v1/sessions`
        Sessions = "/v1/sessions",
        /// `GET /v1/sessions/{id}/acknowledged`
        SessionAcknowledged = "/v1/sessions/{id}/acknowledged",
        /// `GET /v1/sessions/{id}/insights`
        SessionInsights = "/v1/sessions/{id}/insights",
        /// `GET /v1/sessions/{id}/evidence`
        SessionEvidence = "/v1/sessions/{id}/evidence",
        /// `GET /v1/sessions/{id}/events`
        SessionEvents = "/v1/sessions/{id}/events",
        /// `GET /v1/sessions/{id}/explanation`
        SessionExplanation = "/v1/sessions/{id}/explanation",
        /// `PUT /v1/sessions/{id}/review`
        SessionReview = "/v1/sessions/{id}/review",
        /// Every method of `/v1/sessions/{id}/hold`
        SessionHold = "/v1/sessions/{id}/hold",
        /// Every method of `/v1/retention`
        Retention = "/v1/retention",
        /// `GET /v1/audit`
        Audit = "/v1/audit",
        /// The path image in both formats.
        PathImage = "/v1/sessions/{id}/path.png",
        /// `POST /v1/recorders`
        Recorders = "/v1/recorders",
        /// Every method of `/v1/recorders/{id}`
        Recorder = "/v1/recorders/{id}",
        /// The page behind a recorder's link.
        RecorderPage = "/r/{token}",
        /// The state of a recorder, for its page.
        RecorderStatus = "/r/{token}/status",
        /// A push of Sensor Logger.
        PushSensorLogger = "/r/{token}/sensor-logger",
        /// A push of Traccar Client.
        PushTraccar = "/r/{token}/traccar",
        /// A push of OwnTracks.
        PushOwntracks = "/r/{token}/owntracks",
        /// A push of Overland.
        PushOverland = "/r/{token}/overland",
        /// A push of GPSLogger.
        PushGpslogger = "/r/{token}/gpslogger",
        /// The style sheet and the script of the page behind a recorder's link.
        PhoneAsset = "/phone/{name}",
        /// Every method of `/v1/privacy/requests`
        PrivacyRequests = "/v1/privacy/requests",
        /// Every method of `/v1/privacy/requests/{requestId}`
        PrivacyRequest = "/v1/privacy/requests/{requestId}",
        /// `GET /v1/privacy/requests/{requestId}/archive`
        PrivacyArchive = "/v1/privacy/requests/{requestId}/archive",
        /// Every method of `/v1/webhooks`
        Webhooks = "/v1/webhooks",
        /// `POST /v1/webhooks/rotate`
        WebhookRotate = "/v1/webhooks/rotate",
        /// `DELETE /v1/webhooks/previous-secret`
        WebhookPreviousSecret = "/v1/webhooks/previous-secret",
        /// `POST /v1/webhooks/test`
        WebhookTest = "/v1/webhooks/test",
        /// `GET /v1/webhooks/deliveries`
        WebhookDeliveries = "/v1/webhooks/deliveries",
        /// `GET /v1/webhooks/deliveries/{id}`
        WebhookDelivery = "/v1/webhooks/deliveries/{id}",
        /// `POST /v1/webhooks/deliveries/{id}/retry`
        WebhookDeliveryRetry = "/v1/webhooks/deliveries/{id}/retry",
        /// `POST /v1/webhooks/deliveries/retry`
        WebhookDeliveriesRetry = "/v1/webhooks/deliveries/retry",
        /// `GET /openapi.json`
        OpenApi = "/openapi.json",
        /// `GET /porchlight.proto`
        Schema = "/porchlight.proto",
        /// `GET /docs`
        Docs = "/docs",
        /// A console route.
        Console = "/console",
        /// A path that matches no route.
        Unknown = "unknown",
    }
}

label! {
    /// A request's method.
    Method {
        /// The method GET.
        Get = "GET",
        /// The method POST.
        Post = "POST",
        /// The method PUT.
        Put = "PUT",
        /// The method DELETE.
        Delete = "DELETE",
        /// Any other method.
        Other = "other",
    }
}

label! {
    /// The class of a status code.
    StatusClass {
        /// The status class 1xx.
        Informational = "1xx",
        /// The status class 2xx.
        Success = "2xx",
        /// The status class 3xx.
        Redirection = "3xx",
        /// The status class 4xx.
        ClientError = "4xx",
        /// The status class 5xx.
        ServerError = "5xx",
    }
}

impl StatusClass {
    /// Returns the class of a status code.
    #[must_use]
    pub fn of(status: u16) -> Self {
        match status {
            0..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

/// The metric handles of the public listener.
#[derive(Debug)]
pub struct HttpMetrics {
    requests: Vec<Counter>,
    seconds: Vec<Histogram>,
    /// Requests in flight.
    pub in_flight: Gauge,
}

impl HttpMetrics {
    /// Returns the handles, created at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<HttpMetrics> = LazyLock::new(HttpMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let mut requests = Vec::new();
        for route in Route::ALL {
            for method in Method::ALL {
                for status in StatusClass::ALL {
                    let (route, method, status) =
                        (route.as_str(), method.as_str(), status.as_str());
                    requests.push(metrics::counter!(
                        name::HTTP_REQUESTS_TOTAL, "route" => route, "method" => method, "status" => status
                    ));
                }
            }
        }
        let seconds = |route: &Route| metrics::histogram!(name::HTTP_REQUEST_SECONDS, "route" => route.as_str());
        Self {
            requests,
            seconds: Route::ALL.iter().map(seconds).collect(),
            in_flight: metrics::gauge!(name::HTTP_IN_FLIGHT_REQUESTS),
        }
    }

    /// Records a request that was answered after `seconds`.
    pub fn on_answered(&self, route: Route, method: Method, status: u16, seconds: f64) {
        let status = StatusClass::of(status) as usize;
        let place = (route as usize * Method::ALL.len() + method as usize) * StatusClass::ALL.len()
            + status;
        self.requests[place].increment(1);
        self.seconds[route as usize].record(seconds);
    }
}
