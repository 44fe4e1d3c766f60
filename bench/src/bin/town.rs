//! Writes the synthetic town: a PMTiles file with the layers of the Protomaps basemap, for tests
//! and for `porchlight demo`. It contains no data of OpenStreetMap. The town lies in the Atlantic,
//! so that it cannot be mistaken for a real one.
//!
//! `cargo run -p porchlight-bench --features town --bin porchlight-town -- src/map/town.pmtiles`

use porchlight_bench::town::{Town, pmtiles};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("specify a target file")?;
    let bytes = pmtiles::write(&Town::new())?;
    std::fs::write(&file, &bytes)?;
    println!("{} bytes", bytes.len());
    Ok(())
}
