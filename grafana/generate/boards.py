"""The dashboards. `$$` stands for the matchers of the variables; every panel has a unit and a description."""

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


def panel(title, description, unit, targets, kind="timeseries", width=8, height=7, stack=False, decimals=None, maximum=None):
    defaults = {"unit": unit, "noValue": "none"}
    if decimals is not None:
        defaults["decimals"] = decimals
    if maximum is not None:
        defaults["max"] = maximum
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
        "description": description,
        "type": kind,
        "datasource": SOURCE,
        "width": width,
        "height": height,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expand(expr),
                "legendFormat": legend,
                "range": True,
                "instant": False,
            }
            for index, (expr, legend) in enumerate(targets)
        ],
    }


def stat(title, description, unit, expr, legend="", **more):
    return panel(title, description, unit, [(expr, legend)], kind="stat", width=4, height=4, **more)


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


def board(uid, title, description, rows, variables=()):
    panels, y, number = [], 0, 1
    for heading, row in rows:
        panels.append({"id": number, "type": "row", "title": heading, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        number, y, x, row_height = number + 1, y + 1, 0, 0
        for panel_of_row in row:
            placed = dict(panel_of_row)
            width, height = placed.pop("width"), placed.pop("height")
            if x + width > 24:
                x, y, row_height = 0, y + row_height, 0
            placed["id"], placed["gridPos"] = number, {"x": x, "y": y, "w": width, "h": height}
            panels.append(placed)
            number, x, row_height = number + 1, x + width, max(row_height, height)
        y += row_height
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
                  "refresh": 1, "current": {}, "options": [], "multi": False, "includeAll": False}
    return {
        "uid": uid,
        "title": title,
        "description": description,
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
            "The rate at which each objective uses up its error budget: 1 uses it up in exactly 30 days, 14.4 in two. Prometheus sends a page at 14.4 over an hour, and at 6 over six hours.",
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
            f"{slo['good']} Objective: {slo['objective']:.1%}. Shown: the last hour.",
            "percentunit",
            f'1 - porchlight:slo_error:ratio_rate1h{{job=~"$job", slo="{slo["name"]}"}}',
            decimals=2,
            maximum=1,
        ))
    return board("porchlight-overview", "Porchlight: overview", "The objectives and the state of the service.", [
        ("Objectives", promises),
        ("Service (rate, errors, duration)", [
            panel("Requests", "Answered requests, by class of status.", "reqps",
                  [(rate("porchlight_http_requests_total", "status"), "{{status}}")], stack=True),
            panel("Response time", "Time from a request's head to its response, over all routes.", "s",
                  quantiles("porchlight_http_request_seconds")),
            panel("Refusals", "Refused requests, by the code of the problem.", "reqps",
                  [(rate("porchlight_http_problems_total", "code") + " > 0", "{{code}}")]),
            panel("Batches", "Batches of telemetry, by outcome.", "ops",
                  [(rate("porchlight_ingest_batches_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Sessions in progress", "Sessions in progress, on each node.", "short",
                  [("sum by (instance) (porchlight_sessions_live{$$})", "{{instance}}")]),
            panel("Webhooks", "Attempts, by outcome: delivered, or the cause of the failure.", "ops",
                  [(rate("porchlight_webhook_attempts_total", "outcome"), "{{outcome}}")], stack=True),
        ]),
        ("Nodes", [
            stat("Nodes", "Nodes that answer their scrapes.", "short", 'sum(up{$$})'),
            panel("Versions", "Nodes by the version that they run.", "short",
                  [("sum by (version) (porchlight_build_info{$$})", "{{version}}")], width=8, height=4),
            panel("Alerts", "Alerts of Porchlight that fire or are pending, by name.", "short",
                  [('sum by (alertname, alertstate) (ALERTS{alertname=~"Porchlight.*"})', "{{alertname}} {{alertstate}}")],
                  width=12, height=4),
        ]),
        ("Privacy requests", [
            panel("Open", "Privacy requests that are pending or in progress, by type.", "short",
                  [("sum by (type) (porchlight_privacy_requests_open{$$})", "{{type}}")]),
            panel("Age of the oldest", "The time since the oldest open privacy request was received, by type.", "s",
                  [("max by (type) (time() - (porchlight_privacy_oldest_open_timestamp_seconds{$$} > 0)) or max by (type) (0 * porchlight_privacy_oldest_open_timestamp_seconds{$$})", "{{type}}")]),
            panel("Ended", "Privacy requests that ended in the last hour, by type and outcome.", "short",
                  [("sum by (type, outcome) (increase(porchlight_privacy_requests_total{$$}[1h]))", "{{type}} {{outcome}}")]),
        ]),
    ])


def actors():
    kind = 'actor=~"$actor"'
    return board("porchlight-actors", "Porchlight: actors",
                 "The actors by kind: their number, load, waiting messages and errors.", [
        ("Load (utilisation, saturation, errors)", [
            panel("Live", "Live actors, by kind.", "short",
                  [(f"sum by (actor) (porchlight_actor_live{{$$, {kind}}})", "{{actor}}")]),
            panel("Waiting messages", "Messages in all mailboxes of a kind.", "short",
                  [(f"sum by (actor) (porchlight_actor_mailbox_messages{{$$, {kind}}})", "{{actor}}")]),
            panel("Time in the mailbox", "The time for which messages wait for their actor: the first sign of overload.", "s",
                  quantiles("porchlight_actor_mailbox_wait_seconds", "actor", kind)),
            panel("Rejected", "Messages that a full mailbox refused; the actor reads their content from the store later.", "ops",
                  [(rate("porchlight_actor_rejected_total", "actor", kind), "{{actor}}")]),
            panel("Rebuilt after a panic", "Actors that were rebuilt from the store.", "ops",
                  [(rate("porchlight_actor_restarts_total", "actor", kind), "{{actor}}")]),
            panel("Panics of tasks", "Panics of background tasks.", "ops",
                  [(rate("porchlight_task_panics_total", "task"), "{{task}}")]),
            panel("Busy", "Seconds of handling per second: 1 is the whole time of one thread.", "short",
                  [(rate("porchlight_actor_handle_seconds_sum", "actor", kind), "{{actor}}")]),
        ]),
        ("Messages (rate, errors, duration)", [
            panel("Handled", "Messages by kind of actor and message.", "ops",
                  [(rate("porchlight_actor_messages_total", "actor, message", kind) + " > 0", "{{actor}} {{message}}")]),
            panel("Failed", "Messages whose handling ended with an error or a panic.", "ops",
                  [(rate("porchlight_actor_messages_total", "actor, message, outcome", f'{kind}, outcome!="ok"'),
                    "{{actor}} {{message}} {{outcome}}")]),
            panel("Time to handle", "99th percentile, by kind of actor and message.", "s",
                  [(quantile(0.99, "porchlight_actor_handle_seconds", "actor, message", kind), "{{actor}} {{message}}")]),
        ]),
        ("Starts and stops", [
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
            panel("Samples", "Accepted samples, and samples of unknown kinds, which the service skips.", "ops",
                  [(rate("porchlight_ingest_samples_total", "job"), "accepted"),
                   (rate("porchlight_ingest_samples_unknown_total", "job"), "unknown")]),
            panel("Bytes journaled", "Bytes of packed batches.", "Bps",
                  [(rate("porchlight_ingest_packed_bytes_total", "instance"), "{{instance}}")]),
            panel("Time to the acknowledgement", "Time from a batch's last byte to its acknowledgement, sync included.", "s",
                  quantiles("porchlight_ingest_ack_seconds")),
            panel("In flight", "Bytes of bodies that are admitted and not yet acknowledged. Beyond 256 MiB a node refuses batches.", "bytes",
                  [("sum by (instance) (porchlight_ingest_in_flight_bytes{$$})", "{{instance}}")]),
            panel("Requests in flight", "Requests in flight, and the number of batches in flight beyond which the node refuses others.", "short",
                  [("sum by (instance) (porchlight_http_in_flight_requests{$$})", "{{instance}}"),
                   ("sum by (instance) (porchlight_ingest_limit_batches{$$})", "{{instance}}, limit of batches")]),
        ]),
        ("Shares of organizations", [
            panel("Refused by a share", "Requests refused with 429 because an organization has used up its share of the node.", "reqps",
                  [(rate("porchlight_share_refused_total", "share"), "{{share}}")]),
            panel("Largest use", "The usage by the organization that uses the most of a share.", "short",
                  [("max by (share) (porchlight_share_largest_use{$$})", "{{share}}")]),
            panel("Limits", "The limit of each share; 0 means no limit.", "short",
                  [("max by (share) (porchlight_share_limit{$$})", "{{share}}")]),
        ]),
        ("Requests by route", [
            panel("Requests", "Answered requests, by route and method.", "reqps",
                  [(rate("porchlight_http_requests_total", "route, method") + " > 0", "{{method}} {{route}}")], width=12),
            panel("Response time", "99th percentile, by route.", "s",
                  [(quantile(0.99, "porchlight_http_request_seconds", "route"), "{{route}}")], width=12),
            panel("Refusals", "Refused requests, by the code of the problem.", "reqps",
                  [(rate("porchlight_http_problems_total", "code") + " > 0", "{{code}}")], width=24),
        ]),
        ("Long-lived connections", [
            panel("Open", "Event streams, WebSockets, and NDJSON requests while their lines are answered.", "short",
                  [("sum by (stream) (porchlight_streams_open{$$})", "{{stream}}")]),
            panel("Messages", "Received batches, accepted or refused, and sent messages of event streams.", "ops",
                  [(rate("porchlight_stream_messages_total", "stream, outcome"), "{{stream}} {{outcome}}")]),
            panel("Ended", "Ended connections, by reason. Full: not opened, because the limit was reached.", "ops",
                  [(rate("porchlight_streams_ended_total", "stream, reason"), "{{stream}} {{reason}}")]),
        ]),
        ("Sessions", [
            panel("Recording", "Sessions in progress, on each node.", "short",
                  [("sum by (instance) (porchlight_sessions_live{$$})", "{{instance}}")]),
            panel("Started", "Sessions started each second.", "ops",
                  [(rate("porchlight_sessions_started_total", "instance"), "{{instance}}")]),
            panel("Ended", "Ended sessions, by reason: stopped, silent for too long, too old.", "ops",
                  [(rate("porchlight_sessions_ended_total", "reason"), "{{reason}}")], stack=True),
            panel("Insights", "Insights committed, by outcome.", "ops",
                  [(rate("porchlight_insights_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Waiting to be scored", "Sessions that have ended and have no insight yet.", "short",
                  [("sum by (instance) (porchlight_scoring_waiting_sessions{$$})", "{{instance}}")]),
            panel("Time to score", "Time from the beginning of scoring to the commit.", "s",
                  quantiles("porchlight_actor_handle_seconds", "", 'actor="scoring", message="score"')),
            panel("Scoring checks", "Sampled sessions whose live events were compared with a replay; `different` must stay 0.", "ops",
                  [(rate("porchlight_scoring_replay_checks_total", "outcome"), "{{outcome}}")], stack=True),
        ]),
        ("Data that live sessions missed", [
            panel("Gaps", "Values of seq that live sessions stopped waiting for. The insight includes batches that arrive later.", "ops",
                  [(rate("porchlight_session_holes_given_up_total", "instance"), "{{instance}}")]),
            panel("Batches read later", "Batches that a busy session did not accept and reads from the journal later.", "ops",
                  [(rate("porchlight_session_hand_overs_lost_total", "instance"), "{{instance}}")]),
            panel("Quarantined", "Quarantined batches, on which a detector panicked, in the last hour.", "short",
                  [("sum by (instance) (increase(porchlight_session_batches_quarantined_total{$$}[1h]))", "{{instance}}")]),
            panel("Discarded snapshots", "Snapshots of another release, whose sessions were rebuilt from their journals, in the last hour.", "short",
                  [("sum by (instance) (increase(porchlight_session_snapshots_discarded_total{$$}[1h]))", "{{instance}}")]),
        ]),
    ])


def webhooks():
    return board("porchlight-webhooks", "Porchlight: webhooks",
                 "Time from a message's commit to its delivery. The log, the deliveries API and the console name the customer.", [
        ("Delays", [
            panel("Age of the oldest message that could be sent", "The longest time for which a due message has waited. It also rises if a receiver is too slow for its messages.", "s",
                  [("max by (instance) (time() - (porchlight_webhook_oldest_due_timestamp_seconds{$$} > 0)) or max by (instance) (0 * porchlight_webhook_oldest_due_timestamp_seconds{$$})", "{{instance}}")]),
            panel("From commit to the first attempt", "The time for which a message waits for its first attempt, including blocked lanes.", "s",
                  quantiles("porchlight_webhook_first_attempt_age_seconds")),
            panel("From commit to delivery", "The time from commit to delivery of the delivered messages.", "s",
                  quantiles("porchlight_webhook_delivery_age_seconds")),
        ]),
        ("Attempts (rate, errors, duration)", [
            panel("Attempts", "Attempts, by outcome: delivered, or the cause of the failure.", "ops",
                  [(rate("porchlight_webhook_attempts_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Share of failed attempts", "The number of failed attempts divided by the number of all attempts.", "percentunit",
                  [(rate("porchlight_webhook_attempts_total", "job", 'outcome!="delivered"') + " / "
                    + rate("porchlight_webhook_attempts_total", "job"), "failed")], maximum=1),
            panel("Duration of an attempt", "Time from the start of an attempt to the response head or the failure; at most five seconds.", "s",
                  quantiles("porchlight_webhook_attempt_seconds")),
            panel("Finished messages", "Messages that were delivered, failed permanently, or were superseded by a newer insight.", "ops",
                  [(rate("porchlight_webhook_finished_total", "state"), "{{state}}")], stack=True),
        ]),
        ("Waiting", [
            panel("Stored messages", "Messages that wait for a first attempt or a retry, or that failed permanently. Each count is exact up to 200,000.", "short",
                  [("sum by (state) (porchlight_webhook_messages{$$})", "{{state}}")]),
            panel("Attempts in flight", "Attempts in flight, including their reads and commits.", "short",
                  [("sum by (instance) (porchlight_webhook_in_flight{$$})", "{{instance}}")]),
            panel("Lanes in memory", "Lanes that the webhook actors hold, and how many of these lanes wait for a retry.", "short",
                  [("sum(porchlight_webhook_window_lanes{$$})", "in memory"),
                   ("sum(porchlight_webhook_lanes_blocked{$$})", "waiting for a retry")]),
            panel("Secrets in overlap", "Endpoints whose previous secret is still valid.", "short",
                  [("sum(porchlight_webhook_overlaps{$$})", "endpoints")]),
            panel("Failures of the store", "Calls to the store that failed. The endpoint pauses and then continues.", "ops",
                  [(rate("porchlight_webhook_store_failures_total", "instance"), "{{instance}}")]),
        ]),
        ("Cost in the store", [
            panel("Store operations", "Reads and commits of webhook actors.", "ops",
                  [(rate("porchlight_webhook_store_calls_total", "call"), "{{call}}")], stack=True),
            panel("Rows listed", "Rows that the store read to list outboxes. Divided by the deliveries, this stays near 1.", "ops",
                  [(rate("porchlight_webhook_rows_listed_total", "instance"), "{{instance}}")]),
        ]),
        ("DNS and permits", [
            panel("DNS lookups", "Lookups by outcome. `no_answer`: the name servers of the customer's domain do not answer; `resolver_away`: the node's own resolver does not answer.", "ops",
                  [(rate("porchlight_webhook_lookups_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Duration of a lookup", "Duration of lookups that queried a name server; a lookup ends after three seconds.", "s",
                  quantiles("porchlight_webhook_lookup_seconds")),
            panel("Resolver unavailable", "1 while the node's own DNS resolver does not answer: attempts are repeated and not counted.", "short",
                  [("max by (instance) (porchlight_webhook_resolver_away{$$})", "{{instance}}")]),
            panel("Permits in use", "A node has 4,096 permits for attempts and 1,024 for lookups. A tenant's share shrinks as they are used up.", "short",
                  [("sum by (instance, pool) (porchlight_webhook_permits_in_use{$$})", "{{instance}} {{pool}}")]),
            panel("No permit in time", "Attempts and lookups that got no permit because their tenant had used up its share. They are repeated and not counted.", "ops",
                  [(rate("porchlight_webhook_permits_refused_total", "pool"), "{{pool}}")]),
        ]),
    ])


def store():
    return board("porchlight-store", "Porchlight: store", "The committer and the disk.", [
        ("Writes (rate, errors, duration)", [
            panel("Write operations", "Operations of the committer, by outcome.", "ops",
                  [(rate("porchlight_store_operations_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Duration of a commit", "Time to write and sync one group.", "s", quantiles("porchlight_store_commit_seconds")),
            panel("Operations per group", "The number of operations that share one sync. It rises with the load, as intended.", "short",
                  [(rate("porchlight_store_operations_total", "instance", 'outcome="ok"') + " / "
                    + rate("porchlight_store_groups_total", "instance"), "{{instance}}")]),
            panel("Groups", "Groups committed per second.", "ops",
                  [(rate("porchlight_store_groups_total", "instance"), "{{instance}}")]),
            panel("Waiting for the committer", "Operations in the committer's queue.", "short",
                  [("sum by (instance) (porchlight_store_queue_operations{$$})", "{{instance}}")]),
        ]),
        ("Disk", [
            panel("Used", "Disk space that the embedded store uses.", "bytes",
                  [("sum by (instance) (porchlight_store_disk_bytes{$$})", "{{instance}}")], width=12),
            panel("Free", "Free space on the store's disk.", "bytes",
                  [("sum by (instance) (porchlight_store_disk_free_bytes{$$})", "{{instance}}")], width=12),
            panel("Damaged rows", "Rows that could not be read, in an hour. The service skips them, and the log names them.",
                  "short", [("sum by (instance) (increase(porchlight_store_unreadable_rows_total{$$}[1h]))", "{{instance}}")],
                  width=12),
            panel("Retention clock", "Whether the wall clock agrees with the stored times. Old sessions are deleted only while the two agree.",
                  "short", [("max by (instance, state) (porchlight_store_retention_clock{$$}) == 1", "{{instance}} {{state}}")],
                  width=12),
            panel("Age of the last backup", "Time since the last successful backup.", "s",
                  [("time() - max by (instance) (porchlight_store_last_backup_timestamp_seconds{$$})", "{{instance}}")], width=12),
        ]),
        ("Street map", [
            panel("Tiles read", "Tiles of the map file that were read, because the cache did not have them.", "ops",
                  [(rate("porchlight_map_tiles_read_total", "instance"), "{{instance}}")], width=12),
            panel("Tiles skipped", "Tiles that were damaged or exceeded a limit, in an hour. They are drawn empty.", "short",
                  [("sum by (instance) (increase(porchlight_map_tiles_skipped_total{$$}[1h]))", "{{instance}}")], width=12),
        ]),
        ("CQL cluster", [
            panel("Lightweight transactions", "Transactions by outcome. In doubt: the cluster did not answer in time, and a "
                  "serial read resolved the outcome.", "ops", [(rate("porchlight_store_lightweight_total", "outcome"), "{{outcome}}")], width=24),
            panel("Statements on a CQL cluster", "Statements by kind.", "ops",
                  [(rate("porchlight_store_statements_total", "kind"), "{{kind}}")]),
            panel("Rows read from a CQL cluster", "Rows that reads returned.", "rowsps",
                  [("sum(rate(porchlight_store_rows_read_total{$$}[$__rate_interval]))", "rows")]),
            panel("Warnings about the database", "1 for each property of the database that makes the service slower or less safe. The log explains how to change it.", "short",
                  [("max by (reason) (porchlight_store_database_warnings{$$})", "{{reason}}")]),
        ]),
    ])


def runtime():
    return board("porchlight-runtime", "Porchlight: runtime", "The process and its threads.", [
        ("Process", [
            panel("Processor time", "Seconds of processor time per second.", "short",
                  [("sum by (instance) (rate(process_cpu_seconds_total{$$}[" + RATE + "]))", "{{instance}}")]),
            panel("Memory", "Resident memory of the process.", "bytes",
                  [("sum by (instance) (process_resident_memory_bytes{$$})", "{{instance}}")]),
            panel("Virtual memory", "Reserved address space; it costs nothing until it is used.", "bytes",
                  [("sum by (instance) (process_virtual_memory_bytes{$$})", "{{instance}}")]),
            panel("File descriptors", "Open file descriptors, and their limit.", "short",
                  [("sum by (instance) (process_open_fds{$$})", "{{instance}} open"),
                   ("sum by (instance) (process_max_fds{$$})", "{{instance}} limit")]),
            panel("Threads", "Threads of the process.", "short",
                  [("sum by (instance) (process_threads{$$})", "{{instance}}")]),
            panel("Up since", "The time at which the process was started.", "dateTimeFromNow",
                  [("max by (instance) (process_start_time_seconds{$$}) * 1000", "{{instance}}")], kind="stat"),
            panel("Unclean start", "1: the process before this one ended without draining. It was killed, or its store failed.", "short",
                  [("max by (instance) (porchlight_unclean_start{$$})", "{{instance}}")], kind="stat"),
        ]),
        ("Threads", [
            panel("Delay of threads", "99th percentile of the delay of a regular tick: the time for which a thread is blocked.", "s",
                  [(quantile(0.99, "porchlight_runtime_lag_seconds", "runtime"), "{{runtime}}")], width=12),
            panel("Series per scrape", "Series that a node exposes. The number does not depend on customers or load.", "short",
                  [("max by (instance) (scrape_samples_scraped{$$})", "{{instance}}")], width=12),
        ]),
    ])


def nodes():
    return board("porchlight-nodes", "Porchlight: nodes", "The owners of the shards, and the traffic between the nodes of a cluster. All values stay at 0 on a single process.", [
        ("Ownership", [
            panel("Shards", "Shards that each node acts for. They add up to 256, or to fewer during a move or failover.", "short",
                  [("sum by (instance) (porchlight_cluster_shards_owned{$$})", "{{instance}}")], stack=True),
            panel("Members", "Members of the cluster, as seen by each node.", "short",
                  [("max by (instance) (porchlight_cluster_members{$$})", "{{instance}}")]),
            panel("Age of the last successful heartbeat", "At 5.3 s a node stops acting; at 6.5 s the others take its shards.", "s",
                  [("max by (instance) (porchlight_cluster_heartbeat_age_seconds{$$})", "{{instance}}")]),
            panel("Clock differences", "Lower bound of the time by which each node's clock is ahead of, or behind, another node's clock. Above 10 s a node does not join.", "s",
                  [("max by (instance, direction) (porchlight_cluster_clock_difference_seconds{$$})", "{{instance}} {{direction}}"),
                   ("max by (instance) (porchlight_cluster_clock_refused{$$})", "{{instance}} does not join")]),
            panel("Moves of shards", "Shards that a node gained or released. Lost: the lease expired, or another node claimed the shard.", "ops",
                  [(rate("porchlight_cluster_shard_moves_total", "move"), "{{move}}")], stack=True),
            panel("Failover time", "Time from the claim until the sessions run.", "s",
                  quantiles("porchlight_cluster_take_over_seconds")),
            panel("Sessions taken over", "Sessions that a node takes over with their shards.", "ops",
                  [(rate("porchlight_cluster_sessions_taken_total", "instance"), "{{instance}}")]),
            panel("Transactions of membership", "Lightweight transactions by kind and outcome. An idle cluster has only heartbeats.", "ops",
                  [(rate("porchlight_cluster_changes_total", "change, outcome"), "{{change}} {{outcome}}")]),
            panel("Refused without ownership", "Actions that a node refused because it no longer acts for the shard.", "ops",
                  [(rate("porchlight_cluster_stale_refused_total", "what"), "{{what}}")]),
            panel("Found in the store", "Changes that an owner found by reconciling, because no notification arrived.", "ops",
                  [(rate("porchlight_cluster_found_in_store_total", "what"), "{{what}}")]),
        ]),
        ("Between nodes (rate, errors, duration)", [
            panel("Batches for other nodes", "Batches for sessions that another node owns, by the outcome of forwarding. The owner finds all others in the journal.", "ops",
                  [(rate("porchlight_peer_hand_overs_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Batches found in the journal", "Batches that a live session found in the journal and that no node had forwarded.", "ops",
                  [(rate("porchlight_peer_hand_overs_repaired_total", "instance"), "{{instance}}")]),
            panel("Waiting to be forwarded", "Batches in the queues for other nodes.", "short",
                  [("sum by (instance) (porchlight_peer_waiting_batches{$$})", "{{instance}}")]),
            panel("Nudges", "Requests to other nodes to reconcile with the store. If a nudge is lost, the next scan finds the change.", "ops",
                  [(rate("porchlight_peer_nudges_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Reads of live sessions", "Reads from other nodes, by outcome. If a node is unreachable, the last snapshot answers.", "ops",
                  [(rate("porchlight_peer_live_reads_total", "outcome"), "{{outcome}}")], stack=True),
            panel("Time of a request between nodes", "99th percentile of the time that a request to another node takes.", "s",
                  [(quantile(0.99, "porchlight_peer_request_seconds", "route"), "{{route}}")]),
            panel("Requests of other nodes", "Requests by answer. Unauthorized: the sender uses another secret, or another name of this node.", "ops",
                  [(rate("porchlight_peer_answers_total", "answer"), "{{answer}}")], stack=True, width=12),
            panel("Sessions left to the next scan", "Nudged sessions for which the queue had no room.", "ops",
                  [(rate("porchlight_peer_looks_lost_total", "instance"), "{{instance}}")], width=12),
        ]),
    ])


def all_boards(slos):
    return [overview(slos), actors(), ingest(), webhooks(), store(), nodes(), runtime()]
