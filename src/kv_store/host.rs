//! Pages of the cache in the host's memory, for a GPU with its own memory. An idle session can be restored from there
//! faster than it can be prefilled.
//!
//! The owner of `Host` moves the pages: nothing here waits, and nothing outlives the process. Pages with unchanged
//! tokens stay, so that only new pages of a continued session are copied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::cost::{Cost, Rate};
use super::key::Key;
use super::place::Place;
use crate::kv::{Family, Layout, PAGE, PagePlace, Reuse, Wanted, common_prefix};

/// The settings of the host's page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRules {
    /// The most bytes of all pages; 0 disables it.
    pub bytes: u64,
    /// Whether it needs a GPU with its own memory. On other machines the pages would be in the same memory twice.
    pub discrete: bool,
    /// How long a session is idle before its pages are copied.
    pub rest: Duration,
    /// Whether measurements decide between these pages and prefilling. Otherwise these pages are always restored.
    pub measured: bool,
}

/// The session of pages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// A session of a connection, by its number.
    Open(u64),
    Named(Place),
}

/// The bytes of a page of the cache.
pub type Page = Arc<Vec<u8>>;

/// A sequence whose pages are being copied one by one.
#[derive(Debug)]
pub struct Filling {
    whose: Whose,
    user: u32,
    key: Key,
    tokens: Vec<(u32, Family)>,
    /// The places of all pages, in order.
    places: Vec<PagePlace>,
    /// The first pages.
    pages: Vec<Page>,
    page_bytes: usize,
}

impl Filling {
    /// The number of copied pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Adds the next page.
    pub fn push(&mut self, page: Vec<u8>) {
        self.pages.push(Arc::new(page));
    }

    fn bytes(&self) -> u64 {
        (self.pages.len() * self.page_bytes) as u64
    }
}

/// A request for the pages of a session that serve a prompt.
#[derive(Debug)]
pub struct Asked<'a> {
    pub user: u32,
    pub key: &'a Key,
    /// The prompt, without the tokens that are run in any case.
    pub prompt: Wanted<'a>,
    pub reuse: Reuse,
    pub page_bytes: usize,
    pub layout: &'a Layout,
    /// Tokens that are in the cache already.
    pub held: usize,
    /// The cost of computing the positions again.
    pub again: Cost,
}

/// The pages that serve a prompt.
#[derive(Debug)]
pub struct Found {
    /// All tokens of the restored sequence.
    pub tokens: Vec<(u32, Family)>,
    /// The places of the pages that the cache lacks, in order.
    pub places: Vec<PagePlace>,
    pub pages: Vec<Page>,
}

#[derive(Debug)]
struct Kept {
    filling: Filling,
    /// A number that increases with each use.
    used: u64,
}

/// All pages in the host's memory.
#[derive(Debug, Default)]
pub struct Host {
    kept: BTreeMap<Whose, Kept>,
    rate: Rate,
    uses: u64,
}

impl Host {
    /// Starts copying a sequence of a user: its tokens, and the places of its pages. The first pages are reused if their
    /// tokens are unchanged. Returns `None` if the sequence needs more than `most` bytes.
    #[must_use]
    pub fn fill(
        &self,
        (whose, user): (Whose, u32),
        key: Key,
        (tokens, places): (&[(u32, Family)], Vec<PagePlace>),
        (layout, page_bytes): (&Layout, usize),
        most: u64,
    ) -> Option<Filling> {
        let needed = places.len() * page_bytes;
        if needed as u64 > most {
            return None;
        }
        let before = self.kept.get(&whose).map(|kept| &kept.filling);
        let before = before.filter(|one| (&one.key, one.page_bytes) == (&key, page_bytes));
        let pages = before.map_or(&[][..], |one| {
            let equal = one.tokens.iter().zip(tokens);
            let equal = equal.take_while(|(before, now)| before == now).count();
            // A page that was not full may have more tokens.
            let alike = one.places.iter().zip(&places);
            let alike =
                alike.take_while(|(before, now)| before == now && layout.tokens_of(**now) <= equal);
            &one.pages[..alike.count()]
        });
        Some(Filling {
            whose,
            user,
            key,
            tokens: tokens.to_vec(),
            pages: pages.to_vec(),
            places,
            page_bytes,
        })
    }

    /// Evicts sequences whose memory the remaining pages need.
    pub fn make_room(&mut self, filling: &Filling, most: u64) {
        let pages = filling.places.len() - filling.pages.len();
        let lacks = (pages * filling.page_bytes) as u64;
        self.shrink(most.saturating_sub(lacks), Some((filling.user, lacks)));
    }

