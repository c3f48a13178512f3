//! Parts of a request, parsed once, with a problem for what is wrong.

use super::problem::{Code, Problem};
use crate::limits::{BODY_TIME, MAX_BODY, MAX_WAIT_S};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;

/// The one variable segment of the path.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

/// The query.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

/// The body, as JSON.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segment: Result<Path<String>, PathRejection> =
            Path::from_request_parts(parts, state).await;
        let wrong = |e: PathRejection| Problem::new(Code::InvalidQuery, e.body_text());
        segment.map(|Path(segment)| Self(segment)).map_err(wrong)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::try_from_uri(&parts.uri);
        query
            .map(|Query(query)| Self(query))
            .map_err(|e| Problem::new(Code::InvalidQuery, e.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Problem> {
        let bytes = whole(request.into_body(), MAX_BODY, BODY_TIME)
            .await
            .map_err(|why| Problem::new(Code::BodyTooLarge, why.to_string()))?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|e| Problem::new(Code::InvalidJson, e.to_string()))
    }
}

/// Why there is no body.
#[derive(Debug, PartialEq, Eq, Error)]
enum NoBody {
    /// More than is read.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// Too slow.
    #[error("the body did not arrive whole within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// Not all that was announced.
    #[error("the body broke off after {0} bytes")]
    BrokeOff(usize),
}

/// A body of at most `limit` bytes, read for at most `time`.
async fn whole(body: Body, limit: usize, time: Duration) -> Result<Vec<u8>, NoBody> {
    let reading = async {
        let (mut body, mut bytes) = (body.into_data_stream(), Vec::new());
        while let Some(more) = body.next().await {
            let more = more.map_err(|_| NoBody::BrokeOff(bytes.len()))?;
            if more.len() > limit - bytes.len() {
                return Err(NoBody::TooLarge(limit));
            }
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    };
    tokio::time::timeout(time, reading)
        .await
        .unwrap_or(Err(NoBody::TooSlow(time)))
}

/// Until when a caller wants to wait: what the query says, else `Prefer: wait=SECONDS`, else not at all.
pub(super) fn wait_until(query: Option<u64>, headers: &HeaderMap) -> Result<Instant, Problem> {
    let seconds = match query {
        Some(seconds) => seconds,
        None => preferred(headers)?.unwrap_or(0),
    };
    if seconds > MAX_WAIT_S {
        return Err(wrong_wait());
    }
    Ok(Instant::now() + Duration::from_secs(seconds))
}

fn preferred(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let preferences = headers
        .get_all("prefer")
        .into_iter()
        .filter_map(|v| v.to_str().ok());
    let mut waits = preferences
        .flat_map(|value| value.split([',', ';']))
        .filter_map(|preference| preference.trim().split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("wait"));
    let Some((_, seconds)) = waits.next() else {
        return Ok(None);
    };
    seconds
        .trim()
        .trim_matches('"')
        .parse()
        .map(Some)
        .map_err(|_| wrong_wait())
}

fn wrong_wait() -> Problem {
    Problem::new(
        Code::InvalidWait,
        format!("wait is in seconds, from 0 to {MAX_WAIT_S}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use futures_util::stream;
    use std::io;

    type Chunks = stream::BoxStream<'static, io::Result<&'static str>>;

    #[tokio::test]
    async fn a_body_that_is_not_read_says_why() {
        let soon = Duration::from_secs(20);
        let parts = || stream::iter([Ok("abc"), Ok("de")]);
        let body = |chunks: Chunks| Body::from_stream(chunks);
        assert_eq!(
            whole(body(parts().boxed()), 5, soon).await,
            Ok(b"abcde".to_vec())
        );
        let large = whole(body(parts().boxed()), 4, soon).await;
        assert_eq!(large, Err(NoBody::TooLarge(4)));
        let broken = parts().chain(stream::iter([Err(io::ErrorKind::UnexpectedEof.into())]));
        assert_eq!(
            whole(body(broken.boxed()), 5, soon).await,
            Err(NoBody::BrokeOff(5))
        );
        let (slow, time) = (parts().chain(stream::pending()), Duration::from_millis(5));
        assert_eq!(
            whole(body(slow.boxed()), 5, time).await,
            Err(NoBody::TooSlow(time))
        );
    }

    #[track_caller]
    fn check(prefer: &'static str, expected: Result<Option<u64>, ()>) {
        let mut headers = HeaderMap::new();
        headers.insert("prefer", HeaderValue::from_static(prefer));
        assert_eq!(preferred(&headers).map_err(drop), expected, "{prefer}");
    }

    #[test]
    fn a_preference_to_wait_is_found_among_others() {
        check("wait=10", Ok(Some(10)));
        check("respond-async, Wait = \"7\"", Ok(Some(7)));
        check("respond-async", Ok(None));
        check("wait=soon", Err(()));
        check("wait=-1", Err(()));
    }
}
