//! Holds the house to its plan.
