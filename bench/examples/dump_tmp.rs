use porchlight_bench::sim::*;
use std::io::Write;
fn main() {
    let out = std::env::args().nth(1).unwrap();
    let n: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    for kind in Kind::ALL {
        for seed in 0..n {
            let d = Scenario::new(kind, ParameterSet::Tuning, seed).deliver();
            let name = format!("{}_{:03}", kind.as_str(), seed);
            let mut f = std::io::BufWriter::new(
                std::fs::File::create(format!("{out}/{name}.ndjson")).unwrap(),
            );
            let mut streams = serde_json::Map::new();
            for s in &d.samples {
                writeln!(f, "{}", serde_json::to_string(s).unwrap()).unwrap();
                streams.insert(s.reading.kind().into(), serde_json::json!({}));
            }
            let mut l = d.truth.labels(d.end_t);
            l["recording"] = name.clone().into();
            l["streams"] = streams.into();
            l["start"] = d.start.clone();
            std::fs::write(format!("{out}/{name}.labels.json"), l.to_string()).unwrap();
        }
    }
}
