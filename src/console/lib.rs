//! The management console at `/console` on the public listener (contract section 10), for a
//! customer's staff. Pages are rendered here, work as plain links and forms, and have one small
//! script of their own for dynamic parts.
//!
//! **The console has no powers of its own.** A page calls the same functions as the API's handlers,
//! for the tenant of the key that signed in, and answers 404 for objects of other tenants.
//!
//! **Signing in.** A secret key is exchanged for a cookie that holds a sealed [`ticket`]: the
//! identity of the key (its hash, encrypted) and the sign-in time. Every request looks up the key
//! again, in the same short-lived cache as the API, so that a revocation also ends the console's
//! sessions.
//!
//! **Incoming requests.** [`guard`] refuses unsafe methods from another origin before anything else
//! is done, and every form carries a word that only this session's pages know. [`guard`] also sets
//! the security headers on every answer and turns errors into pages.

mod assets;
mod audit;
mod board;
mod deliveries;
mod form;
mod guard;
mod keys;
mod layout;
mod list_query;
mod live_sessions;
mod names;
mod overview;
mod painting;
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
mod words;

use std::time::Duration;

use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use porchlight_http::State;
use porchlight_http::problem::Problem;
use porchlight_observe::http::Route;

use route::ROOT;
pub use state::Console;

/// The interval at which outdated state is removed.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Calls [`Console::tidy`] periodically, forever. Spawn it once.
pub async fn keep_tidy(console: Data<Console>, state: Data<State>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        console.tidy(state.service.now());
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
