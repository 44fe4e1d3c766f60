"""The dashboards. `$$` stands for the matchers of the variables; every panel has a unit and says what it shows."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
MATCHERS = 'job=~"$job", instance=~"$instance"'
RATE = "$__rate_interval"


def expand(expr):
    return expr.replace("$$", MATCHERS)


def rate(metric, by, selector=""):
    inner = f"$$, {selector}" if selector else "$$"
    return f"sum by ({by}) (rate({metric}{{{inner}}}[{RATE}]))"


def quantile(q, metric, by="", selector=""):
    labels = f"{by}, le" if by else "le"
    inner = f"$$, {selector}" if selector else "$$"
    return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket{{{inner}}}[{RATE}])))"


def quantiles(metric, by="", selector=""):
    legend = f"{{{{{by}}}}} " if by else ""
    return [(quantile(q, metric, by, selector), f"{legend}p{round(q * 100)}") for q in (0.5, 0.99)]


def panel(title, says, unit, targets, kind="timeseries", width=8, height=7, stack=False, decimals=None, most=None):
    defaults = {"unit": unit, "noValue": "none"}
    if decimals is not None:
        defaults["decimals"] = decimals
    if most is not None:
        defaults["max"] = most
    if kind == "timeseries":
        defaults["min"] = 0
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 20 if stack else 0,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if stack else "none", "group": "A"},
        }
        options = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    else:
        options = {
            "colorMode": "value",
            "graphMode": "area",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "auto",
        }
    return {
        "title": title,
        "description": says,
        "type": kind,
        "datasource": SOURCE,
        "width": width,
        "height": height,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": expand(expr),
                "legendFormat": legend,
                "range": True,
                "instant": False,
            }
            for place, (expr, legend) in enumerate(targets)
        ],
    }


def stat(title, says, unit, expr, legend="", **more):
    return panel(title, says, unit, [(expr, legend)], kind="stat", width=4, height=4, **more)


def variable(name, query, label, multi=True):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": multi,
        "includeAll": multi,
        "allValue": ".*" if multi else None,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]} if multi else {},
        "options": [],
    }


def board(uid, title, says, rows, variables=()):
    panels, y, number = [], 0, 1
    for heading, found in rows:
        panels.append({"id": number, "type": "row", "title": heading, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        number, y, x, tall = number + 1, y + 1, 0, 0
        for made in found:
            made = dict(made)
            width, height = made.pop("width"), made.pop("height")
            if x + width > 24:
                x, y, tall = 0, y + tall, 0
            made["id"], made["gridPos"] = number, {"x": x, "y": y, "w": width, "h": height}
            panels.append(made)
            number, x, tall = number + 1, x + width, max(tall, height)
        y += tall
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
                  "refresh": 1, "current": {}, "options": [], "multi": False, "includeAll": False}
    return {
        "uid": uid,
        "title": title,
        "description": says,
        "tags": ["porchlight"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [
            datasource,
            variable("job", "label_values(porchlight_build_info, job)", "Job"),
            variable("instance", 'label_values(porchlight_build_info{job=~"$job"}, instance)', "Instance"),
            *variables,
        ]},
        "annotations": {"list": []},
        "links": [{"type": "dashboards", "title": "Porchlight", "tags": ["porchlight"], "asDropdown": True,
                   "keepTime": True, "includeVars": True, "targetBlank": False, "icon": "external link", "url": "",
                   "tooltip": ""}],
        "panels": panels,
    }


def overview(slos):
    promises = [
        panel(
            "Burn rate over an hour",
            "How fast each objective's error budget is used up: 1 uses it up in exactly 30 days, 14.4 in two. A page is sent at 14.4 over an hour, and at 6 over six hours.",
            "none",
            [('porchlight:slo_error:ratio_rate1h{job=~"$job"} / on (slo) group_left () porchlight:slo_budget:ratio', "{{slo}}")],
            width=12,
        ),
        panel(
            "Budget used over three days",
            "The share of 30 days' error budget that the last three days used up.",
            "percentunit",
            [('porchlight:slo_error:ratio_rate3d{job=~"$job"} / on (slo) group_left () porchlight:slo_budget:ratio * 0.1', "{{slo}}")],
            width=12,
        ),
    ]
    for slo in slos:
        promises.append(stat(
            slo["title"],
            f"{slo['says']} Objective: {slo['objective']:.1%} good. Shown: the good share of the last hour.",
            "percentunit",
            f'1 - porchlight:slo_error:ratio_rate1h{{job=~"$job", slo="{slo["name"]}"}}',
            decimals=2,
            most=1,
        ))
    return board("porchlight-overview", "Porchlight: overview", "What is promised, and how it goes.", [
        ("Objectives", promises),
        ("How it goes (rate, errors, duration)", [
            panel("Requests", "Requests answered, by class of status.", "reqps",
                  [(rate("porchlight_http_requests_total", "status"), "{{status}}")], stack=True),
            panel("Time to the answer", "From a request's head to its answer, over all routes.", "s",
                  quantiles("porchlight_http_request_seconds")),
            panel("Refusals", "Requests refused, by the code of the problem.", "reqps",
                  [(rate("porchlight_http_problems_total", "code") + " > 0", "{{code}}")]),
            panel("Batches", "Batches of telemetry, by outcome.", "ops",
                  [(rate("porchlight_ingest_batches_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Sessions that record", "Sessions that record, on each node.", "short",
                  [("sum by (instance) (porchlight_sessions_live{$$})", "{{instance}}")]),
            panel("Webhooks", "Tries, by outcome: delivered, or the cause.", "ops",
                  [(rate("porchlight_webhook_attempts_total", "outcome"), "{{outcome}}")], stack=True),
        ]),
        ("Which nodes run", [
            stat("Nodes", "Nodes that answer their scrapes.", "short", 'sum(up{$$})'),
            panel("Versions", "Nodes by the version that they run.", "short",
                  [("sum by (version) (porchlight_build_info{$$})", "{{version}}")], width=8, height=4),
            panel("Alerts", "Alerts of Porchlight that fire or are about to, by name.", "short",
                  [('sum by (alertname, alertstate) (ALERTS{alertname=~"Porchlight.*"})', "{{alertname}} {{alertstate}}")],
                  width=12, height=4),
        ]),
    ])


def actors():
    kind = 'actor=~"$actor"'
    return board("porchlight-actors", "Porchlight: actors",
                 "The actors by kind: how many, how busy, how long messages wait, and what goes wrong.", [
        ("How full (utilisation, saturation, errors)", [
            panel("Alive", "Actors that live, by kind.", "short",
                  [(f"sum by (actor) (porchlight_actor_live{{$$, {kind}}})", "{{actor}}")]),
            panel("Messages that wait", "In all mailboxes of a kind together.", "short",
                  [(f"sum by (actor) (porchlight_actor_mailbox_messages{{$$, {kind}}})", "{{actor}}")]),
            panel("Time in the mailbox", "How long messages wait for their actor: the first sign of too much work.", "s",
                  quantiles("porchlight_actor_mailbox_wait_seconds", "actor", kind)),
            panel("Not accepted", "Messages that found no room; what they said is read from the store later.", "ops",
                  [(rate("porchlight_actor_rejected_total", "actor", kind), "{{actor}}")]),
            panel("Rebuilt after a panic", "Actors that were built anew from the store.", "ops",
                  [(rate("porchlight_actor_restarts_total", "actor", kind), "{{actor}}")]),
            panel("Busy", "Seconds of handling in each second: 1 is one thread's whole time.", "short",
                  [(rate("porchlight_actor_handle_seconds_sum", "actor", kind), "{{actor}}")]),
        ]),
        ("Messages (rate, errors, duration)", [
            panel("Handled", "Messages by kind of actor and message.", "ops",
                  [(rate("porchlight_actor_messages_total", "actor, message", kind) + " > 0", "{{actor}} {{message}}")]),
            panel("Not handled well", "Messages that ended with an error or a panic.", "ops",
                  [(rate("porchlight_actor_messages_total", "actor, message, outcome", f'{kind}, outcome!="ok"'),
                    "{{actor}} {{message}} {{outcome}}")]),
            panel("Time to handle", "99th percentile, by kind of actor and message.", "s",
                  [(quantile(0.99, "porchlight_actor_handle_seconds", "actor, message", kind), "{{actor}} {{message}}")]),
        ]),
        ("Coming and going", [
            panel("Started", "Actors started each second.", "ops",
                  [(rate("porchlight_actor_started_total", "actor", kind), "{{actor}}")], width=12),
            panel("Stopped", "Actors stopped each second, by reason.", "ops",
                  [(rate("porchlight_actor_stopped_total", "actor, reason", kind) + " > 0", "{{actor}} {{reason}}")],
                  width=12),
        ]),
    ], [variable("actor", 'label_values(porchlight_actor_live{job=~"$job"}, actor)', "Actor")])


def ingest():
    return board("porchlight-ingest", "Porchlight: ingest and sessions",
                 "From a phone's batch to the session's insight.", [
        ("Batches", [
            panel("Batches", "Batches of telemetry, by outcome.", "ops",
                  [(rate("porchlight_ingest_batches_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Samples", "Samples that were taken, and those of unknown kinds, which were skipped.", "ops",
                  [(rate("porchlight_ingest_samples_total", "job"), "taken"),
                   (rate("porchlight_ingest_samples_unknown_total", "job"), "unknown")]),
            panel("Bytes journaled", "Bytes of packed batches.", "Bps",
                  [(rate("porchlight_ingest_packed_bytes_total", "instance"), "{{instance}}")]),
            panel("Time to the acknowledgement", "From a batch's head to its answer, sync included.", "s",
                  quantiles("porchlight_http_request_seconds", "", 'route="/v1/sessions/{id}/telemetry"')),
            panel("In flight", "Bytes of bodies that are admitted and not acknowledged; beyond 256 MiB a node refuses.", "bytes",
                  [("sum by (instance) (porchlight_ingest_in_flight_bytes{$$})", "{{instance}}")]),
            panel("Requests in flight", "Requests that are being answered, and how many batches may be under way before others are refused.", "short",
                  [("sum by (instance) (porchlight_http_in_flight_requests{$$})", "{{instance}}"),
                   ("sum by (instance) (porchlight_ingest_limit_batches{$$})", "{{instance}}, limit of batches")]),
        ]),
        ("Shares of organizations", [
            panel("Refused by a share", "Requests refused with 429 because an organization has used up its share of the node.", "reqps",
                  [(rate("porchlight_share_refused_total", "share"), "{{share}}")]),
            panel("Largest use", "The use by the organization that uses most of a share.", "short",
                  [("max by (share) (porchlight_share_largest_use{$$})", "{{share}}")]),
            panel("Limits", "The limit of each share; 0 means no limit.", "short",
                  [("max by (share) (porchlight_share_limit{$$})", "{{share}}")]),
        ]),
        ("Requests by route", [
            panel("Requests", "Requests answered, by route and method.", "reqps",
                  [(rate("porchlight_http_requests_total", "route, method") + " > 0", "{{method}} {{route}}")], width=12),
            panel("Time to the answer", "99th percentile, by route.", "s",
                  [(quantile(0.99, "porchlight_http_request_seconds", "route"), "{{route}}")], width=12),
            panel("Refusals", "Requests refused, by the code of the problem.", "reqps",
                  [(rate("porchlight_http_problems_total", "code") + " > 0", "{{code}}")], width=24),
        ]),
        ("Connections that stay", [
            panel("Open", "Event streams, WebSockets, and NDJSON requests while their lines are answered.", "short",
                  [("sum by (stream) (porchlight_streams_open{$$})", "{{stream}}")]),
            panel("Messages", "Batches that came, taken or refused, and messages of event streams that went.", "ops",
                  [(rate("porchlight_stream_messages_total", "stream, outcome"), "{{stream}} {{outcome}}")]),
            panel("Ended", "By reason; full: not opened, for as many were open as may be.", "ops",
                  [(rate("porchlight_streams_ended_total", "stream, reason"), "{{stream}} {{reason}}")]),
        ]),
        ("Sessions", [
            panel("Recording", "Sessions that record, on each node.", "short",
                  [("sum by (instance) (porchlight_sessions_live{$$})", "{{instance}}")]),
            panel("Started", "Sessions started each second.", "ops",
                  [(rate("porchlight_sessions_started_total", "instance"), "{{instance}}")]),
            panel("Ended", "By reason: stopped, silent for too long, too old.", "ops",
                  [(rate("porchlight_sessions_ended_total", "reason"), "{{reason}}")], stack=True),
            panel("Insights", "Insights committed, by outcome.", "ops",
                  [(rate("porchlight_insights_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Waiting to be scored", "Sessions that have ended and have no insight yet.", "short",
                  [("sum by (instance) (porchlight_scoring_waiting_sessions{$$})", "{{instance}}")]),
            panel("Time to score", "From the beginning of scoring to the commit.", "s",
                  quantiles("porchlight_actor_handle_seconds", "", 'actor="scoring", message="score"')),
            panel("Scoring checks", "Sampled sessions whose live events were compared with a replay; `different` must stay 0.", "ops",
                  [(rate("porchlight_scoring_replay_checks_total", "outcome"), "{{outcome}}")], stack=True),
        ]),
        ("Streams", [
            panel("Open", "Connections that stay and are open: event streams and WebSockets.", "short",
                  [("sum by (stream) (porchlight_streams_open{$$})", "{{stream}}")]),
            panel("Ended", "Connections that stayed and ended, or were not opened, by reason.", "ops",
                  [(rate("porchlight_streams_ended_total", "stream, reason"), "{{stream}} {{reason}}")]),
            panel("Messages", "Batches that came over streams, and messages that went.", "ops",
                  [(rate("porchlight_stream_messages_total", "stream, outcome"), "{{stream}} {{outcome}}")]),
        ]),
        ("What live sessions went without", [
            panel("Holes given up", "Holes in seq that live sessions gave up; the insight has what comes later.", "ops",
                  [(rate("porchlight_session_holes_given_up_total", "instance"), "{{instance}}")]),
            panel("Hand-overs lost", "Batches that a busy session reads from the journal later.", "ops",
                  [(rate("porchlight_session_hand_overs_lost_total", "instance"), "{{instance}}")]),
            panel("Quarantined", "Batches left out because they made a detector panic, in the last hour.", "short",
                  [("sum by (instance) (increase(porchlight_session_batches_quarantined_total{$$}[1h]))", "{{instance}}")]),
        ]),
    ])


def webhooks():
    return board("porchlight-webhooks", "Porchlight: webhooks",
                 "From a message's commit to its delivery. Who it is stands in the log, in the deliveries API and in the console.", [
        ("Is anything late?", [
            panel("Age of the oldest message that could be sent", "How long the message waits that has waited longest. A receiver that takes too long for what comes shows here, too.", "s",
                  [("max by (instance) (time() - (porchlight_webhook_oldest_due_timestamp_seconds{$$} > 0)) or max by (instance) (0 * porchlight_webhook_oldest_due_timestamp_seconds{$$})", "{{instance}}")]),
            panel("From commit to the first try", "How long a message waits for its first try, lanes that are blocked included.", "s",
                  quantiles("porchlight_webhook_first_attempt_age_seconds")),
            panel("From commit to delivery", "Of the messages that were delivered.", "s",
                  quantiles("porchlight_webhook_delivery_age_seconds")),
        ]),
        ("Tries (rate, errors, duration)", [
            panel("Tries", "By outcome: delivered, or the cause.", "ops",
                  [(rate("porchlight_webhook_attempts_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Failing share", "Tries that failed, over all.", "percentunit",
                  [(rate("porchlight_webhook_attempts_total", "job", 'outcome!="delivered"') + " / "
                    + rate("porchlight_webhook_attempts_total", "job"), "failed")], most=1),
            panel("Time of a try", "From its start to the head or the failure; it ends after five seconds at most.", "s",
                  quantiles("porchlight_webhook_attempt_seconds")),
            panel("Messages that came to an end", "Delivered, failed for good, or superseded by a newer insight.", "ops",
                  [(rate("porchlight_webhook_finished_total", "state"), "{{state}}")], stack=True),
        ]),
        ("What waits", [
            panel("Messages kept", "Waiting for a first try or for a retry, or failed for good. Exact up to 200,000 each.", "short",
                  [("sum by (state) (porchlight_webhook_messages{$$})", "{{state}}")]),
            panel("Attempts in flight", "With their reads and commits.", "short",
                  [("sum by (instance) (porchlight_webhook_in_flight{$$})", "{{instance}}")]),
            panel("Lanes in memory", "Sessions whose messages are looked at, and those of them that wait for a retry.", "short",
                  [("sum(porchlight_webhook_window_lanes{$$})", "in memory"),
                   ("sum(porchlight_webhook_lanes_blocked{$$})", "waiting for a retry")]),
            panel("Secrets in overlap", "Endpoints whose previous secret still signs.", "short",
                  [("sum(porchlight_webhook_overlaps{$$})", "endpoints")]),
            panel("Failures of the store", "Calls that the store failed; the endpoint pauses and goes on.", "ops",
                  [(rate("porchlight_webhook_store_failures_total", "instance"), "{{instance}}")]),
        ]),
        ("Cost in the store", [
            panel("Store operations", "Reads and commits of webhook actors.", "ops",
                  [(rate("porchlight_webhook_store_calls_total", "call"), "{{call}}")], stack=True),
            panel("Rows listed", "Rows that the store read to list outboxes. Divided by the deliveries, this stays near 1.", "ops",
                  [(rate("porchlight_webhook_rows_listed_total", "instance"), "{{instance}}")]),
        ]),
        ("DNS and permits", [
            panel("DNS lookups", "By outcome. `no_answer`: the name servers of the customer's domain are silent; `resolver_away`: ours are.", "ops",
                  [(rate("porchlight_webhook_lookups_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Duration of a lookup", "Of lookups that asked a server; a lookup ends after three seconds.", "s",
                  quantiles("porchlight_webhook_lookup_seconds")),
            panel("Resolver away", "1 while the node's own DNS resolver does not answer: attempts are repeated and not counted.", "short",
                  [("max by (instance) (porchlight_webhook_resolver_away{$$})", "{{instance}}")]),
            panel("Permits in use", "A node has 4,096 permits for attempts and 1,024 for lookups. A tenant's share shrinks as they are used up.", "short",
                  [("sum by (instance, pool) (porchlight_webhook_permits_in_use{$$})", "{{instance}} {{pool}}")]),
            panel("No permit in time", "Attempts and lookups whose tenant had used up its share; repeated and not counted.", "ops",
                  [(rate("porchlight_webhook_permits_refused_total", "pool"), "{{pool}}")]),
        ]),
    ])


def store():
    return board("porchlight-store", "Porchlight: store", "The committer and the disk.", [
        ("Writes (rate, errors, duration)", [
            panel("Write operations", "Operations of the committer, by outcome.", "ops",
                  [(rate("porchlight_store_operations_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Time of a commit", "Writing and syncing one group.", "s", quantiles("porchlight_store_commit_seconds")),
            panel("Operations in a group", "How many operations share one sync: it rises with the load, and that is well.", "short",
                  [(rate("porchlight_store_operations_total", "instance", 'outcome="ok"') + " / "
                    + rate("porchlight_store_groups_total", "instance"), "{{instance}}")]),
            panel("Groups", "Groups committed each second.", "ops",
                  [(rate("porchlight_store_groups_total", "instance"), "{{instance}}")]),
            panel("Waiting for the committer", "Operations in its queue.", "short",
                  [("sum by (instance) (porchlight_store_queue_operations{$$})", "{{instance}}")]),
        ]),
        ("Disk", [
            panel("Taken", "What the embedded store takes on its disk.", "bytes",
                  [("sum by (instance) (porchlight_store_disk_bytes{$$})", "{{instance}}")], width=12),
            panel("Free", "What is free on the disk where the store is.", "bytes",
                  [("sum by (instance) (porchlight_store_disk_free_bytes{$$})", "{{instance}}")], width=12),
            panel("Damaged rows", "Rows that could not be read, in an hour. The service skips them, and the log names them.",
                  "short", [("sum by (instance) (increase(porchlight_store_unreadable_rows_total{$$}[1h]))", "{{instance}}")],
                  width=12),
            panel("Clock of retention", "Whether the clock agrees with the stored times. Old sessions are deleted only while it does.",
                  "short", [("max by (instance, state) (porchlight_store_retention_clock{$$}) == 1", "{{instance}} {{state}}")],
                  width=12),
            panel("Age of the last backup", "Time since the last good backup was made.", "s",
                  [("time() - max by (instance) (porchlight_store_last_backup_timestamp_seconds{$$})", "{{instance}}")], width=12),
        ]),
        ("CQL cluster", [
            panel("Lightweight transactions", "By outcome. In doubt: the cluster did not answer in time, and was asked what "
                  "came of it.", "ops", [(rate("porchlight_store_lightweight_total", "outcome"), "{{outcome}}")], width=24),
        ]),
    ])


def runtime():
    return board("porchlight-runtime", "Porchlight: runtime", "The process and its threads.", [
        ("Process", [
            panel("Processor time", "Seconds of processor time in each second.", "short",
                  [("sum by (instance) (rate(process_cpu_seconds_total{$$}[" + RATE + "]))", "{{instance}}")]),
            panel("Memory", "Resident memory of the process.", "bytes",
                  [("sum by (instance) (process_resident_memory_bytes{$$})", "{{instance}}")]),
            panel("Virtual memory", "Address space that is reserved; it costs nothing until it is used.", "bytes",
                  [("sum by (instance) (process_virtual_memory_bytes{$$})", "{{instance}}")]),
            panel("File descriptors", "Open, and how many may be.", "short",
                  [("sum by (instance) (process_open_fds{$$})", "{{instance}} open"),
                   ("sum by (instance) (process_max_fds{$$})", "{{instance}} at most")]),
            panel("Threads", "Threads of the process.", "short",
                  [("sum by (instance) (process_threads{$$})", "{{instance}}")]),
            panel("Up since", "When the process was started.", "dateTimeFromNow",
                  [("max by (instance) (process_start_time_seconds{$$}) * 1000", "{{instance}}")], kind="stat"),
        ]),
        ("Threads", [
            panel("How late threads are", "99th percentile of the lateness of a regular tick: how long something keeps a thread.", "s",
                  [(quantile(0.99, "porchlight_runtime_lag_seconds", "runtime"), "{{runtime}}")], width=12),
            panel("Samples of a scrape", "Series that a node exposes. It does not depend on customers or load.", "short",
                  [("max by (instance) (scrape_samples_scraped{$$})", "{{instance}}")], width=12),
        ]),
    ])


def nodes():
    return board("porchlight-nodes", "Porchlight: nodes", "Who acts for which shard, and what passes between the nodes of a cluster. All of it stays at 0 where there is one.", [
        ("Ownership", [
            panel("Shards", "Shards that each node acts for. They are 256 together; fewer while some are moved or taken over.", "short",
                  [("sum by (instance) (porchlight_cluster_shards_owned{$$})", "{{instance}}")], stack=True),
            panel("Members", "Nodes that are not gone, as each one sees it.", "short",
                  [("max by (instance) (porchlight_cluster_members{$$})", "{{instance}}")]),
            panel("Age of the last good heartbeat", "At 12 s a node stops acting; at 20 s the others take its shards.", "s",
                  [("max by (instance) (porchlight_cluster_heartbeat_age_seconds{$$})", "{{instance}}")]),
            panel("Moves of shards", "Shards that came or went. Lost: the lease ended, or another node claimed it.", "ops",
                  [(rate("porchlight_cluster_shard_moves_total", "move"), "{{move}}")], stack=True),
            panel("Time to take shards up", "From the claim until the sessions run.", "s",
                  quantiles("porchlight_cluster_take_over_seconds")),
            panel("Sessions taken up", "Sessions that came with their shards.", "ops",
                  [(rate("porchlight_cluster_sessions_taken_total", "instance"), "{{instance}}")]),
            panel("Transactions of membership", "Lightweight transactions by kind and outcome. At rest there are heartbeats and nothing else.", "ops",
                  [(rate("porchlight_cluster_changes_total", "change, outcome"), "{{change}} {{outcome}}")]),
            panel("Not done for want of ownership", "What a node did not write or do because it no longer acts for the shard.", "ops",
                  [(rate("porchlight_cluster_stale_refused_total", "what"), "{{what}}")]),
            panel("Found in the store", "What an owner found that nobody had told it.", "ops",
                  [(rate("porchlight_cluster_found_in_store_total", "what"), "{{what}}")]),
        ]),
        ("Between nodes (rate, errors, duration)", [
            panel("Batches for other nodes", "Batches for sessions that another node acts for, by what became of the hand-over. What was not taken is found in the journal.", "ops",
                  [(rate("porchlight_peer_hand_overs_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Batches found in the journal", "Batches that a live session found in the journal and that no node had forwarded.", "ops",
                  [(rate("porchlight_peer_hand_overs_repaired_total", "instance"), "{{instance}}")]),
            panel("Waiting to be handed over", "Batches in the queues for other nodes.", "short",
                  [("sum by (instance) (porchlight_peer_waiting_batches{$$})", "{{instance}}")]),
            panel("Nudges", "Other nodes told to look at the store; what is lost is found by their scans.", "ops",
                  [(rate("porchlight_peer_nudges_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Questions about live sessions", "By what came of them: where a node can't be reached the last snapshot answers.", "ops",
                  [(rate("porchlight_peer_live_reads_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Time of a request between nodes", "99th percentile of the time that a request to another node takes.", "s",
                  [(quantile(0.99, "porchlight_peer_request_seconds", "route"), "{{route}}")]),
            panel("Requests of other nodes", "By how they were answered. What is unauthorized knows another secret, or another name of this node.", "ops",
                  [(rate("porchlight_peer_answers_total", "answer"), "{{answer}}")], stack=True, width=12),
            panel("Sessions left to the next scan", "Sessions that another node said to look at, and for which there was no room.", "ops",
                  [(rate("porchlight_peer_looks_lost_total", "instance"), "{{instance}}")], width=12),
        ]),
    ])


def all_boards(slos):
    return [overview(slos), actors(), ingest(), webhooks(), store(), nodes(), runtime()]
