//! The counts and the refusals of accounts.

use super::ledger::Sum;
use super::limits::{UNCONFIRMED_SHARES, UNREAD, WORK};
use super::*;

const ANSWER: Load = Load {
    bytes: 100,
    descriptors: 1,
};

fn call(serial: u32, bytes: usize) -> Call {
    Call {
        serial,
        bytes,
        descriptors: 0,
        answered: true,
        lists_objects: false,
    }
}

fn refused(admission: &Admission) -> bool {
    matches!(admission, Admission::Refused(_))
}

#[test]
fn pending_calls_are_bounded_for_each_connection_and_in_all() {
    let (accounts, _names) = Accounts::new();
    assert!(refused(&accounts.begin(":1.1", call(1, LONGEST_CALL + 1))));
    let each = 2 << 20;
    for serial in 2..5 {
        assert_eq!(
            accounts.begin(":1.1", call(serial, each)),
            Admission::Admitted
        );
    }
    assert!(refused(&accounts.begin(":1.1", call(5, each))));
    assert_eq!(
        accounts.begin(":1.1", call(4, 1)),
        Admission::Dropped,
        "twice"
    );
    // An answer makes room, and only one answer does.
    assert!(accounts.answer(":1.1", 2, ANSWER));
    assert_eq!(accounts.begin(":1.1", call(6, each)), Admission::Admitted);
    assert!(refused(&accounts.begin(":1.1", call(7, each))));

    for other in 2..6 {
        for serial in 0..3 {
            accounts.begin(&format!(":1.{other}"), call(serial, each));
        }
    }
    assert_eq!(accounts.ledger().all.work, WORK.all);
    assert!(refused(&accounts.begin(":1.9", call(1, each))));
    let short = accounts.begin(":1.9", call(3, 1000));
    assert_eq!(short, Admission::Admitted, "a short call always is");
    accounts.answer(":1.9", 3, ANSWER);
    accounts.leave(":1.2");
    assert_eq!(accounts.begin(":1.9", call(2, each)), Admission::Admitted);
}

#[test]
fn a_call_that_wants_no_answer_ends_and_gets_none() {
    let (accounts, _names) = Accounts::new();
    let silent = Call {
        answered: false,
        ..call(1, 1000)
    };
    assert_eq!(accounts.begin(":1.1", silent), Admission::Admitted);
    assert!(!accounts.answer(":1.1", 1, ANSWER));
    assert_eq!(accounts.ledger().all, Sum::default());
}

#[test]
fn calls_of_a_connection_that_does_not_read_are_dropped() {
    let (accounts, mut names) = Accounts::new();
    for serial in 0..30_000 {
        if accounts.begin(":1.1", call(serial, 100)) == Admission::Admitted {
            accounts.answer(":1.1", serial, ANSWER);
        }
        assert_eq!(
            accounts.begin(":1.2", call(serial, 100)),
            Admission::Admitted
        );
        accounts.answer(":1.2", serial, Load::default());
    }
    assert_eq!(accounts.begin(":1.1", call(0, 100)), Admission::Dropped);
    assert!(accounts.ledger().all.held.bytes < (UNCONFIRMED_SHARES + 1) * UNREAD.connection.bytes);
    assert_eq!(names.unread.try_recv().unwrap(), ":1.1");
    assert!(
        names.unread.try_recv().is_err(),
        "one query for each connection"
    );

    accounts.begin_query(":1.1");
    let all = accounts.ledger().all.held;
    let still = accounts.end_query(":1.1", all);
    assert!(matches!(still, ReadState::Stalled { dropped, .. } if dropped > 0));
    // The bus may not have counted messages that are sent during the query.
    let written = |load| accounts.wrote(":1.1", load);
    written(all);
    accounts.begin_query(":1.1");
    accounts.send(":1.1", ANSWER);
    assert_eq!(accounts.end_query(":1.1", Load::default()), ReadState::Done);
    assert_eq!(accounts.ledger().all.held, ANSWER);
    assert_eq!(accounts.begin(":1.1", call(1, 100)), Admission::Admitted);
}

/// Introspection is long: a program that calls it a few times in a row reads faster than the bus can be queried.
#[test]
fn a_connection_that_reads_before_the_query_loses_no_answer() {
    let (accounts, _names) = Accounts::new();
    let long = Load {
        bytes: 36 << 10,
        descriptors: 0,
    };
    let calls = |first: u32| {
        let mut serials = first..first + 20;
        serials.all(|serial| {
            let taken = accounts.begin(":1.1", call(serial, 100)) == Admission::Admitted;
            taken && accounts.answer(":1.1", serial, long) && {
                accounts.wrote(":1.1", long);
                true
            }
        })
    };
    assert!(calls(0), "before a query");
    accounts.begin_query(":1.1");
    assert!(calls(20), "before its answer");
    accounts.end_query(":1.1", Load::default());
    assert!(calls(40), "all was read");
    accounts.begin_query(":1.1");
    let held = accounts.ledger().all.held;
    accounts.end_query(":1.1", held);
    assert!(!calls(60), "none was");
}

