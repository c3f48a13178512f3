//! Where the API is, and the token that opens it.

use crate::limits::MAX_TOKEN_FILE;
use crate::problem::Failure;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use ureq::http::Uri;

const URL: &str = "WILLCALL_URL";
const TOKEN_FILE: &str = "WILLCALL_TOKEN_FILE";

/// Where the API is, and the token that opens it.
#[derive(Clone)]
pub struct Settings {
    /// `http://HOST:PORT`, without a slash at the end.
    pub url: String,
    /// The bearer token.
    pub token: String,
    /// Where the token came from.
    pub token_file: PathBuf,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Settings");
        shown.field("url", &self.url).finish_non_exhaustive()
    }
}

impl Settings {
    /// From the environment.
    pub fn from_environment() -> Result<Self, Failure> {
        let url = std::env::var(URL).map_err(|_| Failure::NotSet { name: URL })?;
        let token_file = std::env::var_os(TOKEN_FILE);
        let token_file = token_file.ok_or(Failure::NotSet { name: TOKEN_FILE })?;
        Self::new(&url, Path::new(&token_file))
    }

    /// Checks the address and reads the token.
    pub fn new(url: &str, token_file: &Path) -> Result<Self, Failure> {
        Ok(Self {
            url: checked(url)?,
            token: read_token(token_file)?,
            token_file: token_file.to_owned(),
        })
    }
}

/// The token must not travel in the clear between machines.
fn checked(url: &str) -> Result<String, Failure> {
    let wrong = |why| Failure::Url {
        url: url.chars().take(200).collect(),
        why,
    };
    let uri: Uri = url.parse().map_err(|_| wrong("not a URL"))?;
    let host = uri.host().ok_or_else(|| wrong("not a URL with a host"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(wrong("this version cannot speak https to the API yet")),
        _ => return Err(wrong("expected http://HOST:PORT")),
    }
    if !is_loopback(host) {
        return Err(wrong(
            "without TLS the token would cross the network in the clear; use an address of this machine, or forward the port through ssh",
        ));
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err(wrong("expected http://HOST:PORT and no path"));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    let address: Result<IpAddr, _> = bare.parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let failed = |source: io::Error| Failure::Token {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_TOKEN_FILE)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Failure::NotAToken {
            path: path.to_owned(),
        });
    }
    Ok(token.to_owned())
}

/// Whether others than the owner can read the token.
pub fn is_exposed(token_file: &Path) -> bool {
    std::fs::metadata(token_file).is_ok_and(|meta| meta.mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_on_this_machine() {
        for good in [
            "http://127.0.0.1:1",
            "http://localhost:80/",
            "http://[::1]:8080",
        ] {
            assert_eq!(checked(good).unwrap(), good.trim_end_matches('/'));
        }
        for bad in [
            "",
            "127.0.0.1:1",
            "https://127.0.0.1",
            "http://10.0.0.1:80",
            "http://example.com",
            "http://localhost.example.com",
            "http://127.0.0.1/v1",
            "ftp://127.0.0.1",
        ] {
            assert!(matches!(checked(bad), Err(Failure::Url { .. })), "{bad}");
        }
    }

    #[test]
    fn a_token_is_one_word() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert!(matches!(read_token(&file), Err(Failure::Token { .. })));
        std::fs::write(&file, " wct_abc-DEF\n").unwrap();
        assert_eq!(read_token(&file).unwrap(), "wct_abc-DEF");
        for bad in ["", "\n", "two words", "t\u{f6}ken"] {
            std::fs::write(&file, bad).unwrap();
            assert!(
                matches!(read_token(&file), Err(Failure::NotAToken { .. })),
                "{bad}"
            );
        }
    }
}
