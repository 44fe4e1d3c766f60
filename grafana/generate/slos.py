"""Service level objectives. Each one is the share of bad events among all events; every rule follows from this table."""

INSIGHTS = '/v1/sessions/{id}/insights'


def slower_than(metric, le, selector=""):
    """Returns the bad events and all events of a histogram. Bad: slower than `le` seconds, which must be a bucket boundary."""
    inner = f"{selector}, " if selector else ""
    return (
        (f"{metric}_count{{{selector}}}", f'{metric}_bucket{{{inner}le="{le}"}}'),
        (f"{metric}_count{{{selector}}}",),
    )


# `bad` and `all` are selectors of counters: bad events are the first minus the others. `fault` is the summary of the alert.
# `good` describes the share on the dashboard's tile, and `burned` the share that uses up the error budget.
SLOS = [
    dict(
        name="ingest",
        title="Batches are accepted",
        fault="Batches are being refused",
        objective=0.999,
        bad=('porchlight_ingest_batches_total{outcome=~"node_full|store_unavailable"}',),
        all=('porchlight_ingest_batches_total{outcome!~"invalid|conflict|closed"}',),
        good="Share of valid batches that the node accepted.",
        burned="Share of valid batches that the node refused because it was full or its store was unavailable.",
    ),
    dict(
        name="api",
        title="Requests succeed",
        fault="Requests are failing with 5xx",
        objective=0.999,
        bad=('porchlight_http_requests_total{status="5xx"}',),
        all=("porchlight_http_requests_total",),
        good="Share of requests that were not answered with 5xx.",
        burned="Share of requests that were answered with 5xx.",
    ),
    dict(
        name="ack",
        title="Batches are acknowledged within 250 ms",
        fault="Batches are acknowledged late",
        objective=0.99,
        **dict(zip(("bad", "all"), slower_than("porchlight_ingest_ack_seconds", "0.25"))),
        good="Share of batches that were acknowledged within 250 ms of their last byte.",
        burned="Share of batches whose acknowledgement took longer than 250 ms from their last byte.",
    ),
    dict(
        name="read",
        title="Insights are read within 250 ms",
        fault="Reading insights is slow",
        objective=0.99,
        **dict(zip(("bad", "all"), slower_than("porchlight_http_request_seconds", "0.25", f'route="{INSIGHTS}"'))),
        good="Share of insight reads that took at most 250 ms.",
        burned="Share of insight reads that took longer than 250 ms.",
    ),
    dict(
        name="insight",
        title="Sessions are scored",
        fault="Sessions cannot be scored",
        objective=0.999,
        bad=('porchlight_insights_total{outcome="failed"}',),
        all=("porchlight_insights_total",),
        good="Share of ended sessions that were scored.",
        burned="Share of ended sessions whose insight failed.",
    ),
    dict(
        name="webhook-first",
        title="Webhooks are attempted within a minute",
        fault="Webhooks are attempted late",
        objective=0.99,
        **dict(zip(("bad", "all"), slower_than("porchlight_webhook_first_attempt_age_seconds", "60"))),
        good="Share of webhook messages whose first attempt came within a minute of their commit.",
        burned="Share of webhook messages whose first attempt came more than a minute after their commit.",
    ),
    dict(
        name="webhook-own",
        title="Webhook attempts do not fail on our side",
        fault="Webhook attempts fail on our side",
        objective=0.999,
        bad=('porchlight_webhook_attempts_total{outcome="internal"}',),
        all=("porchlight_webhook_attempts_total",),
        good="Share of webhook attempts that did not fail with cause internal. Errors of receivers do not count.",
        burned="Share of webhook attempts that failed with cause internal. Errors of receivers do not count.",
    ),
]

WINDOWS = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"]
# Burn rates of the Site Reliability Workbook, chapter 5, for a window of 30 days: (rate, long window, short window).
FAST = [(14.4, "1h", "5m"), (6, "6h", "30m")]
SLOW = [(3, "1d", "2h"), (1, "3d", "6h")]
# The minimum number of events per second over an hour at which alerts fire: with fewer, the ratio is not meaningful.
TRAFFIC_MIN = 0.01


