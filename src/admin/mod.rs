//! What does the gateway say of itself to its operator?
