//! Sockets to clients: accepted, dealt to shards, parked between requests.