def rate(selectors, window):
    return " - ".join(f"sum by (job) (rate({selector}[{window}]))" for selector in selectors)


def recording_rules():
    rules = []
    for slo in SLOS:
        for window in WINDOWS:
            bad = rate(slo["bad"], window)
            if len(slo["bad"]) > 1:
                bad = f"({bad})"
            rules.append(
                dict(
                    record=f"porchlight:slo_error:ratio_rate{window}",
                    expr=f"{bad} / ({rate(slo['all'], window)} > 0)",
                    labels=dict(slo=slo["name"]),
                )
            )
        rules.append(
            dict(
                record="porchlight:slo_all:rate1h",
                expr=rate(slo["all"], "1h"),
                labels=dict(slo=slo["name"]),
            )
        )
        rules.append(
            dict(
                record="porchlight:slo_budget:ratio",
                expr=f"vector({round(1 - slo['objective'], 6)})",
                labels=dict(slo=slo["name"]),
            )
        )
    return rules


def burn_expr(slo, pairs):
    name, budget = slo["name"], round(1 - slo["objective"], 6)

    def above(window, factor):
        return f'porchlight:slo_error:ratio_rate{window}{{slo="{name}"}} > {round(factor * budget, 6)}'

    both = [f"({above(long, factor)} and {above(short, factor)})" for factor, long, short in pairs]
    return f'({" or ".join(both)}) and porchlight:slo_all:rate1h{{slo="{name}"}} > {TRAFFIC_MIN}'


def camel(name):
    return "".join(part.capitalize() for part in name.split("-"))


def series(selector, extra=""):
    """Returns one series that matches a selector; a regular expression is replaced by its first alternative."""
    metric, _, labels = selector.partition("{")
    found = ['job="porchlight"', 'instance="a"']
    for label in filter(None, labels.rstrip("}").split(", ")):
        key, value = label.split("=", 1)
        if key.endswith("!"):
            key, value = key[:-1], '~"new"'
        found.append(f'{key}="{value.strip(chr(126) + chr(34)).split("|")[0]}"')
    return f"{metric}{{{', '.join(found)}{extra}}}"


def input_series(slo, share_bad):
    """Returns the input of a rule test: a hundred events per interval, of which `share_bad` are bad."""
    minutes, bad_rate = 200, round(100 * share_bad, 4)
    good_rate = round(100 - bad_rate, 4)
    if len(slo["bad"]) > 1:
        # A histogram: all events, and the events below the boundary.
        return [
            (series(slo["bad"][0]), f"0+100x{minutes}"),
            (series(slo["bad"][1]), f"0+{good_rate}x{minutes}"),
        ]
    good = {"outcome": 'outcome="new"', "status": 'status="2xx"'}
    bad = series(slo["bad"][0])
    label = "status" if "status=" in bad else "outcome"
    start = bad.index(f"{label}=")
    end = bad.index('"', start + len(label) + 2) + 1
    return [
        (bad, f"0+{bad_rate}x{minutes}"),
        (bad[:start] + good[label] + bad[end:], f"0+{good_rate}x{minutes}"),
    ]


def alerts():
    found = []
    for slo in SLOS:
        for kind, pairs, severity, wait, interval, at in [
            ("Fast", FAST, "page", "2m", "1m", "70m"),
            ("Slow", SLOW, "ticket", "15m", "30m", "26h"),
        ]:
            factor = pairs[-1][0]
            budget = 1 - slo["objective"]
            labels = dict(job="porchlight", slo=slo["name"])
            found.append(
                dict(
                    name=f"Porchlight{camel(slo['name'])}BudgetBurn{kind}",
                    expr=burn_expr(slo, pairs),
                    wait=wait,
                    severity=severity,
                    summary=f"{slo['fault']}: the error budget is burning {'fast' if kind == 'Fast' else 'slowly'}.",
                    description=slo["burned"],
                    runbook=f"budget-{slo['name']}",
                    dashboard="porchlight-overview",
                    interval=interval,
                    at=at,
                    fires=[(input_series(slo, min(1.0, 1.5 * factor * budget)), [labels])],
                    quiet=[input_series(slo, 0.5 * factor * budget), input_series(slo, 0)],
                )
            )
    return found
