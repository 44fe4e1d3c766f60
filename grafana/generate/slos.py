"""What is promised, in numbers: each objective is a share of bad over all, and all rules follow from this table."""

TELEMETRY = '/v1/sessions/{id}/telemetry'
INSIGHTS = '/v1/sessions/{id}/insights'


def slower_than(metric, le, selector=""):
    """Bad and all of a histogram: what took longer than `le` seconds, a bound of its buckets."""
    inner = f"{selector}, " if selector else ""
    return (
        (f"{metric}_count{{{selector}}}", f'{metric}_bucket{{{inner}le="{le}"}}'),
        (f"{metric}_count{{{selector}}}",),
    )


# name, title, objective, (bad, minus), (all,), what it says, the runbook's heading
SLOS = [
    dict(
        name="ingest",
        title="Batches are accepted",
        objective=0.999,
        bad=('porchlight_ingest_batches_total{outcome=~"node_full|store_unavailable"}',),
        all=('porchlight_ingest_batches_total{outcome!~"invalid|conflict|closed"}',),
        says="Batches that were refused for want of room or of the store, over all that a phone was right to send.",
    ),
    dict(
        name="api",
        title="Requests are answered without a fault of ours",
        objective=0.999,
        bad=('porchlight_http_requests_total{status="5xx"}',),
        all=("porchlight_http_requests_total",),
        says="Requests answered with 5xx, over all.",
    ),
    dict(
        name="ack",
        title="Batches are acknowledged within 250 ms",
        objective=0.99,
        **dict(zip(("bad", "all"), slower_than("porchlight_http_request_seconds", "0.25", f'route="{TELEMETRY}"'))),
        says="Batches whose answer took longer than 250 ms, over all.",
    ),
    dict(
        name="read",
        title="Insights are read within 250 ms",
        objective=0.99,
        **dict(zip(("bad", "all"), slower_than("porchlight_http_request_seconds", "0.25", f'route="{INSIGHTS}"'))),
        says="Reads of insights that took longer than 250 ms, over all.",
    ),
    dict(
        name="insight",
        title="Sessions are scored",
        objective=0.999,
        bad=('porchlight_insights_total{outcome="failed"}',),
        all=("porchlight_insights_total",),
        says="Sessions that could not be scored, over all that were.",
    ),
    dict(
        name="webhook-first",
        title="Webhooks are tried within a minute",
        objective=0.99,
        **dict(zip(("bad", "all"), slower_than("porchlight_webhook_first_attempt_age_seconds", "60"))),
        says="Messages whose first try came later than a minute after their commit, over all.",
    ),
    dict(
        name="webhook-own",
        title="Webhooks do not fail by a fault of ours",
        objective=0.999,
        bad=('porchlight_webhook_attempts_total{outcome="internal"}',),
        all=("porchlight_webhook_attempts_total",),
        says="Tries that failed on our side, over all. What receivers do wrong does not count.",
    ),
]

WINDOWS = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"]
# Burn rates of the Site Reliability Workbook, chapter 5, for a window of 30 days: (rate, long window, short window).
FAST = [(14.4, "1h", "5m"), (6, "6h", "30m")]
SLOW = [(3, "1d", "2h"), (1, "3d", "6h")]
# Below this many events a second over an hour a ratio says nothing.
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


def burns(slo, pairs):
    name, budget = slo["name"], round(1 - slo["objective"], 6)

    def above(window, factor):
        return f'porchlight:slo_error:ratio_rate{window}{{slo="{name}"}} > {round(factor * budget, 6)}'

    both = [f"({above(long, factor)} and {above(short, factor)})" for factor, long, short in pairs]
    return f'({" or ".join(both)}) and porchlight:slo_all:rate1h{{slo="{name}"}} > {TRAFFIC_MIN}'


def camel(name):
    return "".join(part.capitalize() for part in name.split("-"))


def series(selector, extra=""):
    """One series that a selector finds: regular expressions become their first word."""
    metric, _, labels = selector.partition("{")
    found = ['job="porchlight"', 'instance="a"']
    for label in filter(None, labels.rstrip("}").split(", ")):
        key, value = label.split("=", 1)
        if key.endswith("!"):
            key, value = key[:-1], '~"new"'
        found.append(f'{key}="{value.strip(chr(126) + chr(34)).split("|")[0]}"')
    return f"{metric}{{{', '.join(found)}{extra}}}"


def input_series(slo, share_bad):
    """A hundred events in each interval of the test, of which this share is bad, longer than the test looks."""
    minutes, bad_rate = 200, round(100 * share_bad, 4)
    good_rate = round(100 - bad_rate, 4)
    if len(slo["bad"]) > 1:
        # A histogram: all, and those below the bound.
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
                    name=f"PorchlightBudget{camel(slo['name'])}{kind}",
                    expr=burns(slo, pairs),
                    wait=wait,
                    severity=severity,
                    summary=f"{slo['title']}: the error budget burns {'fast' if kind == 'Fast' else 'slowly but surely'}.",
                    description=slo["says"],
                    runbook=f"budget-{slo['name']}",
                    dashboard="porchlight-overview",
                    interval=interval,
                    at=at,
                    fires=[(input_series(slo, min(1.0, 1.5 * factor * budget)), [labels])],
                    quiet=[input_series(slo, 0.5 * factor * budget), input_series(slo, 0)],
                )
            )
    return found
