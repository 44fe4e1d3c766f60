"""Alerts on causes: conditions that are likely to break an objective, or that make a broken one hard to repair. Each alert
includes its test: series with which it fires, and series with which it does not."""

IDS = 'job="porchlight", instance="a"'
LABELS = dict(job="porchlight", instance="a")


def series(metric, values, labels=""):
    """Returns the name and the values of one input series of a rule test."""
    return (f"{metric}{{{IDS}{', ' + labels if labels else ''}}}", values)


ALERTS = [
    dict(
        name="PorchlightDown",
        expr='up{job="porchlight"} == 0 or absent(up{job="porchlight"})',
        wait="2m",
        severity="page",
        summary="A node of Porchlight does not answer its scrapes.",
        description="The operators' listener has not answered Prometheus for two minutes.",
        runbook="down",
        dashboard="porchlight-overview",
        fires=[([series("up", "1x2 0x20")], [LABELS])],
        quiet=[[series("up", "1x20")]],
    ),
    dict(
        name="PorchlightRestarts",
        expr="changes(process_start_time_seconds{job=\"porchlight\"}[30m]) > 2",
        wait="0m",
        severity="page",
        summary="A node of Porchlight restarts repeatedly.",
        description="The process was started more than twice within half an hour.",
        runbook="restarts",
        dashboard="porchlight-runtime",
        fires=[([series("process_start_time_seconds", "1x3 2x3 3x3 4x20")], [LABELS])],
        quiet=[[series("process_start_time_seconds", "1x3 2x30")]],
    ),
    dict(
        name="PorchlightUncleanEnd",
        expr='porchlight_unclean_start == 1 and on (job, instance) (time() - process_start_time_seconds < 3600)',
        wait="0m",
        severity="ticket",
        summary="A node of Porchlight was started after a failure.",
        description="The process before this one ended without draining: it was killed, or its store failed.",
        runbook="unclean-end",
        dashboard="porchlight-runtime",
        fires=[([series("porchlight_unclean_start", "1x20"), series("process_start_time_seconds", "0x20")], [LABELS])],
        quiet=[
            [series("porchlight_unclean_start", "1x40"), series("process_start_time_seconds", "-4000x40")],
            [series("porchlight_unclean_start", "0x20"), series("process_start_time_seconds", "0x20")],
        ],
    ),
    dict(
        name="PorchlightStoreFails",
        expr='sum by (job, instance) (rate(porchlight_store_operations_total{outcome="failed"}[5m])'
        ' or rate(porchlight_ingest_batches_total{outcome="store_unavailable"}[5m])) > 0',
        wait="1m",
        severity="page",
        summary="Writes to the store fail.",
        description="Writes fail, so the node answers them with 503. Acknowledged data is not affected.",
        runbook="store-fails",
        dashboard="porchlight-store",
        fires=[([series("porchlight_store_operations_total", "0+5x20", 'outcome="failed"')], [LABELS])],
        quiet=[
            [
                series("porchlight_store_operations_total", "7x20", 'outcome="failed"'),
                series("porchlight_ingest_batches_total", "7x20", 'outcome="store_unavailable"'),
            ]
        ],
    ),
    dict(
        name="PorchlightStoreOverloaded",
        expr='sum by (job, instance) (rate(porchlight_store_operations_total{outcome="overloaded"}[5m])) > 0.1',
        wait="5m",
        severity="ticket",
        summary="The store refuses writes because too many wait.",
        description="The committer's queue is full: the disk does not keep up with the incoming writes.",
        runbook="store-slow",
        dashboard="porchlight-store",
        fires=[([series("porchlight_store_operations_total", "0+60x30", 'outcome="overloaded"')], [LABELS])],
        quiet=[[series("porchlight_store_operations_total", "0+1x30", 'outcome="overloaded"')]],
    ),
    dict(
        name="PorchlightStoreSlow",
        expr="histogram_quantile(0.99, sum by (job, instance, le) (rate(porchlight_store_commit_seconds_bucket[5m]))) > 0.25",
        wait="10m",
        severity="ticket",
        summary="Commits are slow.",
        description="One commit in a hundred takes longer than 250 ms: the disk is slow to sync.",
        runbook="store-slow",
        dashboard="porchlight-store",
        fires=[
            (
                [
                    series("porchlight_store_commit_seconds_bucket", "0+0x40", 'le="0.25"'),
                    series("porchlight_store_commit_seconds_bucket", "0+60x40", 'le="0.5"'),
                    series("porchlight_store_commit_seconds_bucket", "0+60x40", 'le="+Inf"'),
                ],
                [LABELS],
            )
        ],
        quiet=[
            [
                series("porchlight_store_commit_seconds_bucket", "0+60x40", 'le="0.25"'),
                series("porchlight_store_commit_seconds_bucket", "0+60x40", 'le="+Inf"'),
            ]
        ],
    ),
    dict(
        name="PorchlightDiskFull",
        expr="porchlight_store_disk_free_bytes < 2e9",
        wait="5m",
        severity="page",
        summary="The store's disk is nearly full.",
        description="Less than 2 GB are free on the store's disk. Below store.reserve_bytes (1 GiB by default), new data is refused with 503; with a larger reserve, raise the threshold of this alert above it.",
        runbook="disk-full",
        dashboard="porchlight-store",
        fires=[
            ([series("porchlight_store_disk_free_bytes", "1e9x20")], [LABELS]),
            ([series("porchlight_store_disk_free_bytes", "0x20")], [LABELS]),
        ],
        quiet=[[series("porchlight_store_disk_free_bytes", "9e9x20")]],
    ),
    dict(
        name="PorchlightBackupOld",
        expr="time() - porchlight_store_last_backup_timestamp_seconds > 36 * 3600 and porchlight_store_groups_total > 0",
        wait="1h",
        severity="ticket",
        summary="There is no recent backup of the store.",
        description="The last successful backup is more than 36 hours old, or no backup exists.",
        runbook="backup-old",
        dashboard="porchlight-store",
        fires=[
            (
                [
                    series("porchlight_store_last_backup_timestamp_seconds", "0x3000"),
                    series("porchlight_store_groups_total", "5x3000"),
                ],
                [LABELS],
            )
        ],
        quiet=[
            # One that was made an hour ago; a node on a CQL cluster, which commits no groups.
            [series("porchlight_store_last_backup_timestamp_seconds", "140000x3000"), series("porchlight_store_groups_total", "5x3000")],
            [series("porchlight_store_last_backup_timestamp_seconds", "0x3000"), series("porchlight_store_groups_total", "0x3000")],
        ],
        at="2400m",
    ),
    dict(
        name="PorchlightErasurePending",
        expr='time() - (min by (job) (porchlight_privacy_oldest_open_timestamp_seconds{type="erasure"} > 0)) > 24 * 3600',
        wait="10m",
        severity="ticket",
        summary="An erasure is not completed after a day.",
        description="The oldest open request to erase personal data was received more than 24 hours ago. The law sets a limit of one month.",
        runbook="erasure-pending",
        dashboard="porchlight-overview",
        fires=[([series("porchlight_privacy_oldest_open_timestamp_seconds", "60x3000", 'type="erasure"')], [dict(job="porchlight")])],
        quiet=[
            # No open erasure; one that was received an hour ago; an old request of another type.
            [series("porchlight_privacy_oldest_open_timestamp_seconds", "0x3000", 'type="erasure"')],
            [series("porchlight_privacy_oldest_open_timestamp_seconds", "140000x3000", 'type="erasure"')],
            [series("porchlight_privacy_oldest_open_timestamp_seconds", "60x3000", 'type="access"')],
        ],
        at="2400m",
    ),
    dict(
        name="PorchlightActorsPanic",
        expr="sum by (job, instance, actor) (increase(porchlight_actor_restarts_total[15m])) > 3",
        wait="0m",
        severity="ticket",
        summary="Actors are rebuilt repeatedly.",
        description="More than three actors of one kind were rebuilt from the store after a panic within 15 minutes.",
        runbook="actors-panic",
        dashboard="porchlight-actors",
        fires=[([series("porchlight_actor_restarts_total", "0+1x20", 'actor="session"')], [dict(LABELS, actor="session")])],
        quiet=[[series("porchlight_actor_restarts_total", "0x5 1x15", 'actor="session"')]],
    ),
    dict(
        name="PorchlightTasksPanic",
        expr="sum by (job, instance, task) (increase(porchlight_task_panics_total[15m])) > 0",
        wait="0m",
        severity="ticket",
        summary="A background task panicked.",
        description="Within the last 15 minutes, a background task of the process panicked and was restarted. The log names the task and the panic.",
        runbook="tasks-panic",
        dashboard="porchlight-actors",
        fires=[([series("porchlight_task_panics_total", "0x5 1x15", 'task="retention"')], [dict(LABELS, task="retention")])],
        quiet=[[series("porchlight_task_panics_total", "1x20", 'task="retention"')]],
    ),
    dict(
        name="PorchlightBatchQuarantined",
        expr="sum by (job, instance) (increase(porchlight_session_batches_quarantined_total[1h])) > 0",
        wait="0m",
        severity="ticket",
        summary="A batch was quarantined because it makes a detector panic.",
        description="The session continues without that batch, and its insight records the gap. The log names session and batch.",
        runbook="batch-quarantined",
        dashboard="porchlight-ingest",
        fires=[([series("porchlight_session_batches_quarantined_total", "0x5 1x15")], [LABELS])],
        quiet=[[series("porchlight_session_batches_quarantined_total", "0x20")]],
    ),
    dict(
        name="PorchlightMailboxesWait",
        # The time of a session in the queue of scores is recorded as its time in a mailbox, and PorchlightScoringBehind reports
        # such a backlog.
        expr='histogram_quantile(0.99, sum by (job, instance, actor, le) (rate(porchlight_actor_mailbox_wait_seconds_bucket{actor!="scoring"}[5m]))) > 1',
        wait="10m",
        severity="ticket",
        summary="Messages wait too long in mailboxes.",
        description="One message in a hundred waits longer than a second for its actor: events are detected late, or webhooks are sent late.",
        runbook="mailboxes-wait",
        dashboard="porchlight-actors",
        fires=[
            (
                [
                    series("porchlight_actor_mailbox_wait_seconds_bucket", "0x40", 'actor="session", le="1"'),
                    series("porchlight_actor_mailbox_wait_seconds_bucket", "0+60x40", 'actor="session", le="2.5"'),
                    series("porchlight_actor_mailbox_wait_seconds_bucket", "0+60x40", 'actor="session", le="+Inf"'),
                ],
                [dict(LABELS, actor="session")],
            )
        ],
        quiet=[
            [
                series("porchlight_actor_mailbox_wait_seconds_bucket", "0+60x40", 'actor="session", le="1"'),
                series("porchlight_actor_mailbox_wait_seconds_bucket", "0+60x40", 'actor="session", le="+Inf"'),
            ],
            # A backlog of scores.
            [
                series("porchlight_actor_mailbox_wait_seconds_bucket", "0x40", 'actor="scoring", le="1"'),
                series("porchlight_actor_mailbox_wait_seconds_bucket", "0+60x40", 'actor="scoring", le="2.5"'),
                series("porchlight_actor_mailbox_wait_seconds_bucket", "0+60x40", 'actor="scoring", le="+Inf"'),
            ],
        ],
    ),
    dict(
        name="PorchlightScoringBehind",
        expr="porchlight_scoring_waiting_sessions > 500",
        wait="10m",
        severity="ticket",
        summary="Sessions wait to be scored.",
        description="More than 500 sessions have ended and have no insight yet, for ten minutes.",
        runbook="scoring-behind",
        dashboard="porchlight-ingest",
        fires=[([series("porchlight_scoring_waiting_sessions", "900x20")], [LABELS])],
        quiet=[[series("porchlight_scoring_waiting_sessions", "900x5 3x20")]],
    ),
    dict(
        name="PorchlightIngestNearlyFull",
        expr="porchlight_ingest_in_flight_bytes > 0.8 * 256 * 1024 * 1024",
        wait="2m",
        severity="ticket",
        summary="The node's limit of bytes in flight is nearly reached.",
        description="Beyond 256 MiB the node refuses batches with 503; phones send them again later.",
        runbook="ingest-nearly-full",
        dashboard="porchlight-ingest",
        fires=[([series("porchlight_ingest_in_flight_bytes", "230000000x20")], [LABELS])],
        quiet=[[series("porchlight_ingest_in_flight_bytes", "100000000x20")]],
    ),
    dict(
        name="PorchlightWebhooksLate",
        expr="time() - (porchlight_webhook_oldest_due_timestamp_seconds > 0) > 600",
        wait="5m",
        severity="ticket",
        summary="A due webhook message is waiting.",
        description="The oldest due message has waited for more than ten minutes: a receiver is too slow for its messages, or the service does not keep up.",
        runbook="webhooks-late",
        dashboard="porchlight-webhooks",
        fires=[([series("porchlight_webhook_oldest_due_timestamp_seconds", "1x40")], [LABELS])],
        quiet=[
            [series("porchlight_webhook_oldest_due_timestamp_seconds", "0x40")],
            [series("porchlight_webhook_oldest_due_timestamp_seconds", "0+60x40")],
        ],
        at="30m",
    ),
    dict(
        name="PorchlightWebhooksFail",
        expr='sum by (job) (rate(porchlight_webhook_attempts_total{outcome!="delivered"}[15m])) / sum by (job) (rate(porchlight_webhook_attempts_total[15m])) > 0.5 and sum by (job) (rate(porchlight_webhook_attempts_total[15m])) > 0.1',
        wait="15m",
        severity="ticket",
        summary="More than half of all webhook attempts fail.",
        description="Many receivers fail simultaneously. The cause is more likely on our side (DNS, firewall, certificates) than on theirs.",
        runbook="webhooks-fail",
        dashboard="porchlight-webhooks",
        fires=[
            (
                [
                    series("porchlight_webhook_attempts_total", "0+60x60", 'outcome="dns"'),
                    series("porchlight_webhook_attempts_total", "0+10x60", 'outcome="delivered"'),
                ],
                [dict(job="porchlight")],
            )
        ],
        quiet=[
            [
                series("porchlight_webhook_attempts_total", "0+10x60", 'outcome="dns"'),
                series("porchlight_webhook_attempts_total", "0+60x60", 'outcome="delivered"'),
            ],
            [series("porchlight_webhook_attempts_total", "0+1x60", 'outcome="dns"')],
        ],
        at="50m",
    ),
    dict(
        name="PorchlightWebhooksGiveUp",
        expr='sum by (job) (increase(porchlight_webhook_finished_total{state="failed"}[1h])) > 100',
        wait="0m",
        severity="ticket",
        summary="Many webhook messages failed permanently.",
        description="More than a hundred messages have used up their attempts within an hour. The log names the customers.",
        runbook="webhooks-give-up",
        dashboard="porchlight-webhooks",
        fires=[([series("porchlight_webhook_finished_total", "0+10x60", 'state="failed"')], [dict(job="porchlight")])],
        quiet=[[series("porchlight_webhook_finished_total", "0+1x60", 'state="failed"')]],
        at="50m",
    ),
    dict(
        name="PorchlightWebhookStoreFails",
        expr="sum by (job, instance) (rate(porchlight_webhook_store_failures_total[5m])) > 0",
        wait="5m",
        severity="ticket",
        summary="Store operations of webhooks fail.",
        description="Outboxes cannot be read or written. Their endpoints pause, and no attempt is counted.",
        runbook="store-fails",
        dashboard="porchlight-webhooks",
        fires=[([series("porchlight_webhook_store_failures_total", "0+3x30")], [LABELS])],
        quiet=[[series("porchlight_webhook_store_failures_total", "3x30")]],
    ),
    dict(
        name="PorchlightResolverAway",
        expr="porchlight_webhook_resolver_away > 0",
        wait="5m",
        severity="page",
        summary="The node's DNS resolver does not answer.",
        description="No webhook can be sent to a name. Attempts are repeated and not counted.",
        runbook="resolver-away",
        dashboard="porchlight-webhooks",
        fires=[([series("porchlight_webhook_resolver_away", "1x30")], [LABELS])],
        quiet=[[series("porchlight_webhook_resolver_away", "0x30")]],
    ),
    dict(
        name="PorchlightThreadsBlocked",
        expr="histogram_quantile(0.99, sum by (job, instance, runtime, le) (rate(porchlight_runtime_lag_seconds_bucket[5m]))) > 0.5",
        wait="10m",
        severity="ticket",
        summary="A thread is blocked for too long.",
        description="One regular tick in a hundred is at least half a second late: no processor is free, or a handler blocks.",
        runbook="threads-blocked",
        dashboard="porchlight-runtime",
        fires=[
            (
                [
                    series("porchlight_runtime_lag_seconds_bucket", "0x40", 'runtime="actors", le="0.5"'),
                    series("porchlight_runtime_lag_seconds_bucket", "0+60x40", 'runtime="actors", le="1"'),
                    series("porchlight_runtime_lag_seconds_bucket", "0+60x40", 'runtime="actors", le="+Inf"'),
                ],
                [dict(LABELS, runtime="actors")],
            )
        ],
        quiet=[
            [
                series("porchlight_runtime_lag_seconds_bucket", "0+60x40", 'runtime="actors", le="0.5"'),
                series("porchlight_runtime_lag_seconds_bucket", "0+60x40", 'runtime="actors", le="+Inf"'),
            ]
        ],
    ),
    dict(
        name="PorchlightFilesNearlyOut",
        expr='process_open_fds{job="porchlight"} / process_max_fds{job="porchlight"} > 0.8',
        wait="5m",
        severity="ticket",
        summary="The process is close to its limit of open files.",
        description="More than four fifths of the file descriptors are in use. At the limit, the process refuses connections.",
        runbook="files-nearly-out",
        dashboard="porchlight-runtime",
        fires=[([series("process_open_fds", "900x20"), series("process_max_fds", "1024x20")], [LABELS])],
        quiet=[[series("process_open_fds", "90x20"), series("process_max_fds", "1024x20")]],
    ),
    dict(
        name="PorchlightKeysGuessed",
        expr='sum by (job) (rate(porchlight_http_problems_total{code="credential_invalid"}[10m])) > 5',
        wait="10m",
        severity="ticket",
        summary="Many requests carry invalid credentials.",
        description="The cause is a client with an old key, or an attempt to guess keys.",
        runbook="keys-guessed",
        dashboard="porchlight-ingest",
        fires=[([series("porchlight_http_problems_total", "0+600x40", 'code="credential_invalid"')], [dict(job="porchlight")])],
        quiet=[[series("porchlight_http_problems_total", "0+60x40", 'code="credential_invalid"')]],
        at="35m",
    ),
    dict(
        name="PorchlightTooManySeries",
        expr='scrape_samples_scraped{job="porchlight"} > 10000',
        wait="15m",
        severity="ticket",
        summary="A node exposes more series than expected.",
        description="Labels are closed lists, so the number of series does not depend on customers or load.",
        runbook="too-many-series",
        dashboard="porchlight-runtime",
        fires=[([series("scrape_samples_scraped", "20000x40")], [LABELS])],
        quiet=[[series("scrape_samples_scraped", "4000x40")]],
        at="30m",
    ),
    dict(
        name="PorchlightClocksDiffer",
        expr='max by (job, instance) (porchlight_cluster_clock_difference_seconds{job="porchlight"}) > 1',
        wait="1m",
        severity="ticket",
        summary="The clocks of two nodes differ by more than a second.",
        description="Times in answers depend on the node that answers. A node whose clock differs by more than 10 s does not join.",
        runbook="clocks-differ",
        dashboard="porchlight-nodes",
        fires=[([series("porchlight_cluster_clock_difference_seconds", "2.5x20", 'direction="behind"')], [LABELS])],
        quiet=[[series("porchlight_cluster_clock_difference_seconds", "0.4x20", 'direction="behind"')]],
    ),
]