    /// Stores a sequence whose pages are complete, in place of its session's last one.
    ///
    /// Other sequences are evicted to stay within `most` bytes: first those of users with more than an equal share, and
    /// among these the least recently used.
    pub fn keep(&mut self, filling: Filling, most: u64) {
        self.kept.remove(&filling.whose);
        if filling.bytes() > most {
            // The limit may have been higher at the start of the copy.
            return;
        }
        let room = most.saturating_sub(filling.bytes());
        self.shrink(room, Some((filling.user, filling.bytes())));
        self.uses += 1;
        let used = self.uses;
        self.kept
            .insert(filling.whose.clone(), Kept { filling, used });
    }

    /// Evicts sequences until at most `most` bytes are left.
    pub fn shrink(&mut self, most: u64, wanted: Option<(u32, u64)>) {
        while self.bytes() > most {
            let mut of_users = BTreeMap::from_iter(wanted);
            for kept in self.kept.values() {
                *of_users.entry(kept.filling.user).or_default() += kept.filling.bytes();
            }
            let share = of_users.values().sum::<u64>() / of_users.len().max(1) as u64;
            let order = |kept: &Kept| (of_users[&kept.filling.user] <= share, kept.used);
            let first = self.kept.iter().min_by_key(|(_, kept)| order(kept));
            let Some(whose) = first.map(|(whose, _)| whose.clone()) else {
                return;
            };
            self.kept.remove(&whose);
        }
    }

