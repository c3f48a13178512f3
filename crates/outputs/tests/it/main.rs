//! The whole engine from outside: cases as data, and the laws against a naive oracle.

mod cases;
mod fuzz;
mod laws;
mod oracle;
mod pages;
mod shell;
mod streams;
mod views;
