//! The floor: the cost of receiving and parsing a batch and nothing else. It runs one actix-web
//! worker, reads the whole body (at most 1 MiB) and parses it with `serde_json` in one pass into a
//! flat struct per sample.

use actix_web::{App, HttpResponse, HttpServer, web};
use clap::Parser;
use porchlight_bench::body::Batch;

#[derive(Debug, Parser)]
struct Arguments {
    /// The port on the loopback interface.
    #[arg(long, default_value_t = 18_080)]
    port: u16,
}

async fn telemetry(body: web::Bytes) -> HttpResponse {
    match serde_json::from_slice::<Batch<'_>>(&body) {
        Ok(batch) => HttpResponse::Accepted()
            .content_type("application/json")
            .body(format!(
                "{{\"ackSeq\":{},\"samples\":{}}}",
                batch.seq,
                batch.samples.len()
            )),
        Err(_) => HttpResponse::BadRequest().finish(),
    }
}

async fn empty() -> HttpResponse {
    HttpResponse::Accepted().finish()
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let app = || {
        App::new()
            .app_data(web::PayloadConfig::new(1024 * 1024))
            .route("/telemetry", web::post().to(telemetry))
            .route("/", web::get().to(empty))
    };
    let server = HttpServer::new(app)
        .workers(1)
        .bind(("127.0.0.1", arguments.port))?
        .run();
    actix_web::rt::System::new().block_on(server)?;
    Ok(())
}
