//! Tests the promises of every store, through the ports. Each check creates its own tenant and
//! sessions, so that one store can serve them all.

pub mod documents;
pub mod erasure;
pub mod insights;
pub mod journal;
pub mod keys;
pub mod outbox;
pub mod sessions;

/// Expands to all checks, each as its own test, on the subject created by `$make`.
macro_rules! suite {
    ($name:ident, $make:expr) => {
        $crate::conformance::suite!(@checks $name, $make,
            journal::appends_are_idempotent_and_never_overwrite,
            journal::batches_come_back_in_order_in_parts,
            journal::batches_are_counted_in_any_order_and_once,
            journal::acknowledged_and_missing_batches_are_reported,
            journal::one_of_several_concurrent_bodies_is_stored,
            journal::notes_are_a_set,
            keys::an_organization_is_created_once,
            keys::a_key_is_created_and_revoked_once,
            sessions::a_repeated_start_returns_the_same_session,
            sessions::idempotency_keys_are_kept_for_a_day,
            sessions::idempotency_keys_are_per_tenant,
            sessions::concurrent_starts_under_one_key_make_one_session,
            sessions::the_first_end_counts,
            sessions::one_of_several_concurrent_ends_is_first,
            sessions::the_first_stop_after_a_timeout_counts,
            sessions::a_pod_is_replaced_and_not_repeated,
            sessions::lists_are_newest_first_filtered_and_paged,
            sessions::lists_end_at_times,
            sessions::live_sessions_are_found,
            insights::an_insight_that_may_be_behind_is_found,
            sessions::messages_are_numbered_without_gaps,
            sessions::messages_without_a_webhook_are_dropped,
            sessions::messages_of_a_paused_webhook_are_kept,
            insights::the_highest_snapshot_wins,
            insights::revisions_follow_each_other,
            insights::one_of_several_concurrent_revisions_is_committed,
            outbox::an_endpoint_is_created_changed_and_removed_once,
            outbox::waiting_messages_are_listed_until_they_are_done,
            outbox::a_lane_is_in_order_and_parked_messages_are_not_listed,
            outbox::manual_retries_are_requested_and_completed,
            outbox::deliveries_are_listed_newest_first_by_status,
            outbox::deliveries_to_retry_are_listed_oldest_first_and_requested,
            outbox::an_outbox_reports_its_depth,
            insights::a_review_is_kept_beside_each_insight,
            documents::a_document_is_replaced_only_if_it_is_as_expected,
            documents::documents_are_listed_by_collection_in_order,
            erasure::an_erased_session_leaves_nothing_and_others_stay,
            erasure::an_erasure_may_be_repeated,
            erasure::a_trace_is_removed_with_its_session,
            erasure::telemetry_and_messages_are_removed_separately,
            erasure::nothing_is_stored_for_an_erased_session,
            erasure::idempotency_keys_of_erased_sessions_are_removed_or_expire,
            erasure::recorders_are_listed,
        );
    };
    (@checks $name:ident, $make:expr, $($group:ident :: $check:ident,)+) => {
        mod $name {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    let subject = $make;
                    super::conformance::$group::$check(&subject).await;
                }
            )+
        }
    };
}
pub(crate) use suite;
