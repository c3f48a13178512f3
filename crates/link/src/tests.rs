//! The link against a real TLS websocket server and a real unix socket.

mod dialing;
mod relaying;
mod world;
