//! What the accounts count, and what they refuse.

use super::books::Sum;
use super::limits::{UNREAD, UNTOLD, WORK};
use super::*;

const ANSWER: Load = Load {
    bytes: 100,
    descriptors: 1,
};

fn call(serial: u32, bytes: usize) -> Call {
    Call {
        serial,
        bytes,
        answered: true,
        of_objects: false,
    }
}

fn refused(admission: &Admission) -> bool {
    matches!(admission, Admission::Refused(_))
}

#[test]
fn calls_in_work_are_bounded_for_each_connection_and_in_all() {
    let (accounts, _names) = Accounts::new();
    assert!(refused(&accounts.begin(":1.1", call(1, LONGEST_CALL + 1))));
    let each = 2 << 20;
    for serial in 2..5 {
        assert_eq!(accounts.begin(":1.1", call(serial, each)), Admission::Taken);
    }
    assert!(refused(&accounts.begin(":1.1", call(5, each))));
    assert_eq!(
        accounts.begin(":1.1", call(4, 1)),
        Admission::Dropped,
        "twice"
    );
    // An answer makes room, and only one answer does.
    assert!(accounts.answer(":1.1", 2, ANSWER));
    assert_eq!(accounts.begin(":1.1", call(6, each)), Admission::Taken);
    assert!(refused(&accounts.begin(":1.1", call(7, each))));

    for other in 2..6 {
        for serial in 0..3 {
            accounts.begin(&format!(":1.{other}"), call(serial, each));
        }
    }
    assert_eq!(accounts.books().all.work, WORK.all);
    assert!(refused(&accounts.begin(":1.9", call(1, each))));
    let short = accounts.begin(":1.9", call(3, 1000));
    assert_eq!(short, Admission::Taken, "what is short always is");
    accounts.answer(":1.9", 3, ANSWER);
    accounts.leave(":1.2");
    assert_eq!(accounts.begin(":1.9", call(2, each)), Admission::Taken);
}

#[test]
fn a_call_that_wants_no_answer_ends_and_gets_none() {
    let (accounts, _names) = Accounts::new();
    let silent = Call {
        answered: false,
        ..call(1, 1000)
    };
    assert_eq!(accounts.begin(":1.1", silent), Admission::Taken);
    assert!(!accounts.answer(":1.1", 1, ANSWER));
    assert_eq!(accounts.books().all, Sum::default());
}

#[test]
fn who_does_not_read_is_heard_no_more_and_who_reads_is() {
    let (accounts, mut names) = Accounts::new();
    for serial in 0..30_000 {
        if accounts.begin(":1.1", call(serial, 100)) == Admission::Taken {
            accounts.answer(":1.1", serial, ANSWER);
        }
        assert_eq!(accounts.begin(":1.2", call(serial, 100)), Admission::Taken);
        accounts.answer(":1.2", serial, Load::default());
    }
    assert_eq!(accounts.begin(":1.1", call(0, 100)), Admission::Dropped);
    assert!(accounts.books().all.held.bytes < (UNTOLD + 1) * UNREAD.connection.bytes);
    assert_eq!(names.unread.try_recv().unwrap(), ":1.1");
    assert!(names.unread.try_recv().is_err(), "each is asked about once");

    accounts.ask(":1.1");
    let all = accounts.books().all.held;
    let still = accounts.told(":1.1", all);
    assert!(matches!(still, Standing::Still { dropped, .. } if dropped > 0));
    // What is sent while the bus is asked, it may not have counted.
    let written = |load| accounts.wrote(":1.1", load);
    written(all);
    accounts.ask(":1.1");
    accounts.send(":1.1", ANSWER);
    assert_eq!(accounts.told(":1.1", Load::default()), Standing::Settled);
    assert_eq!(accounts.books().all.held, ANSWER);
    assert_eq!(accounts.begin(":1.1", call(1, 100)), Admission::Taken);
}

