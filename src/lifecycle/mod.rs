//! When does the process start, change its configuration, and leave?
