//! `porchlight privacy`: manages privacy requests through a running service.

use clap::{Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::ServiceArguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Submit a request and print its state.
    Submit {
        /// The type of the request.
        request_type: TypeArgument,
        /// Your id for the request; submitting the same id again returns the same request.
        #[arg(long, value_name = "ID")]
        request: String,
        #[command(flatten)]
        subject: SubjectArguments,
        /// Refuse new sessions of the courier from now on.
        #[arg(long)]
        suppress: bool,
        #[command(flatten)]
        service: ServiceArguments,
    },
    /// Print the state of a request.
    Show {
        /// Your id for the request.
        request: String,
        #[command(flatten)]
        service: ServiceArguments,
    },
    /// Print the newest requests, one per line.
    List {
        #[command(flatten)]
        service: ServiceArguments,
    },
    /// Cancel a request that is still pending.
    Cancel {
        /// Your id for the request.
        request: String,
        #[command(flatten)]
        service: ServiceArguments,
    },
}

/// The subject of the request. Exactly one argument must be given.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct SubjectArguments {
    /// Your id for the courier.
    #[arg(long, value_name = "ID")]
    rider: Option<String>,
    /// Your id for the delivery.
    #[arg(long, value_name = "ID")]
    delivery: Option<String>,
    /// The id of the session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TypeArgument {
    /// Remove all data about the subject.
    Erasure,
    /// Collect all stored data about the subject.
    Access,
    /// Freeze the subject's sessions.
    Restriction,
    /// Lift restriction and suppression.
    Release,
}

impl TypeArgument {
    fn as_str(self) -> &'static str {
        match self {
            Self::Erasure => "erasure",
            Self::Access => "access",
            Self::Restriction => "restriction",
            Self::Release => "release",
        }
    }
}

impl SubjectArguments {
    fn to_json(&self) -> Value {
        match (&self.rider, &self.delivery, &self.session) {
            (Some(id), _, _) => json!({ "externalRiderId": id }),
            (None, Some(id), _) => json!({ "deliveryId": id }),
            (None, None, id) => json!({ "sessionId": id }),
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    super::block_on(dispatch(&arguments.action))
}

async fn dispatch(action: &Action) -> anyhow::Result<()> {
    let path = |request: &str| format!("/v1/privacy/requests/{request}");
    match action {
        Action::Submit {
            request_type,
            request,
            subject,
            suppress,
            service,
        } => {
            let mut body = json!({
                "requestId": request,
                "type": request_type.as_str(),
                "subject": subject.to_json(),
            });
            if *suppress {
                body["suppress"] = true.into();
            }
            let submitted = service
                .client()?
                .call(Method::POST, "/v1/privacy/requests", Some(&body))
                .await?;
            say!("{submitted}")
        }
        Action::Show { request, service } => {
            let shown = service
                .client()?
                .call(Method::GET, &path(request), None)
                .await?;
            say!("{shown}")
        }
        Action::List { service } => {
            let page = service
                .client()?
                .call(Method::GET, "/v1/privacy/requests?limit=200", None)
                .await?;
            for request in page["data"].as_array().into_iter().flatten() {
                say!("{request}")?;
            }
            Ok(())
        }
        Action::Cancel { request, service } => service.client()?.delete(&path(request)).await,
    }
}
