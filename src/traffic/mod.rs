//! What may this client ask of us, and which headers go on?
