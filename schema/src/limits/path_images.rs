//! Path images, and the signed links to them and to access archives.

/// Number of path images that a node caches, about 150 KB each, or 400 KB on a street map; the
/// oldest of the organization with most images is evicted.
pub const PATH_IMAGES_KEPT_MAX: usize = 64;
/// Maximum number of path images that a node draws at the same time; one of each organization.
pub const PATH_IMAGES_DRAWN_AT_ONCE_MAX: usize = 2;
/// Maximum number of an organization's requests that draw a path image or wait for one on a node;
/// further ones are answered with 429.
pub const ORGANIZATION_PATH_IMAGES_WAITING_MAX: usize = 32;
/// Maximum number of requests per second with one signed link to a path image, or with an
/// organization's links to access archives, on one node: each writes a line into the audit log.
pub const LINK_REQUESTS_PER_SEC: u32 = 10;
/// Burst of requests with one signed link, on one node.
pub const LINK_REQUESTS_BURST: u32 = 30;
