"""Extends the document for schemathesis: formats, media types, and the few rules that JSON Schema cannot express."""

import datetime
import json
import uuid

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

NOW = datetime.datetime.now(datetime.timezone.utc)


def moment(seconds):
    return (NOW + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


# `startedAt` lies within the last day: the document states this rule only in prose.
schemathesis.openapi.format("date-time", st.integers(min_value=-3_000, max_value=60).map(moment))

# A webhook's host must resolve: this one does, and no process listens there.
paths = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789-._~", max_size=40)
schemathesis.openapi.format("uri", paths.map(lambda path: "https://127.0.0.1:9/" + path))


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()


@schemathesis.serializer("application/x-protobuf")
def protobuf(ctx, value):
    # The document describes the body only as bytes. This is a batch without samples: field 1 is `seq`.
    return b"\x08" + bytes([hash(str(value)) % 128])


KINDS = {"location", "pressure", "steps", "imu", "motion", "magnetic", "activity", "mark", "system"}


@schemathesis.hook
def filter_case(ctx, case):
    """Leaves out samples of an unknown kind: the document states in prose that the service skips and does not refuse them."""
    samples = case.body.get("samples") if isinstance(case.body, dict) else None
    samples = samples if isinstance(samples, list) else []
    kinds = [sample.get("kind") for sample in samples if isinstance(sample, dict)]
    return all(kind in KINDS for kind in kinds if isinstance(kind, str))


# The bounds of the default configuration, days. The operator sets them, so the document states them only in prose.
RETENTION_DAYS_MIN = {"telemetryDays": 1, "messagesDays": 9, "insightDays": 9}
RETENTION_DAYS_MAX = 90
AUDIT_DAYS_MIN, AUDIT_DAYS_MAX = 180, 400


def keep_within_bounds(body):
    """Moves a chosen retention into the operator's bounds; no part of a session outlives its insight."""
    longest = RETENTION_DAYS_MAX
    for name, shortest in reversed(RETENTION_DAYS_MIN.items()):
        if isinstance(body.get(name), int):
            body[name] = min(max(body[name], shortest), longest)
            if name == "insightDays":
                longest = body[name]
    if isinstance(body.get("auditDays"), int):
        body["auditDays"] = min(max(body["auditDays"], AUDIT_DAYS_MIN), AUDIT_DAYS_MAX)


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Makes a request that is valid by its schema also valid by the prose rules of the document."""
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if case.query:
        # A valid cursor comes from an earlier list.
        case.query.pop("cursor", None)
    if case.headers and "Idempotency-Key" in case.headers:
        # The service refuses a key that it has seen with another body.
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    if isinstance(case.body, str) and case.body.startswith("{"):
        # The body of a link is an expression in a string: use the JSON inside the string.
        case.body = json.loads(case.body)
    body = case.body
    if not isinstance(body, dict):
        return
    if body.get("startedAt") and "deliveryId" in body:
        # Within the last day; the format alone allows any time.
        body["startedAt"] = moment(-600)
    if body.get("endedAt") and "sessionId" in body:
        # Not before the start, and at most five minutes ahead.
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=240)
        body["endedAt"] = later.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    if "requestId" in body and isinstance(body.get("subject"), dict):
        # The service refuses an ID that it has seen with another body.
        body["requestId"] = uuid.uuid4().hex
        if body.get("type") not in ("erasure", "restriction") or "externalRiderId" not in body["subject"]:
            # Only the erasure or restriction of a courier can suppress.
            body.pop("suppress", None)
    if body.keys() & RETENTION_DAYS_MIN.keys():
        keep_within_bounds(body)
    samples = body.get("samples")
    # In a sequence of requests, a valid request may still contain an invalid sample.
    for sample in samples if isinstance(samples, list) else []:
        axes = ["ax", "ay", "az"]
        turns = ["gx", "gy", "gz"]
        if not isinstance(sample, dict) or not all(isinstance(sample.get(name), list) for name in axes):
            continue
        if sample.get("kind") == "imu" and isinstance(sample.get("hz"), (int, float)):
            # All arrays have equal lengths of at most ten seconds; turn rates are present for all axes or for none.
            if all(isinstance(sample.get(name), list) and sample[name] for name in turns):
                axes += turns
            else:
                for name in turns:
                    sample.pop(name, None)
            length = min(min(len(sample[name]) for name in axes), int(sample["hz"] * 10))
            for name in axes:
                sample[name] = sample[name][:length]
