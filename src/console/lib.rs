#![doc = include_str!("README.md")]

mod assets;
mod audit;
mod board;
mod deliveries;
mod descriptions;
mod form;
mod guard;
mod keys;
mod layout;
mod list_query;
mod live_sessions;
mod names;
mod overview;
mod privacy;
mod recorders;
mod return_to;
mod route;
mod session_cookie;
mod sessions;
mod sign_in;
mod signed_in;
mod state;
mod streams;
mod street_map;
mod throttle;
mod webhook;

use std::time::Duration;

use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use porchlight_http::State;
use porchlight_http::problem::Problem;
use porchlight_observe::Task;
use porchlight_observe::http::Route;
use porchlight_observe::restarts::Restarts;

use route::ROOT;
pub use state::Console;

/// The interval at which outdated state is removed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60);

/// Calls [`Console::clean_up`] periodically, forever. Spawn it once.
pub async fn run_cleanup(console: Data<Console>, state: Data<State>) {
    let mut restarts = Restarts::new(Task::Cleanup);
    loop {
        tokio::time::sleep(CLEANUP_INTERVAL).await;
        let round = async { console.clean_up(state.service.now()) };
        let _cleaned = restarts.run(round).await;
    }
}

/// Adds the console's routes. They use the [`State`] of the application.
pub fn routes(console: Data<Console>) -> impl Fn(&mut ServiceConfig) + Clone {
    move |config| {
        let scope = web::scope(ROOT)
            .app_data(Route::Console)
            .wrap(from_fn(guard::guard))
            .configure(overview::routes)
            .configure(assets::routes)
            .configure(sign_in::routes)
            .configure(webhook::routes)
            .configure(deliveries::routes)
            .configure(sessions::routes)
            .configure(keys::routes)
            .configure(recorders::routes)
            .configure(audit::routes)
            .configure(privacy::routes)
            .configure(board::routes)
            .configure(street_map::routes)
            .default_service(web::to(|| async {
                Err::<actix_web::HttpResponse, _>(Problem::not_found())
            }));
        config.app_data(console.clone());
        config.service(scope);
    }
}
