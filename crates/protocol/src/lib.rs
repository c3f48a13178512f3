//! The wire between gateway and host: types, limits, frame codec and the sans-IO session.