/// Introspection is long: a program that asks for it some times in a row reads faster than the bus can be asked.
#[test]
fn who_reads_before_the_bus_is_asked_loses_no_answer() {
    let (accounts, _names) = Accounts::new();
    let long = Load {
        bytes: 36 << 10,
        descriptors: 0,
    };
    let calls = |first: u32| {
        let mut serials = first..first + 20;
        serials.all(|serial| {
            let taken = accounts.begin(":1.1", call(serial, 100)) == Admission::Taken;
            taken && accounts.answer(":1.1", serial, long) && {
                accounts.wrote(":1.1", long);
                true
            }
        })
    };
    assert!(calls(0), "nobody has asked");
    accounts.ask(":1.1");
    assert!(calls(20), "nor has the bus said anything");
    accounts.told(":1.1", Load::default());
    assert!(calls(40), "all was read");
    accounts.ask(":1.1");
    let held = accounts.books().all.held;
    accounts.told(":1.1", held);
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
            .books()
            .change(&name, |account| account.user = Some(user));
        for serial in 2..20 {
            accounts.begin(&name, call(serial, 100));
            if accounts.promise(&name, user, serial, one).is_none() {
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
    // As soon as somebody waits, whoever holds something is asked about.
    accounts.begin_waiting(":1.39");
    let mut asked = 0;
    while names.unread.try_recv().is_ok() {
        asked += 1;
    }
    assert!(asked >= 5, "{asked}");
}

/// The bus cannot hold what it has not been sent.
#[test]
fn what_is_not_written_is_unread_whatever_the_bus_says() {
    let (accounts, _names) = Accounts::new();
    accounts.begin(":1.1", call(1, 100));
    accounts.answer(":1.1", 1, ANSWER);
    accounts.ask(":1.1");
    accounts.told(":1.1", Load::default());
    assert_eq!(accounts.books().all.held, ANSWER);
    accounts.wrote(":1.1", ANSWER);
    accounts.ask(":1.1");
    accounts.told(":1.1", Load::default());
    assert_eq!(accounts.books().all.held, Load::default());
}

/// What has no descriptor counts as well: one user's answers that nobody reads leave room for those of others.
#[test]
fn bytes_that_a_user_leaves_unread_are_bounded_whatever_connections_they_are_of() {
    let (accounts, _names) = Accounts::new();
    let long = Load {
        bytes: 1 << 20,
        descriptors: 0,
    };
    let asks = |connection: u32, user: u32| {
        let name = format!(":1.{connection}");
        accounts.begin(&name, call(1, 100));
        accounts.know(&name, user);
        let refused = accounts.promise(&name, user, 1, long);
        accounts.answer(&name, 1, refused.as_ref().map_or(long, |_| ANSWER));
        refused.is_none()
    };
    let answered = (0..16).filter(|connection| asks(*connection, 1)).count();
    assert_eq!(answered, 2);
    assert!(asks(20, 2), "another user");
    assert!(!accounts.may_send(":1.0"), "it has all of its share");
    accounts.begin(":1.21", call(1, 100));
    accounts.know(":1.21", 1);
    assert!(accounts.may_send(":1.21"), "who reads, of the same user");
}

/// As many connections as a user may have ask at once what objects there are, and read none of it.
#[test]
fn answers_about_all_objects_are_bounded_before_they_are_made() {
    let (accounts, _names) = Accounts::new();
    let objects = Call {
        of_objects: true,
        ..call(1, 100)
    };
    let asked = |connections: std::ops::Range<u32>, user: Option<u32>| {
        let asks = |connection: &u32| {
            let name = format!(":1.{connection}");
            if let Some(user) = user {
                accounts.begin(&name, call(2, 100));
                accounts.know(&name, user);
            }
            accounts.begin(&name, objects) == Admission::Taken
        };
        connections.filter(asks).count()
    };
    assert_eq!(asked(0..256, Some(1)), 128, "of one user");
    assert_eq!(asked(256..1024, None), 384, "and of all");
    let silent = Call {
        answered: false,
        ..objects
    };
    assert_eq!(accounts.begin(":1.9999", silent), Admission::Dropped);
    // Where there are many objects, so many fewer.
    for connection in 0..1024 {
        accounts.leave(&format!(":1.{connection}"));
    }
    let long = Load {
        bytes: 512 << 10,
        descriptors: 0,
    };
    assert_eq!(asked(0..1, Some(1)), 1);
    accounts.answer(":1.0", 1, long);
    assert_eq!(asked(1..256, Some(1)), 7);
}
