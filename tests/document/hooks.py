"""What schemathesis has to be told beside the document: formats, media types, and the few rules that JSON Schema can't say."""

import datetime
import json
import uuid

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

NOW = datetime.datetime.now(datetime.timezone.utc)


def moment(seconds):
    return (NOW + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


# `startedAt` lies within the last day: the document says so in words.
schemathesis.openapi.format("date-time", st.integers(min_value=-3_000, max_value=60).map(moment))

# A webhook's host must be found: this one is, and nobody listens there.
paths = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789-._~", max_size=40)
schemathesis.openapi.format("uri", paths.map(lambda path: "https://127.0.0.1:9/" + path))


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()


@schemathesis.serializer("application/x-protobuf")
def protobuf(ctx, value):
    # The document says only that it is bytes. A batch without samples: field 1 is `seq`.
    return b"\x08" + bytes([hash(str(value)) % 128])


KINDS = {"location", "pressure", "steps", "imu", "motion", "magnetic", "activity", "mark", "system"}


@schemathesis.hook
def filter_case(ctx, case):
    """Leaves out samples of an unknown kind: the document says in words that they are skipped and not refused."""
    samples = case.body.get("samples") if isinstance(case.body, dict) else None
    samples = samples if isinstance(samples, list) else []
    kinds = [sample.get("kind") for sample in samples if isinstance(sample, dict)]
    return all(kind in KINDS for kind in kinds if isinstance(kind, str))


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Makes a request that is good by its schema good by what the document says in words."""
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if case.query:
        # Only what a list has given is a cursor.
        case.query.pop("cursor", None)
    if case.headers and "Idempotency-Key" in case.headers:
        # One that came before, with another body, is refused.
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    if isinstance(case.body, str) and case.body.startswith("{"):
        # The body of a link is an expression in a text, which stands for the JSON that it holds.
        case.body = json.loads(case.body)
    body = case.body
    if not isinstance(body, dict):
        return
    if body.get("startedAt") and "deliveryId" in body:
        # Within the last day, whatever else is a time.
        body["startedAt"] = moment(-600)
    if body.get("endedAt") and "sessionId" in body:
        # Not before the start, and at most five minutes ahead.
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=240)
        body["endedAt"] = later.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    samples = body.get("samples")
    # In a course of requests one that is meant to be good may still have a part that is not.
    for sample in samples if isinstance(samples, list) else []:
        axes = ["ax", "ay", "az"]
        turns = ["gx", "gy", "gz"]
        if not isinstance(sample, dict) or not all(isinstance(sample.get(name), list) for name in axes):
            continue
        if sample.get("kind") == "imu" and isinstance(sample.get("hz"), (int, float)):
            # All arrays are of one length, at most ten seconds long; turn rates come together.
            if all(isinstance(sample.get(name), list) and sample[name] for name in turns):
                axes += turns
            else:
                for name in turns:
                    sample.pop(name, None)
            length = min(min(len(sample[name]) for name in axes), int(sample["hz"] * 10))
            for name in axes:
                sample[name] = sample[name][:length]