    /// The number of pages. A page that two sessions share counts twice.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.kept.values().map(|kept| kept.filling.pages()).sum()
    }

    /// The bytes of all pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.kept.values().map(|kept| kept.filling.bytes()).sum()
    }

    /// Whether there are pages of a session.
    #[must_use]
    pub fn has(&self, whose: &Whose) -> bool {
        self.kept.contains_key(whose)
    }

    /// Finds pages of a session that serve a prompt, at least one. With `measured`, only if they are faster than
    /// prefilling.
    pub fn find(&mut self, whose: &Whose, asked: &Asked<'_>, measured: bool) -> Option<Found> {
        let Kept { filling, used } = self.kept.get_mut(whose)?;
        let made_with = (filling.user, &filling.key, filling.page_bytes);
        if made_with != (asked.user, asked.key, asked.page_bytes) {
            return None;
        }
        let common = common_prefix(&filling.tokens, asked.prompt, asked.reuse);
        let shared = asked.layout.usable(&filling.places, common);
        if shared < asked.held + PAGE {
            return None;
        }
        let places: Vec<_> = asked.layout.missing(asked.held, shared).collect();
        let page = |place| {
            let at = filling.places.binary_search(place).ok()?;
            filling.pages.get(at).cloned()
        };
        let pages: Vec<Page> = places.iter().map(page).collect::<Option<_>>()?;
        let bytes = (pages.len() * filling.page_bytes) as u64;
        let missing = filling.tokens[asked.held..shared].iter();
        let missing = missing.map(|(_, family)| *family);
        if measured && !self.rate.pays(bytes, &asked.again, asked.held, missing) {
            return None;
        }
        self.uses += 1;
        *used = self.uses;
        Some(Found {
            tokens: filling.tokens[..shared].to_vec(),
            places,
            pages,
        })
    }

    /// Adds a measurement of restored bytes and the time for them.
    pub fn measure(&mut self, bytes: u64, took: Duration) {
        self.rate.measure(bytes, took);
    }

    /// Drops the pages of a session that has ended or was deleted.
    pub fn delete(&mut self, whose: &Whose) {
        self.kept.remove(whose);
    }

    /// Drops all pages that were not computed with this key.
    pub fn retain(&mut self, key: Option<&Key>) {
        self.kept.retain(|_, kept| Some(&kept.filling.key) == key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 8;

    fn key(value: u32) -> Key {
        Key::default().with("model", value)
    }

    fn said(tokens: std::ops::Range<u32>) -> Vec<(u32, Family)> {
        tokens.map(|token| (token, Family::Step)).collect()
    }

    /// Copies the pages of some tokens, and returns the number of copied pages.
    fn keep(host: &mut Host, whose: u64, user: u32, tokens: &[(u32, Family)], most: u64) -> usize {
        let whose = (Whose::Open(whose), user);
        let places: Vec<_> = Layout::plain().missing(0, tokens.len()).collect();
        let layout = (&Layout::plain(), BYTES);
        let Some(mut filling) = host.fill(whose, key(1), (tokens, places), layout, most) else {
            return 0;
        };
        let there = filling.pages();
        for page in there..tokens.len().div_ceil(PAGE) {
            filling.push(vec![u8::try_from(page).expect("they are few"); BYTES]);
        }
        let copied = filling.pages() - there;
        host.keep(filling, most);
        copied
    }

    fn find(
        host: &mut Host,
        of: u64,
        user: u32,
        made_with: u32,
        tokens: usize,
        held: usize,
    ) -> Option<Found> {
        let prompt: Vec<_> = (0..tokens)
            .map(|token| u32::try_from(token).expect("small"))
            .collect();
        let all = 0..prompt.len();
        let asked = Asked {
            user,
            key: &key(made_with),
            prompt: Wanted {
                tokens: &prompt,
                said: std::slice::from_ref(&all),
            },
            reuse: Reuse::Exact,
            page_bytes: BYTES,
            layout: &Layout::plain(),
            held,
            again: Cost::default(),
        };
        host.find(&Whose::Open(of), &asked, true)
    }

    #[test]
    fn pages_are_restored_for_their_user_and_model_and_only_new_ones_are_copied() {
        let mut host = Host::default();
        assert_eq!(keep(&mut host, 1, 7, &said(0..130), 1000), 3);
        let found = find(&mut host, 1, 7, 1, 129, 10).expect("it is kept");
        assert_eq!((found.tokens.len(), found.pages.len()), (129, 3));
        let found = find(&mut host, 1, 7, 1, 500, 64).expect("it is kept");
        assert_eq!(found.tokens, said(0..130));
        assert_eq!(
            found.pages.iter().map(|page| page[0]).collect::<Vec<_>>(),
            [1, 2]
        );
        assert!(
            find(&mut host, 1, 7, 1, 500, 67).is_none(),
            "less than a page"
        );
        assert!(find(&mut host, 1, 8, 1, 500, 0).is_none(), "another user");
        assert!(find(&mut host, 1, 7, 2, 500, 0).is_none(), "another model");
        assert!(
            find(&mut host, 2, 7, 1, 500, 0).is_none(),
            "another session"
        );
        // The session continues, and is rewound.
        assert_eq!(keep(&mut host, 1, 7, &said(0..200), 1000), 2);
        assert_eq!(keep(&mut host, 1, 7, &said(0..100), 1000), 1);
        host.retain(Some(&key(1)));
        assert!(host.has(&Whose::Open(1)));
        host.retain(Some(&key(2)));
        assert_eq!(host.bytes(), 0);
        keep(&mut host, 1, 7, &said(0..100), 1000);
        host.delete(&Whose::Open(1));
        assert_eq!(host.bytes(), 0);
    }

    #[test]
    fn pages_slower_than_prefill_are_not_restored() {
        let mut host = Host::default();
        keep(&mut host, 1, 7, &said(0..128), 1000);
        let prompt: Vec<u32> = (0..128).collect();
        let all = 0..prompt.len();
        let find = |host: &mut Host, measured| {
            let asked = Asked {
                user: 7,
                key: &key(1),
                prompt: Wanted {
                    tokens: &prompt,
                    said: std::slice::from_ref(&all),
                },
                reuse: Reuse::Exact,
                page_bytes: BYTES,
                layout: &Layout::plain(),
                held: 0,
                again: Cost {
                    said: Some(1.0),
                    ..Cost::default()
                },
            };
            host.find(&Whose::Open(1), &asked, measured).is_some()
        };
        assert!(find(&mut host, true), "the time is unknown");
        host.measure(16, Duration::from_secs(127));
        assert!(find(&mut host, true));
        host.measure(16, Duration::from_secs(1000));
        assert!(!find(&mut host, true) && find(&mut host, false));
    }

    #[test]
    fn memory_is_limited_and_the_largest_user_loses_first() {
        let mut host = Host::default();
        let most = 6 * BYTES as u64;
        assert_eq!(
            keep(&mut host, 0, 7, &said(0..1000), most),
            0,
            "it is too long"
        );
        for session in 1..4 {
            keep(&mut host, session, 7, &said(0..64), most);
        }
        for session in 4..6 {
            keep(&mut host, session, 8, &said(0..64), most);
        }
        find(&mut host, 1, 7, 1, 500, 0).expect("it is kept");
        keep(&mut host, 6, 9, &said(0..128), most);
        let left = |host: &Host| {
            (1..7)
                .filter(|one| host.has(&Whose::Open(*one)))
                .collect::<Vec<_>>()
        };
        assert_eq!(left(&host), [1, 3, 4, 5, 6], "the oldest of user 7");
        host.shrink(0, None);
        assert_eq!(host.bytes(), 0);
    }
}
