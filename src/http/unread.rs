//! Closes the connection of a request whose chunked body was not read to its end.
//!
//! After an answer, the framework reads the rest of a chunked body to reuse the connection, without
//! a deadline and without a limit, if the payload was dropped. If the payload still exists, it
//! closes the connection, as it does for a body of known length. The body of the answer therefore
//! keeps the payload.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_http::{BoxedPayloadStream, Payload, Request};
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Service, ServiceResponse};
use actix_web::error::{InternalError, PayloadError};
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage, HttpResponse};
use futures_util::Stream;
use futures_util::future::Either;

/// The payload of a request, shared by its handler and its answer.
struct SharedPayload(Rc<RefCell<Payload>>);

impl Stream for SharedPayload {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_next(context)
    }
}

/// The body of an answer that keeps the payload of its request.
struct KeepingBody<P> {
    body: BoxBody,
    _payload: P,
}

impl<P: Unpin> MessageBody for KeepingBody<P> {
    type Error = Box<dyn StdError>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}

/// Returns a body that keeps `payload` until it is sent.
fn keeping<P: Unpin + 'static>(body: BoxBody, payload: P) -> BoxBody {
    BoxBody::new(KeepingBody {
        body,
        _payload: payload,
    })
}

/// Adds the payload of a request to its answer.
pub(super) fn keep_in_answer<P: Unpin + 'static>(
    answer: Result<ServiceResponse<BoxBody>, Error>,
    payload: P,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match answer {
        Ok(response) => Ok(response.map_body(|_, body| keeping(body, payload))),
        Err(error) => {
            let response = keep_in_response(error.error_response(), payload);
            Err(InternalError::from_response(error, response).into())
        }
    }
}

/// Adds the payload of a request to its response.
pub(super) fn keep_in_response<P: Unpin + 'static>(
    response: HttpResponse,
    payload: P,
) -> HttpResponse {
    response.map_body(|_, body| keeping(body, payload))
}

/// Handles a request. The answer keeps a chunked payload.
pub(super) fn handle<S>(
    request: Request,
    app: &S,
) -> impl Future<Output = Result<ServiceResponse<BoxBody>, Error>> + use<S>
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = Error>,
{
    if !request.chunked().unwrap_or(false) {
        return Either::Left(app.call(request));
    }
    let (request, payload) = request.replace_payload(Payload::None::<BoxedPayloadStream>);
    let payload = Rc::new(RefCell::new(payload));
    let shared: BoxedPayloadStream = Box::pin(SharedPayload(Rc::clone(&payload)));
    let (request, _none) = request.replace_payload(Payload::Stream { payload: shared });
    let handling = app.call(request);
    Either::Right(async move { keep_in_answer(handling.await, payload) })
}
