//! What people and scripts on the cloud side type.
