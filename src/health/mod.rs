//! May this origin be used? Evidence in, verdict out: pure state, the clock is an argument.
