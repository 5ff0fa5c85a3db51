//! The shipped binary against real origin processes on real sockets, one feature a file.
