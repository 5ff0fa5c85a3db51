//! Which route does this request belong to?
