//! The control plane's side: accepts links, dispatches runs, serves the HTTP API.