#[test]
fn room_for_answers_is_shared_by_users() {
    let (accounts, mut names) = Accounts::new();
    let one = Load {
        bytes: 0,
        descriptors: 1,
    };
    let mut answered = [0; 4];
    for connection in 0..40 {
        let (name, user) = (format!(":1.{connection}"), connection % 4);
        accounts.begin(&name, call(1, 100));
        accounts
            .ledger()
            .change(&name, |account| account.user = Some(user));
        for serial in 2..20 {
            accounts.begin(&name, call(serial, 100));
            if accounts.reserve(&name, user, serial, one).is_none() {
                accounts.answer(&name, serial, ANSWER);
                answered[user as usize] += 1;
            }
        }
    }
    assert!(
        answered.iter().all(|&answered| answered >= 8),
        "{answered:?}"
    );
    assert_eq!(answered.iter().sum::<usize>(), UNREAD.all.descriptors);
    // When a call waits, the bus is queried about each connection with unread messages.
    accounts.begin_waiting(":1.39");
    let mut queried = 0;
    while names.unread.try_recv().is_ok() {
        queried += 1;
    }
    assert!(queried >= 5, "{queried}");
}

/// The bus cannot hold messages that were not written to it.
#[test]
fn unwritten_messages_are_unread_whatever_the_bus_reports() {
    let (accounts, _names) = Accounts::new();
    accounts.begin(":1.1", call(1, 100));
    accounts.answer(":1.1", 1, ANSWER);
    accounts.begin_query(":1.1");
    accounts.end_query(":1.1", Load::default());
    assert_eq!(accounts.ledger().all.held, ANSWER);
    accounts.wrote(":1.1", ANSWER);
    accounts.begin_query(":1.1");
    accounts.end_query(":1.1", Load::default());
    assert_eq!(accounts.ledger().all.held, Load::default());
}

/// Bytes count as descriptors do: the unread answers of one user leave room for those of others.
#[test]
fn unread_bytes_of_a_user_are_bounded_over_all_its_connections() {
    let (accounts, _names) = Accounts::new();
    let long = Load {
        bytes: 1 << 20,
        descriptors: 0,
    };
    let calls = |connection: u32, user: u32| {
        let name = format!(":1.{connection}");
        accounts.begin(&name, call(1, 100));
        accounts.set_user(&name, user);
        let refused = accounts.reserve(&name, user, 1, long);
        accounts.answer(&name, 1, refused.as_ref().map_or(long, |_| ANSWER));
        refused.is_none()
    };
    let answered = (0..16).filter(|connection| calls(*connection, 1)).count();
    assert_eq!(answered, 2);
    assert!(calls(20, 2), "another user");
    assert!(!accounts.may_signal(":1.0"), "it has used its share");
    accounts.begin(":1.21", call(1, 100));
    accounts.set_user(":1.21", 1);
    assert!(
        accounts.may_signal(":1.21"),
        "it reads, and has the same user"
    );
}

/// As many connections as a user may have list all objects at once, and read nothing.
#[test]
fn answers_that_list_objects_are_bounded_before_they_are_made() {
    let (accounts, _names) = Accounts::new();
    let objects = Call {
        lists_objects: true,
        ..call(1, 100)
    };
    let admitted = |connections: std::ops::Range<u32>, user: Option<u32>| {
        let is_admitted = |connection: &u32| {
            let name = format!(":1.{connection}");
            if let Some(user) = user {
                accounts.begin(&name, call(2, 100));
                accounts.set_user(&name, user);
            }
            accounts.begin(&name, objects) == Admission::Admitted
        };
        connections.filter(is_admitted).count()
    };
    assert_eq!(admitted(0..256, Some(1)), 128, "of one user");
    assert_eq!(admitted(256..1024, None), 384, "and of all");
    let silent = Call {
        answered: false,
        ..objects
    };
    assert_eq!(accounts.begin(":1.9999", silent), Admission::Dropped);
    // Longer answers: fewer calls.
    for connection in 0..1024 {
        accounts.leave(&format!(":1.{connection}"));
    }
    let long = Load {
        bytes: 512 << 10,
        descriptors: 0,
    };
    assert_eq!(admitted(0..1, Some(1)), 1);
    accounts.answer(":1.0", 1, long);
    assert_eq!(admitted(1..256, Some(1)), 7);
}
