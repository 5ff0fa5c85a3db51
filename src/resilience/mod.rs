//! What may be tried again, and when is it enough?
