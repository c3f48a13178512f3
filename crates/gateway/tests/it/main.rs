//! The gateway on real sockets with real certificates, against agents and callers made by hand.

mod api;
mod attacks;
mod callers;
mod command;
mod ledgers;
mod links;
mod support;
mod unheld;
