//! What happened? Access log, metrics, request ids.
