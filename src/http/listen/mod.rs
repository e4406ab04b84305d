//! The sockets that HTTP is served on: those that systemd passes (`inherited`), and one that an option names (`bound`).
//!
//! The daemon opens no TCP port itself. Nothing here accepts a connection.

mod bound;
mod inherited;
mod socket;

pub use bound::bind;
pub use inherited::Inherited;
pub use socket::{Listener, Socket, SocketError};
