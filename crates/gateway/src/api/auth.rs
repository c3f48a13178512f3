//! Who calls.

use super::{Api, Code, Problem, Started};
use crate::db::tokens::{self, TokenRow};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

/// Who calls, by the name of the token's owner.
#[derive(Debug, Clone)]
pub(super) struct Principal(pub(super) String);

/// Lets only holders of a token through.
pub(super) async fn require(
    State(api): State<Api>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Some(principal) = bearer(request.headers()).and_then(|token| find(&api.tokens, token))
    else {
        let detail = "send the API token as `Authorization: Bearer TOKEN`";
        return Err(Problem::new(Code::Unauthorized, detail).started(Started::No));
    };
    request.extensions_mut().insert(principal);
    Ok(next.run(request).await)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Looks at every token, and at every byte of each, whatever it finds.
fn find(known: &[TokenRow], token: &str) -> Option<Principal> {
    let hash = tokens::hash(token);
    known.iter().fold(None, |found, row| {
        let same = bool::from(row.hash.ct_eq(&hash));
        if same {
            Some(Principal(row.principal.clone()))
        } else {
            found
        }
    })
}
