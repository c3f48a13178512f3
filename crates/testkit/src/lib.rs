//! Test support: real processes on free ports and the awkward programs.
