//! Shares and quantiles.

/// Returns the value below which `share` of the values lie, or `None` without values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (share.clamp(0.0, 1.0) * (sorted.len().checked_sub(1)?) as f64).round() as usize;
    sorted.get(place).copied()
}

/// Returns the share of `part`, or `None` if the whole is 0.
pub(crate) fn share(part: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| f64::from(part) / f64::from(whole))
}
