//! Encodes features as a vector tile.

use super::Feature;

/// The width of a tile in its own units.
pub(super) const EXTENT: f64 = 4_096.0;
/// Features are cut this far beyond the tile.
const BUFFER: f64 = 64.0;

/// A point in units of a tile.
type TilePoint = (f64, f64);

/// Appends a variable-length integer.
pub(super) fn integer(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    integer(out, field << 3 | 2);
    integer(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Encodes the features whose points `place` converts to units of a tile. Returns nothing for a
/// tile without features.
pub(super) fn encode(features: &[&Feature], place: impl Fn((f64, f64)) -> TilePoint) -> Vec<u8> {
    let mut layers: Vec<&str> = features.iter().map(|feature| feature.layer).collect();
    layers.sort_unstable();
    layers.dedup();
    let mut tile = Vec::new();
    for name in layers {
        let (mut encoded, mut kinds) = (Vec::new(), Vec::new());
        for feature in features.iter().filter(|feature| feature.layer == name) {
            let points = feature.points.iter().map(|&point| place(point)).collect();
            let parts = if feature.is_area {
                cut_area(points)
            } else {
                cut_line(&points)
            };
            let geometry = geometry(&parts, feature.is_area);
            if geometry.is_empty() {
                continue;
            }
            let kind = kinds
                .iter()
                .position(|kind| *kind == feature.kind)
                .unwrap_or_else(|| {
                    kinds.push(feature.kind);
                    kinds.len() - 1
                });
            let (mut body, mut tags) = (Vec::new(), Vec::new());
            integer(&mut tags, 0);
            integer(&mut tags, kind as u64);
            bytes(&mut body, 2, &tags);
            body.extend([3 << 3, if feature.is_area { 3 } else { 2 }]);
            bytes(&mut body, 4, &geometry);
            bytes(&mut encoded, 2, &body);
        }
        if encoded.is_empty() {
            continue;
        }
        let mut layer = Vec::new();
        bytes(&mut layer, 1, name.as_bytes());
        layer.extend(encoded);
        bytes(&mut layer, 3, b"kind");
        for kind in kinds {
            let mut value = Vec::new();
            bytes(&mut value, 1, kind.as_bytes());
            bytes(&mut layer, 4, &value);
        }
        integer(&mut layer, 5 << 3);
        integer(&mut layer, EXTENT as u64);
        integer(&mut layer, 15 << 3);
        integer(&mut layer, 2);
        bytes(&mut tile, 3, &layer);
    }
    tile
}

fn geometry(parts: &[Vec<TilePoint>], is_area: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut x, mut y) = (0_i64, 0_i64);
    for part in parts {
        let mut units: Vec<(i64, i64)> = part
            .iter()
            .map(|at| (at.0.round() as i64, at.1.round() as i64))
            .collect();
        units.dedup();
        if is_area && units.first() == units.last() {
            units.pop();
        }
        if units.len() < if is_area { 3 } else { 2 } {
            continue;
        }
        for (number, at) in units.iter().enumerate() {
            match number {
                0 => integer(&mut out, 1 << 3 | 1),
                1 => integer(&mut out, (units.len() as u64 - 1) << 3 | 2),
                _ => {}
            }
            for step in [at.0 - x, at.1 - y] {
                integer(&mut out, ((step << 1) ^ (step >> 63)) as u64);
            }
            (x, y) = *at;
        }
        if is_area {
            integer(&mut out, 1 << 3 | 7);
        }
    }
    out
}

/// Cuts a ring at the edges of the tile (Sutherland and Hodgman 1974).
fn cut_area(ring: Vec<TilePoint>) -> Vec<Vec<TilePoint>> {
    let (low, high) = (-BUFFER, EXTENT + BUFFER);
    let edges: [(fn(TilePoint) -> f64, f64, f64); 4] = [
        (|at| at.0, low, 1.0),
        (|at| at.0, high, -1.0),
        (|at| at.1, low, 1.0),
        (|at| at.1, high, -1.0),
    ];
    let mut ring = ring;
    for (axis, edge, sign) in edges {
        let depth = |at: TilePoint| (axis(at) - edge) * sign;
        let mut kept = Vec::new();
        for (number, &to) in ring.iter().enumerate() {
            let from = ring[(number + ring.len() - 1) % ring.len()];
            let (before, after) = (depth(from), depth(to));
            if (before < 0.0) != (after < 0.0) {
                let share = before / (before - after);
                kept.push((
                    from.0 + share * (to.0 - from.0),
                    from.1 + share * (to.1 - from.1),
                ));
            }
            if after >= 0.0 {
                kept.push(to);
            }
        }
        ring = kept;
        if ring.is_empty() {
            return Vec::new();
        }
    }
    vec![ring]
}

/// Cuts a line at the edges of the tile.
fn cut_line(points: &[TilePoint]) -> Vec<Vec<TilePoint>> {
    let (low, high) = (-BUFFER, EXTENT + BUFFER);
    let mut parts: Vec<Vec<TilePoint>> = Vec::new();
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for (step, room) in [
            (-dx, a.0 - low),
            (dx, high - a.0),
            (-dy, a.1 - low),
            (dy, high - a.1),
        ] {
            if step == 0.0 {
                if room < 0.0 {
                    leave = -1.0;
                }
            } else if step < 0.0 {
                enter = enter.max(room / step);
            } else {
                leave = leave.min(room / step);
            }
        }
        if enter > leave {
            continue;
        }
        let at = |share: f64| (a.0 + share * dx, a.1 + share * dy);
        let (from, to) = (at(enter), at(leave));
        match parts.last_mut() {
            Some(part) if part.last() == Some(&from) => part.push(to),
            _ => parts.push(vec![from, to]),
        }
    }
    parts
}
