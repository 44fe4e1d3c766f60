"""Runs a session and a webhook through the generated Python client, and prints the insight that it read."""

import json
import os
import time

from porchlight_client import AuthenticatedClient
from porchlight_client.api.insights import get_insight
from porchlight_client.api.sessions import start_session, stop_session
from porchlight_client.api.telemetry import send_telemetry
from porchlight_client.api.webhooks import (
    create_webhook,
    delete_webhook,
    get_delivery,
    get_webhook,
    list_deliveries,
    rotate_webhook_secret,
    send_test_event,
    update_webhook,
)
from porchlight_client.models import (
    AddressInput,
    CreatedWebhook,
    CreateWebhookRequest,
    Insight,
    InsightStatus,
    LocationSample,
    PressureSample,
    RotatedWebhook,
    RotateSecretRequest,
    SendTestEventResult,
    Session,
    StartedSession,
    StartSessionRequest,
    StopSessionRequest,
    TelemetryAcknowledgement,
    TelemetryBatch,
    UpdateWebhookRequest,
    WebhookConfiguration,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
    WebhookNotFoundProblem,
)

client = AuthenticatedClient(base_url=os.environ["PORCHLIGHT_URL"], token=os.environ["PORCHLIGHT_KEY"])


def of(kind, value):
    """Returns the value and checks that it is of this model."""
    assert isinstance(value, kind), value
    return value


def until(read):
    """Returns the first result of `read` that is not None, within half a minute."""
    for _ in range(300):
        if (value := read()) is not None:
            return value
        time.sleep(0.1)
    raise TimeoutError(read.__name__)


def record(name):
    """Starts a session, sends a batch, stops it; returns its ID."""
    address = AddressInput(line1="Lindenweg 7", city="Berlin", country="DE", lat=52.52, lng=13.405)
    start = StartSessionRequest(delivery_id=name, external_rider_id="rider-1", address=address)
    session = of(StartedSession, start_session.sync(client=client, body=start, idempotency_key=name))
    fixes = [LocationSample(t=float(t), kind="location", lat=52.52, lng=13.405, accuracy_m=5.0) for t in range(10)]
    batch = TelemetryBatch(seq=0, samples=[*fixes, PressureSample(t=9.5, kind="pressure", h_pa=1008.4)])
    ack = of(TelemetryAcknowledgement, send_telemetry.sync(session.session_id, client=client, body=batch))
    assert ack.ack_seq == 0, ack
    stopped = stop_session.sync(client=client, body=StopSessionRequest(session_id=session.session_id))
    assert of(Session, stopped).status == "completed", stopped
    return session.session_id


def scored(session_id):
    insight = of(Insight, get_insight.sync(session_id, client=client))
    return None if insight.status == InsightStatus.PROCESSING else insight


def delivered(session_id):
    page = of(WebhookDeliveryPage, list_deliveries.sync(client=client, session_id=session_id))
    done = [row for row in page.data if row.status == "delivered"]
    return done if len(done) == 3 else None


first = record("python-1")
insight = until(lambda: scored(first))
url = os.environ["RECEIVER_URL"]
created = of(CreatedWebhook, create_webhook.sync(client=client, body=CreateWebhookRequest(url=url)))
assert of(WebhookConfiguration, get_webhook.sync(client=client)).id == created.id
updated = update_webhook.sync(client=client, body=UpdateWebhookRequest(enabled=True))
assert of(WebhookConfiguration, updated).enabled
rotated = of(RotatedWebhook, rotate_webhook_secret.sync(client=client, body=RotateSecretRequest(overlap_sec=60)))
assert rotated.secret != created.secret
tested = of(SendTestEventResult, send_test_event.sync(client=client))
assert tested.status_code == 200, tested
second = record("python-2")
rows = until(lambda: delivered(second))
detail = of(WebhookDeliveryDetail, get_delivery.sync(rows[0].id, client=client))
assert detail.attempt_log[0].status_code == 200, detail
assert delete_webhook.sync_detailed(client=client).status_code == 204
of(WebhookNotFoundProblem, get_webhook.sync(client=client))
print(json.dumps(insight.to_dict()))
