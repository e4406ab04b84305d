//! Headers that no library writes: unknown fields, known fields of another type, and invalid names.

use std::path::Path;

use ganglion::bus::{NAME, PATH as OBJECT};

use super::super::wire::{
    CALL, DESTINATION, ERROR, ERROR_NAME, INTERFACE, MEMBER, Message, PATH, REPLY_SERIAL, RETURN,
    SIGNAL, SIGNATURE, Value,
};
use super::Until;
use super::calls::ping;

/// Sends each header on its own connection, because the bus may close it.
pub(super) fn run(bus: &Path, until: &Until) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    super::on(2, bus, until, |wire| {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        wire.send(malformed(number % MALFORMED))?;
        // If the bus forwards it, the daemon may answer.
        wire.next(super::PAUSE).map(drop)
    });
}

/// The number of these messages.
pub(crate) const MALFORMED: usize = 30;

fn signal() -> Message {
    Message::new(SIGNAL)
        .field(DESTINATION, NAME.into())
        .field(PATH, Value::Path(OBJECT.to_owned()))
        .field(INTERFACE, "org.freedesktop.DBus".into())
        .field(MEMBER, "NameOwnerChanged".into())
}

fn reply(kind: u8) -> Message {
    Message::new(kind)
        .field(DESTINATION, NAME.into())
        .field(REPLY_SERIAL, Value::U32(1))
}

/// Returns one of them; each has arguments for the daemon.
pub(crate) fn malformed(number: usize) -> Message {
    let empty = |signature: &str| Value::Array(signature.to_owned(), Vec::new());
    let nested = Value::Struct(vec![
        Value::U64(1),
        empty("{sv}"),
        Value::from("x").variant(),
    ]);
    match number {
        // The first one is enough for dbus-daemon 1.12 and zbus 6.2.
        0 => ping().field(10, Value::U32(1)),
        1 => ping().field(200, nested),
        2 => ping().field(255, "x".into()),
        3 => ping().field(0, Value::U32(1)),
        4 => ping().field(
            10,
            Value::Lie {
                signature: "h".into(),
                align: 4,
                bytes: vec![9, 0, 0, 0],
            },
        ),
        5 => ping().field(10, Value::from(1).variant().variant().variant()),
        6 => ping().instead(PATH, OBJECT.into()),
        7 => ping().instead(MEMBER, Value::U32(7)),
        8 => ping().instead(INTERFACE, Value::Signature("s".into())),
        9 => ping().field(REPLY_SERIAL, "x".into()),
        10 => ping().field(REPLY_SERIAL, Value::U32(0)),
        11 => ping().field(9, "x".into()),
        12 => ping().field(9, Value::U32(3)),
        13 => ping().instead(SIGNATURE, Value::U32(1)),
        14 => ping().instead(MEMBER, "not.a.member".into()),
        15 => ping().instead(MEMBER, "".into()),
        16 => ping().instead(INTERFACE, "no interface".into()),
        17 => ping().instead(PATH, Value::Path("//".into())),
        18 => signal().field(10, Value::U32(1)),
        19 => signal().field(200, empty("(sv)")).with("x"),
        20 => signal(),
        21 => reply(RETURN).field(10, Value::U32(1)),
        22 => reply(RETURN),
        23 => reply(ERROR).field(ERROR_NAME, "org.example.No".into()),
        24 => reply(ERROR).field(ERROR_NAME, "no name".into()),
        25 => Message { kind: 7, ..ping() },
        26 => Message {
            flags: 0xf8,
            ..ping()
        },
        27 => Message {
            big_endian: true,
            ..ping()
        },
        28 => Message {
            big_endian: true,
            ..ping().field(10, Value::U32(1))
        },
        _ => Message::new(CALL)
            .field(DESTINATION, NAME.into())
            .field(PATH, Value::Path(OBJECT.to_owned()))
            .field(MEMBER, "Ping".into())
            .field(77, Value::Bool(true)),
    }
}
