//! Holds the host's identity and its websocket; relays frames and runs nothing.
