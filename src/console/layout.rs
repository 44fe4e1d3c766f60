//! The layout around every page, and the small parts of pages.

mod parts;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use porchlight_http::problem::Problem;
use porchlight_http::request_id::RequestId;
use porchlight_schema::key::{Permission, Role};
use porchlight_schema::session::Env;
use porchlight_schema::time::TimestampMs;

use super::assets::{ICON, SCRIPT, STYLE, address};
use super::descriptions;
use super::form::CSRF_FIELD;
use super::route::ROOT;
pub(super) use parts::{
    Icon, ago, clock, copy, counted, duration, empty, icon, next_page, status, thousands, time,
    zone,
};

/// The navigation entry to which a page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Board,
    Sessions,
    Deliveries,
    Webhook,
    Keys,
    Recorders,
    Privacy,
    Audit,
}

impl Section {
    const ALL: [(Self, &'static str, &'static str, Icon); 9] = [
        (Self::Overview, "", "Overview", Icon::Overview),
        (Self::Board, "/board", "Live board", Icon::Live),
        (Self::Sessions, "/sessions", "Sessions", Icon::Sessions),
        (
            Self::Deliveries,
            "/deliveries",
            "Webhook deliveries",
            Icon::Deliveries,
        ),
        (Self::Webhook, "/webhook", "Webhook", Icon::Webhook),
        (Self::Keys, "/keys", "Keys", Icon::Keys),
        (
            Self::Recorders,
            "/recorders",
            "Try it with a phone",
            Icon::Phone,
        ),
        (Self::Privacy, "/privacy", "Privacy requests", Icon::Privacy),
        (Self::Audit, "/audit", "Audit log", Icon::Info),
    ];
}

/// The facts about the visitor that every page needs.
pub(super) struct Frame<'a> {
    /// The selected environment.
    pub(super) env: Env,
    /// The organization's name.
    pub(super) organization: &'a str,
    /// The role of the key that signed in.
    pub(super) role: Role,
    /// The displayable part of the key.
    pub(super) key: String,
    /// The CSRF token of this session.
    pub(super) csrf_token: String,
    /// The current time.
    pub(super) now: TimestampMs,
}

impl Frame<'_> {
    /// Returns whether the visitor has this permission. Pages omit elements that the role does not
    /// allow.
    pub(super) fn may(&self, permission: Permission) -> bool {
        self.role.may(permission)
    }

    /// Returns whether the visitor may make changes other than retries of deliveries.
    pub(super) fn may_change(&self) -> bool {
        self.may(Permission::Change)
    }

    /// Renders the hidden field that every form of a page carries.
    pub(super) fn field(&self) -> Markup {
        html! { input type="hidden" name=(CSRF_FIELD) value=(self.csrf_token); }
    }

    /// Renders a whole page.
    pub(super) fn page(&self, section: Section, title: &str, body: Markup) -> Markup {
        self.page_with(section, title, html! {}, body)
    }

    /// Renders a whole page with additional head elements.
    pub(super) fn page_with(
        &self,
        section: Section,
        title: &str,
        head: Markup,
        body: Markup,
    ) -> Markup {
        let (class, name, meaning) = match self.env {
            Env::Sandbox => ("sandbox", "Sandbox", "Test data. No real deliveries."),
            Env::Production => ("live", "Production", "Real deliveries and real webhooks."),
        };
        document(
            &format!("{title} · {name}"),
            class,
            head,
            html! {
                aside.env aria-label="Environment" { strong { (name) } span { (meaning) } }
                div.shell {
                    header.side {
                        a.brand href=(ROOT) { (logo()) span { "Porchlight" } }
                        nav aria-label="Main" {
                            ul {
                                @for (entry, path, label, glyph) in Section::ALL {
                                    li { a href={ (ROOT) (path) } aria-current=[(entry == section).then_some("page")] { (icon(glyph)) (label) } }
                                }
                            }
                        }
                        div.who {
                            p.org title="Organization" { (self.organization) }
                            p.mono.faint title="The key of this sign-in" { (self.key) }
                            p.faint title=(descriptions::role(self.role)) { "Role: " (self.role.as_str()) }
                            p.zone hidden { label for="zone" { "Times in" } select #zone { option value="utc" { "UTC" } option value="local" { "local time" } } }
                            form method="post" action={ (ROOT) "/sign-out" } {
                                (self.field())
                                button.quiet { "Sign out" }
                            }
                        }
                    }
                    main #main tabindex="-1" { (body) }
                }
            },
        )
    }
}

/// Renders a page for a visitor who is not signed in.
pub(super) fn signed_out_page(title: &str, body: Markup) -> Markup {
    document(
        title,
        "out",
        html! {},
        html! {
            main.gate #main tabindex="-1" {
                p.brand { (logo()) span { "Porchlight" } }
                div.card { (body) }
            }
        },
    )
}

/// Renders an error page.
pub(super) fn error(problem: &Problem, request_id: &RequestId) -> Markup {
    let status = problem.code().status();
    signed_out_page(
        problem.code().title(),
        html! {
            h1 { (problem.code().title()) }
            p.lead { (problem.detail()) }
            @if status.is_server_error() {
                p { "Try again in a moment. If the error persists, send this reference to your operator:" }
            }
            p.faint.mono { (status.as_u16()) " · " (problem.code().as_str()) " · " (request_id.as_str()) }
            p { a.button href=(ROOT) { "Go to the overview" } }
        },
    )
}

fn document(title: &str, class: &str, head: Markup, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Porchlight" }
                link rel="stylesheet" href=(address(&STYLE));
                link rel="icon" type="image/svg+xml" href=(address(&ICON));
                script type="module" src=(address(&SCRIPT)) {}
                (head)
            }
            body class=(class) {
                a.skip href="#main" { "Skip to content" }
                (body)
            }
        }
    }
}

/// Renders the lamp logo.
fn logo() -> Markup {
    PreEscaped(
        r#"<svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><rect width="32" height="32" rx="7"/><path class="cone" d="M12 17.500h8l5 9.500H7z"/><path class="lamp" d="M16 4.500v4.500M9 15.500a7 7 0 0 1 14 0z"/></svg>"#
            .to_owned(),
    )
}

/// Renders a message about the success or failure of an action.
pub(super) fn notice(kind: Notice, words: &str) -> Markup {
    let (class, glyph) = match kind {
        Notice::Good => ("notice good", Icon::Check),
        Notice::Bad => ("notice bad", Icon::Cross),
        Notice::Note => ("notice note", Icon::Info),
    };
    html! { p class=(class) role="status" { (icon(glyph)) span { (words) } } }
}

/// The kind of a [`notice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Good,
    Bad,
    Note,
}

/// Renders a cause in words.
pub(super) fn cause(cause: porchlight_core::webhook::Cause) -> Markup {
    html! { span title=(cause.as_str()) { (descriptions::cause(cause).0) } }
}
