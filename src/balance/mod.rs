//! Which origin owns this key? Pure arithmetic: time and randomness are arguments.
