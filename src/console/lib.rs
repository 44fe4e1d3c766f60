//! The management console at `/console` on the public listener (contract section 10): what a customer's people look
//! at. Pages are rendered here, work as plain links and forms, and have one small script of their own for what moves.
//!
//! **It has no powers of its own.** A page calls the functions that the API's handlers call, for the tenant of the key
//! that signed in, and answers 404 for what is another's.
//!
//! **Signing in.** A secret key is exchanged for a cookie that holds a sealed [`ticket`]: which key it was (its hash,
//! encrypted), and since when. At every request the key is looked up again, by the same short-lived memory as the API's,
//! so that a revocation ends the console's sessions as it ends everything else.
//!
//! **What comes in.** [`guard`] refuses unsafe methods from another origin before anything else is done, and every form
//! carries a word that only this session's pages know. [`guard`] also puts the security headers on every answer, and
//! turns an error into a page.

mod asked;
mod assets;
mod deliveries;
mod form;
mod guard;
mod keys;
mod layout;
mod names;
mod overview;
mod return_to;
mod route;
mod sessions;
mod sign_in;
mod state;
mod streams;
mod throttle;
mod ticket;
mod visit;
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

/// How often what is too old to matter is let go.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Calls [`Console::tidy`] from time to time, for ever. Spawn it once.
pub async fn keep_tidy(console: Data<Console>, state: Data<State>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        console.tidy(state.service.now());
    }
}

/// Adds the console's routes. They answer from the [`State`] of the application.
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
            .default_service(web::to(|| async {
                Err::<actix_web::HttpResponse, _>(Problem::not_found())
            }));
        config.app_data(console.clone());
        config.service(scope);
    }
}
