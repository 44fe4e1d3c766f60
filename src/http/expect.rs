//! Answers `Expect: 100-continue` when a handler first reads the body, so that a request that is
//! refused by its head gets its final answer only and its body is never sent.
//!
//! The framework sends `100 Continue` as soon as its "expect" service returns the request. The
//! service of this module therefore runs the handler itself, with a payload that is pending. When
//! the handler asks for the payload, the service returns a placeholder request that carries the
//! handler's future, and [`resume`] continues it. When the handler refuses the request before
//! that, its answer is the error of the "expect" service, which is sent in place of `100 Continue`.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_http::{BoxedPayloadStream, Payload, Request};
use actix_web::body::BoxBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::error::{InternalError, PayloadError};
use actix_web::http::ConnectionType;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage, HttpResponse};
use futures_util::future::{Either, ready};
use futures_util::{FutureExt, Stream};

use super::unread;

/// The handling of a request that has begun.
type Handling = Pin<Box<dyn Future<Output = Result<ServiceResponse<BoxBody>, Error>>>>;

/// The payload of a request until its handler asks for it.
struct PendingPayload {
    payload: Payload,
    /// Whether the payload may be read.
    is_released: bool,
    /// The handler's task, once it has asked for the payload.
    reader: Option<Waker>,
    /// The task that releases the payload.
    releaser: Option<Waker>,
}

/// The payload as the handler sees it.
struct Deferred(Rc<RefCell<PendingPayload>>);

impl Stream for Deferred {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut pending = self.0.borrow_mut();
        if pending.is_released {
            return Pin::new(&mut pending.payload).poll_next(context);
        }
        pending.reader = Some(context.waker().clone());
        if let Some(releaser) = pending.releaser.take() {
            releaser.wake();
        }
        Poll::Pending
    }
}

/// The handling of a request, after its handler has asked for the payload.
struct Begun {
    handling: Handling,
    pending: Rc<RefCell<PendingPayload>>,
}

/// Handles a request with `Expect: 100-continue` until it is refused or its body is needed.
struct Held {
    handling: Option<Handling>,
    pending: Rc<RefCell<PendingPayload>>,
}

/// Runs the handler of a request until it needs the body. The returned request belongs to
/// [`resume`].
///
/// # Errors
///
/// Returns the final answer, if the handler refuses the request without reading its body.
pub(super) fn hold<S>(
    request: Request,
    app: &S,
) -> impl Future<Output = Result<Request, Error>> + use<S>
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = Error>,
    S::Future: 'static,
{
    let (request, payload) = request.replace_payload(Payload::None::<BoxedPayloadStream>);
    let pending = Rc::new(RefCell::new(PendingPayload {
        payload,
        is_released: false,
        reader: None,
        releaser: None,
    }));
    let deferred: BoxedPayloadStream = Box::pin(Deferred(Rc::clone(&pending)));
    let payload = Payload::Stream { payload: deferred };
    let (request, _none) = request.replace_payload(payload);
    Held {
        handling: Some(Box::pin(app.call(request))),
        pending,
    }
}

impl Future for Held {
    type Output = Result<Request, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.pending.borrow_mut().releaser = Some(context.waker().clone());
        let Some(mut handling) = this.handling.take() else {
            return Poll::Pending;
        };
        match handling.poll_unpin(context) {
            Poll::Ready(Ok(response)) if is_refusal(&response) => {
                let (_request, response) = response.into_parts();
                let response = unread::keep_in_response(response, Rc::clone(&this.pending));
                return Poll::Ready(Err(refused(response)));
            }
            Poll::Ready(Err(error)) => {
                let response = error.error_response();
                let response = unread::keep_in_response(response, Rc::clone(&this.pending));
                return Poll::Ready(Err(refused(response)));
            }
            // The body of this answer may read the payload: a stream answers while it reads.
            Poll::Ready(Ok(response)) => handling = ready(Ok(response)).boxed_local(),
            Poll::Pending if this.pending.borrow().reader.is_none() => {
                this.handling = Some(handling);
                return Poll::Pending;
            }
            Poll::Pending => {}
        }
        let mut pending = this.pending.borrow_mut();
        pending.is_released = true;
        if let Some(reader) = pending.reader.take() {
            reader.wake();
        }
        let placeholder = Request::new();
        placeholder.extensions_mut().insert(Begun {
            handling,
            pending: Rc::clone(&this.pending),
        });
        Poll::Ready(Ok(placeholder))
    }
}

/// Returns the error that sends a final answer in place of `100 Continue`.
fn refused(mut response: HttpResponse) -> Error {
    // The client may send the body or not. Only a new connection has a known state.
    let head = response.head_mut();
    head.set_connection_type(ConnectionType::Close);
    InternalError::from_response("the request was refused by its head", response).into()
}

fn is_refusal(response: &ServiceResponse<BoxBody>) -> bool {
    let status = response.status();
    status.is_client_error() || status.is_server_error()
}

/// Handles a request, or continues the handling that [`hold`] began.
pub(super) fn resume<S>(
    request: Request,
    app: &S,
) -> impl Future<Output = Result<ServiceResponse<BoxBody>, Error>> + use<S>
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = Error>,
{
    let begun = request.extensions_mut().remove::<Begun>();
    match begun {
        Some(Begun { handling, pending }) => {
            Either::Left(handling.map(|answer| unread::keep_in_answer(answer, pending)))
        }
        None => Either::Right(unread::handle(request, app)),
    }
}
