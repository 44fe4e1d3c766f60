use porchlight_bench::sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap();
    let t0 = std::time::Instant::now();
    for kind in Kind::ALL {
        if a.len() > 2 && kind.as_str() != a[2] {
            continue;
        }
        for seed in 0..n {
            for set in [ParameterSet::Tuning, ParameterSet::HeldOut] {
                let d = Scenario::new(kind, set, seed).deliver();
                let v = serde_json::json!({"kind": kind.as_str(), "seed": seed, "set": format!("{set:?}"), "end": d.end_t, "samples": d.samples, "truth": d.truth.labels(d.end_t), "start": d.start});
                println!("{v}");
            }
        }
    }
    eprintln!("{:?}", t0.elapsed());
}
