//! Turns of a few conversations, in one region or several.

use super::*;

const A: Option<Owner> = Some(Owner(1));
const B: Option<Owner> = Some(Owner(2));

/// Begins a turn of user 0 and runs all of its prompt.
fn turn(kv: &mut Kv, owner: Option<Owner>, prompt: &[u32]) -> (usize, usize, Change) {
    turn_of(kv, owner, 0, prompt)
}

fn turn_of(kv: &mut Kv, owner: Option<Owner>, user: u32, prompt: &[u32]) -> (usize, usize, Change) {
    let Turn {
        region,
        cached,
        change,
        ..
    } = kv.begin(owner, user, prompt);
    kv.extend(&prompt[cached..]);
    (region, cached, change)
}

#[test]
fn conversations_keep_their_regions_while_there_are_enough() {
    let mut kv = Kv::new(2);
    assert_eq!(turn(&mut kv, A, &[1, 2, 3]), (0, 0, Change::NewTurn));
    assert_eq!(turn(&mut kv, B, &[1, 2, 4]), (1, 2, Change::Switched));
    assert_eq!(turn(&mut kv, A, &[1, 2, 3, 5]), (0, 3, Change::Switched));
    assert_eq!(turn(&mut kv, A, &[1, 2, 3, 5, 6]), (0, 4, Change::NewTurn));
    assert_eq!(turn(&mut kv, B, &[1, 2, 4, 7]), (1, 3, Change::Switched));
    // A third takes the region that has not been used for the longest time.
    assert_eq!(turn(&mut kv, None, &[9, 9]), (0, 0, Change::Switched));
    assert_eq!(turn(&mut kv, None, &[9, 9, 8]), (0, 2, Change::NewTurn));
    assert_eq!(turn(&mut kv, A, &[1, 2]), (0, 1, Change::Switched));
}

/// Two conversations that begin alike pay for that once, though each goes on in a region of its own.
#[test]
fn what_another_region_holds_is_copied_for_the_same_user() {
    let mut kv = Kv::new(3);
    turn(&mut kv, A, &[1, 2, 3, 4]);
    let begun = kv.begin(B, 0, &[1, 2, 3, 9]);
    assert_eq!((begun.region, begun.source), (1, Some(0)));
    assert_eq!((begun.cached, kv.len()), (3, 3));
    kv.extend(&[9]);
    // What is there already is not copied, and nothing of another user is.
    assert_eq!(kv.begin(A, 0, &[1, 2, 3, 4, 5]).source, None);
    let other = kv.begin(Some(Owner(3)), 7, &[1, 2, 3, 4]);
    assert_eq!((other.region, other.source, other.cached), (2, None, 0));
    // A conversation that begins anew as another did.
    let again = kv.begin(B, 0, &[1, 2, 3, 4, 5]);
    assert_eq!((again.region, again.source, again.cached), (1, Some(0), 4));
    assert_eq!(again.change, Change::Switched);
    kv.lose();
    assert_eq!(kv.len(), 0);
}

#[test]
fn every_change_bumps_the_epoch_once_and_says_what_it_was() {
    let mut kv = Kv::new(1);
    assert_eq!(turn(&mut kv, A, &[1, 2, 3]), (0, 0, Change::NewTurn));
    assert_eq!(turn(&mut kv, A, &[1, 2, 3]), (0, 2, Change::Rewound));
    assert_eq!(turn(&mut kv, A, &[4]), (0, 0, Change::Cleared));
    assert_eq!(kv.rewind(Owner(1), 1), None, "it holds no more");
    assert_eq!(kv.rewind(Owner(2), 0), None, "it holds nothing of it");
    assert_eq!(kv.epoch(), 3);
    assert_eq!(kv.rewind(Owner(1), 0), Some(Change::Cleared));
    assert_eq!(turn(&mut kv, B, &[5, 6]), (0, 0, Change::Switched));
    assert_eq!(kv.resize(2), Change::Resized);
    assert_eq!(turn(&mut kv, B, &[5, 6]).2, Change::Restored);
    assert_eq!(turn(&mut kv, B, &[5, 6, 7]).2, Change::NewTurn);
    assert_eq!(kv.epoch(), 8);
}

#[test]
fn a_released_region_serves_what_begins_alike() {
    let mut kv = Kv::new(2);
    turn(&mut kv, A, &[1, 2, 3]);
    turn(&mut kv, B, &[7, 8]);
    kv.release(Owner(1));
    assert_eq!(turn(&mut kv, None, &[1, 2, 9]), (0, 2, Change::Switched));
    assert_eq!(turn(&mut kv, B, &[7, 8, 9]), (1, 2, Change::Switched));
}

/// Random turns of three users with few tokens, so that they begin alike all the time: what is kept of a prompt is
/// never more than its own user has said before, and what one says again at once is kept.
#[test]
fn nothing_of_one_user_serves_another() {
    let mut random = fastrand::Rng::with_seed(8);
    let mut kept = 0;
    for _ in 0..300 {
        let mut kv = Kv::new(random.usize(1..4));
        let mut said: [Vec<Vec<u32>>; 3] = Default::default();
        for _ in 0..60 {
            let user = random.u32(0..3);
            let session = u64::from(user) * 2 + random.u64(0..2);
            let owner = random.bool().then_some(Owner(session));
            if random.u32(0..6) == 0 {
                kv.release(Owner(session));
            }
            if random.u32(0..6) == 0 {
                kv.rewind(Owner(session), random.usize(0..4));
            }
            let prompt: Vec<u32> = (0..random.usize(1..9)).map(|_| random.u32(0..2)).collect();
            let mine = &mut said[user as usize];
            let most = mine.iter().map(|said| {
                let pairs = said.iter().zip(&prompt);
                pairs.take_while(|(said, token)| said == token).count()
            });
            let most = most.max().unwrap_or(0);
            let (_, cached, _) = turn_of(&mut kv, owner, user, &prompt);
            assert!(
                cached <= most,
                "{cached} of {prompt:?}, user {user}: {kv:?}"
            );
            let (_, again, _) = turn_of(&mut kv, owner, user, &prompt);
            assert_eq!(again, prompt.len() - 1);
            kept += cached;
            mine.push(prompt);
        }
    }
    assert!(kept > 1000, "users still find their own: {kept}");
}

#[test]
fn a_region_that_another_user_takes_over_begins_anew() {
    let mut kv = Kv::new(1);
    assert_eq!(turn(&mut kv, None, &[1, 2, 3]).1, 0);
    assert_eq!(
        turn_of(&mut kv, None, 9, &[1, 2, 3]),
        (0, 0, Change::Switched)
    );
    assert_eq!(turn(&mut kv, None, &[1, 2, 3]), (0, 0, Change::Switched));
}

/// However many begin: a turn that runs keeps its region, and what it holds.
#[test]
fn a_turn_that_runs_keeps_its_region() {
    let mut kv = Kv::new(2);
    turn(&mut kv, A, &[1, 2, 3]);
    kv.pin(0);
    for number in 0..4 {
        assert!(kv.has_room(None) && kv.has_room(B));
        assert_eq!(turn(&mut kv, None, &[number, 9]).0, 1);
    }
    turn(&mut kv, B, &[1, 2, 4]);
    kv.pin(1);
    assert!(!kv.has_room(None) && kv.has_room(B));
    kv.push_to(0, 7);
    assert_eq!((kv.len_of(0), kv.len()), (4, 3));
    kv.unpin(0);
    assert_eq!(turn(&mut kv, A, &[1, 2, 3, 7, 8]).1, 4);
}
