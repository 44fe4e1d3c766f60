//! Limits of personal data: archives, the audit log, reviews and privacy requests.

/// Maximum size of the files of an access archive in bytes, before compression. The archive is
/// built in memory.
pub const ACCESS_ARCHIVE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Maximum number of sessions in an access archive.
pub const ACCESS_ARCHIVE_SESSIONS_MAX: usize = 10_000;
/// The days for which a line of the audit log is kept, unless its organization has chosen fewer. A
/// full year remains available.
pub const AUDIT_DAYS_MAX: u32 = 400;
/// [`AUDIT_DAYS_MAX`] in milliseconds.
pub const AUDIT_KEPT_MS: i64 = AUDIT_DAYS_MAX as i64 * 24 * 3_600 * 1_000;
/// The fewest days for the audit log that an operator may allow organizations to choose. An
/// investigation often begins weeks after the act.
pub const AUDIT_DAYS_MIN: u32 = 30;
/// The fewest days for the audit log that organizations may choose, unless the operator allows
/// others.
pub const AUDIT_SHORTEST_DAYS_DEFAULT: u32 = 180;
/// The part of the audit log, by its time, that one sweep removes at most.
pub const AUDIT_SWEEP_MS_MAX: i64 = 20 * 24 * 3_600 * 1_000;
/// Maximum number of lines in one group of the audit log, which is one stored row.
pub const AUDIT_GROUP_LINES_MAX: usize = 64;
/// The number of groups stored in one part: one partition of at most about 4 MiB on a CQL cluster.
pub const AUDIT_PART_GROUPS: u64 = 256;
/// Maximum number of lines that a node holds before they are committed.
pub const AUDIT_QUEUE_LINES_MAX: usize = 4_096;
/// The time for which the audit log gathers lines before it commits them.
pub const AUDIT_GATHER_MS: u64 = 200;
/// Maximum number of lines of one tenant that a node holds, including those that are being
/// committed.
pub const AUDIT_TENANT_LINES_MAX: usize = 1_024;
/// Maximum number of tenants whose lines a node commits at the same time.
pub const AUDIT_COMMITS_AT_ONCE_MAX: usize = 8;
/// The first pause before a node retries an append to an audit log, in milliseconds. Each further
/// one is twice as long, up to [`AUDIT_RETRY_MS_MAX`].
pub const AUDIT_RETRY_FIRST_MS: u64 = 20;
/// The longest pause before a node retries an append to an audit log, in milliseconds.
pub const AUDIT_RETRY_MS_MAX: u64 = 500;
/// The maximum time that a request waits for room in the audit log before it is refused.
pub const AUDIT_ROOM_MS_MAX: u64 = 5_000;
/// The interval at which a node retries the appends to an audit log with a damaged row.
pub const AUDIT_SET_ASIDE_RETRY_MS: u64 = 2_000;
/// Maximum number of groups that one page of the audit log reads.
pub const AUDIT_PAGE_GROUPS_MAX: u64 = 2_048;
/// Maximum length of the note of a review in characters.
pub const REVIEW_NOTE_CHARS_MAX: usize = 2_000;
/// Maximum number of messages of restricted sessions that one listing of an outbox passes, to find
/// the messages behind them. A listing names each session once, in about 50 bytes.
pub const WEBHOOK_HIDDEN_ROWS_MAX: usize = 131_072;
/// The interval at which a node checks for changed privacy marks and open privacy requests, in
/// milliseconds.
pub const PRIVACY_MARKS_REFRESH_MS: u64 = 500;
/// The time that an erasure waits after its mark was written, so that requests in flight on this
/// node end, in milliseconds.
pub const PRIVACY_SETTLE_ALONE_MS: i64 = 500;
/// The time that a request waits after its mark was written, so that all nodes know the mark and
/// their requests in flight have ended, in milliseconds.
pub const PRIVACY_SETTLE_SHARED_MS: i64 = 10_000;
/// Maximum number of privacy requests that one node performs at the same time, without the
/// restrictions and releases that change a mark.
pub const PRIVACY_REQUESTS_AT_ONCE_MAX: usize = 4;
/// Maximum number of privacy requests of one tenant that a node performs at the same time.
pub const TENANT_PRIVACY_REQUESTS_AT_ONCE_MAX: usize = 2;
/// Maximum number of restrictions and releases that change a mark on one node at the same time, at
/// most one of each tenant.
pub const PRIVACY_IMMEDIATE_AT_ONCE_MAX: usize = 2;
/// The pause before a failed privacy request is retried, in milliseconds. It doubles with each
/// further failure.
pub const PRIVACY_RETRY_MS: u64 = 1_000;
/// The longest pause before a failed privacy request is retried, in milliseconds.
pub const PRIVACY_RETRY_MS_MAX: u64 = 30_000;
/// The time after which the owner removes the entry of an open privacy request that does not exist,
/// because it was interrupted while it was submitted, in milliseconds: 24 hours.
pub const PRIVACY_ABSENT_MS_MAX: i64 = 24 * 3_600 * 1_000;
/// Maximum number of open privacy requests of a tenant. A node keeps about 300 bytes of each.
pub const PRIVACY_OPEN_REQUESTS_MAX: usize = 10_000;
/// Maximum number of subjects of a tenant with a restriction, a suppression or a legal hold. Each
/// node keeps about 200 bytes of each.
pub const PRIVACY_MARKS_MAX: usize = 10_000;
/// The number of changes of marks that are listed for other nodes, of 25 bytes each. A node that
/// has missed more than half as many reads all marks.
pub const PRIVACY_CHANGES_KEPT: usize = 128;
/// Maximum number of privacy requests read per query when all of a tenant are examined, of at most
/// about 64 KiB each.
pub const PRIVACY_REQUESTS_SCANNED_MAX: usize = 100;
/// The pause of an erasure after each session, so that client requests have priority, in
/// milliseconds.
pub const PRIVACY_ERASE_PAUSE_MS: u64 = 1;
/// The default delay before an erasure or a collection of data begins, in which it can be
/// cancelled, in milliseconds.
pub const PRIVACY_DELAY_MS_DEFAULT: i64 = 3_000;
/// The longest delay that can be configured, in milliseconds: 7 days. A customer must answer a
/// request within a month by law.
pub const PRIVACY_DELAY_MS_MAX: i64 = 7 * 24 * 3_600 * 1_000;
/// Maximum length of the caller's id of a privacy request in characters.
pub const PRIVACY_REQUEST_ID_CHARS_MAX: usize = 128;
/// Maximum length of the reason of a privacy request in characters.
pub const PRIVACY_REASON_CHARS_MAX: usize = 1_000;
const _: () = assert!(PRIVACY_SETTLE_SHARED_MS > 3 * PRIVACY_MARKS_REFRESH_MS as i64);
/// The time for which the archive of an access request can be downloaded after the request was
/// completed: 24 hours.
pub const ACCESS_DOWNLOAD_MS: i64 = 24 * 3_600 * 1_000;
/// Maximum number of ranges of data keys that the receipt of an erasure names, of at most 40 bytes
/// each. A receipt counts further keys.
pub const RECEIPT_KEY_RANGES_MAX: usize = 1_024;
/// Maximum number of access archives that a node builds or sends at the same time, in memory.
pub const ACCESS_ARCHIVES_AT_ONCE_MAX: usize = 2;
/// Time after which a client that has not received its whole access archive is disconnected:
/// others wait for the turn that the archive occupies. A large one of 50 MiB needs 170 KiB per
/// second.
pub const ACCESS_ARCHIVE_SENT_MS_MAX: u64 = 300_000;

/// The number of data keys in one file of the embedded store: 128 KiB of 32 bytes each.
pub const DATA_KEYS_PER_FILE: u64 = 4_096;
/// Maximum number of data keys in memory, of about 80 bytes each.
pub const DATA_KEYS_CACHED_MAX: usize = 262_144;
/// Maximum number of sessions whose data key the writer of the embedded store remembers, of about
/// 40 bytes each.
pub const DATA_KEY_SESSIONS_MAX: usize = 262_144;
/// The number of destroyed data keys after which the embedded store syncs their files even if no
/// erasure waits for it.
pub const DATA_KEYS_UNSYNCED_MAX: usize = 1_024;
