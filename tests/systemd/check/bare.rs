//! A minimal service on the bus: it owns the daemon's name, ignores arguments, and answers each call at once.
//!
//! No daemon behind the same bus can be much faster, so delays of other callers come from the bus and the machine.

use std::io;
use std::path::Path;
use std::time::Duration;

use ganglion::bus::NAME;

use crate::Failed;
use crate::wire::{
    BUS, BUS_PATH, CALL, DESTINATION, Message, NO_REPLY_EXPECTED, REPLY_SERIAL, RETURN, Received,
    Value, Wire,
};

const SOCKET: &str = "/run/dbus/system_bus_socket";
/// Owns the name at once, or fails.
const DO_NOT_QUEUE: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until it is killed.
pub(crate) fn run() -> Result<(), Failed> {
    let mut wire = Wire::connect(Path::new(SOCKET))?;
    let request = Message::call(BUS, BUS_PATH, BUS, "RequestName")
        .with(NAME)
        .with(Value::U32(DO_NOT_QUEUE));
    let named = wire.ask(request, PATIENCE)?;
    if !named.error.is_empty() {
        return Err(named.error.into());
    }
    loop {
        let Some(call) = wire.next_head(PATIENCE)? else {
            continue;
        };
        if call.kind == CALL && call.flags & NO_REPLY_EXPECTED == 0 {
            answer(&mut wire, &call)?;
        }
    }
}

fn answer(wire: &mut Wire, call: &Received) -> io::Result<()> {
    let answer = Message::new(RETURN)
        .field(DESTINATION, (&*call.sender).into())
        .field(REPLY_SERIAL, Value::U32(call.serial))
        .no_reply();
    wire.send(answer).map(drop)
}
