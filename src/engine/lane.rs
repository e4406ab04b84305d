//! Threads for work that takes long and has little to do with the device: making tokens of prompts, and compiling grammars.
//!
//! A prompt may have megabytes, and its encoding takes many times that in memory and time. Therefore a lane works for few users
//! at once, and for each user on one thing at a time. Prompts and grammars have lanes of their own, so that neither waits for the
//! other. What is done, and whether a request may wait here at all, is decided by `accept`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::sync::oneshot;

use super::{Client, ConnectionName};
use super::fair::{Fair, May, Waits};

/// How a lane works.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// The name of its threads.
    name: &'static str,
    /// Things that are done at once.
    at_once: usize,
    /// The priority of the threads. With 10, a thread gets a tenth of the time of one that computes, and all that is left.
    nice: i32,
    /// Whether users take turns by the time that their work took, rather than by the number of their requests.
    by_time: bool,
}

/// Tokens of prompts: a hard prompt of one user holds up no other.
pub(super) const PROMPTS: Manner = Manner {
    name: "encoder",
    at_once: 2,
    nice: 10,
    by_time: false,
};

/// Grammars: the thread waits for the process that compiles.
pub(super) const GRAMMARS: Manner = Manner {
    name: "grammars",
    at_once: 1,
    nice: 0,
    by_time: true,
};

/// Whether the result of work is still wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    pub(super) fn is_wanted(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    fn give_up(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Work of one request.
struct Job {
    /// The number of its request.
    ticket: u64,
    client: Client,
    wanted: Wanted,
    /// Reports its result itself.
    work: Box<dyn FnOnce() + Send>,
}

impl Waits for Job {
    fn client(&self) -> &Client {
        &self.client
    }
}

/// Work that is being done.
struct Running {
    ticket: u64,
    client: Client,
    wanted: Wanted,
}

struct State {
    waiting: Fair<Job>,
    running: Vec<Running>,
    /// The time that users' work has taken.
    charges: HashMap<u32, Charge>,
    threads: usize,
    closed: bool,
}

/// Time that is forgotten by half in each half-life.
#[derive(Clone, Copy)]
struct Charge {
    time: Duration,
    since: Instant,
}

const HALF_LIFE: Duration = Duration::from_secs(30);
/// Users whose charges differ by less take turns.
const ALIKE: Duration = Duration::from_millis(100);

impl Charge {
    fn now(self) -> Duration {
        let lives = self.since.elapsed().as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.time.mul_f64(0.5_f64.powf(lives))
    }
}

impl State {
    fn take(&mut self, manner: Manner) -> Option<Job> {
        if self.running.len() >= manner.at_once {
            return None;
        }
        let (running, charges) = (&self.running, &self.charges);
        let may = |job: &Job| {
            let mut running = running.iter();
            if running.any(|one| one.client.user == job.client.user) {
                May::Not
            } else {
                May::Go
            }
        };
        let rank = |job: &Job| {
            let charge = charges.get(&job.client.user).filter(|_| manner.by_time);
            charge.map_or(0, |charge| charge.now().as_millis() / ALIKE.as_millis())
        };
        let job = self.waiting.take(rank, may)?;
        self.running.push(Running {
            ticket: job.ticket,
            client: job.client.clone(),
            wanted: job.wanted.clone(),
        });
        Some(job)
    }

    fn charge(&mut self, user: u32, took: Duration) {
        self.charges.retain(|_, charge| charge.now() > ALIKE / 10);
        let before = self.charges.get(&user).map(|charge| charge.now());
        let charge = Charge {
            time: before.unwrap_or_default() + took,
            since: Instant::now(),
        };
        self.charges.insert(user, charge);
    }
}

struct Inner {
    manner: Manner,
    state: Mutex<State>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads, which start with the first request and end with the lane.
pub(super) struct Lane(Arc<Inner>);

impl Lane {
    pub(super) fn new(manner: Manner) -> Self {
        Self(Arc::new(Inner {
            manner,
            state: Mutex::new(State {
                waiting: Fair::default(),
                running: Vec::new(),
                charges: HashMap::new(),
                threads: 0,
                closed: false,
            }),
            changed: Condvar::new(),
        }))
    }

    /// Does `work` on one of the threads, when it is its turn; `None` if it was removed before. Dropping the future gives up the
    /// turn and the work.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        ticket: u64,
        client: Client,
        work: impl FnOnce(&Wanted) -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (reply, answer) = oneshot::channel();
        let work = move |wanted: &Wanted| drop(reply.send(work(wanted)));
        let wanted = self.submit(ticket, client, work)?;
        let _leaves = Leaves(self, ticket, wanted);
        Ok(answer.await.ok())
    }

    /// Has `work` done on one of the threads, when it is its turn. It is dropped if it is removed before.
    pub(super) fn submit(
        &self,
        ticket: u64,
        client: Client,
        work: impl FnOnce(&Wanted) + Send + 'static,
    ) -> io::Result<Wanted> {
        self.start()?;
        let wanted = Wanted::default();
        let asks = wanted.clone();
        self.0.lock().waiting.push(Job {
            ticket,
            client,
            wanted: wanted.clone(),
            work: Box::new(move || work(&asks)),
        });
        self.0.changed.notify_all();
        Ok(wanted)
    }

    /// Removes the work of a request; what is being done is not wanted any more.
    pub(super) fn remove(&self, ticket: u64) {
        self.remove_if(|of, _| of == ticket);
    }

    /// Removes all work of a connection.
    pub(super) fn remove_client(&self, name: &ConnectionName) {
        self.remove_if(|_, client| client.name == *name);
    }

    fn remove_if(&self, is_it: impl Fn(u64, &Client) -> bool) {
        let running = |one: &&Running| is_it(one.ticket, &one.client);
        self.0
            .lock()
            .running
            .iter()
            .filter(running)
            .for_each(|one| one.wanted.give_up());
        loop {
            let waits = |job: &Job| is_it(job.ticket, &job.client);
            let removed = self.0.lock().waiting.remove(waits);
            // What it holds is dropped outside the lock.
            if removed.is_none() {
                return;
            }
        }
    }

    /// Starts the threads, unless they run.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        while state.threads < self.0.manner.at_once {
            let inner = self.0.clone();
            thread::Builder::new()
                .name(self.0.manner.name.into())
                .spawn(move || serve(&inner))?;
            state.threads += 1;
        }
        Ok(())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.running.iter().for_each(|one| one.wanted.give_up());
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Does the work of one of the threads.
fn serve(inner: &Inner) {
    if inner.manner.nice > 0 {
        // This changes the priority of this thread alone, as Linux has it. It may always be lowered; where a sandbox refuses it,
        // the work is as right and only less modest.
        let _ = rustix::process::nice(inner.manner.nice);
    }
    let mut state = inner.lock();
    while !state.closed {
        let Some(Job {
            client,
            work,
            ticket,
            ..
        }) = state.take(inner.manner)
        else {
            state = inner.wait(state);
            continue;
        };
        drop(state);
        let begun = Instant::now();
        work();
        state = inner.lock();
        state.charge(client.user, begun.elapsed());
        state
            .running
            .retain(|one| one.ticket != ticket || one.client.user != client.user);
        inner.changed.notify_all();
    }
}

/// Removes work whose result is not waited for any more.
struct Leaves<'a>(&'a Lane, u64, Wanted);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.2.give_up();
        self.0.remove(self.1);
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
            .field("name", &self.0.manner.name)
            .field("waiting", &self.0.lock().waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Many prompts of several users: never more than two at once, nor two of one user.
    #[tokio::test(flavor = "multi_thread")]
    async fn two_at_once_and_one_for_each_user() {
        let lane = Arc::new(Lane::new(PROMPTS));
        let [all, most] = [const { AtomicUsize::new(0) }; 2].map(Arc::new);
        let users: [Arc<AtomicUsize>; 3] = Default::default();
        let work = |user: usize| {
            let (all, most, theirs) = (all.clone(), most.clone(), users[user].clone());
            move |_: &Wanted| {
                most.fetch_max(all.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                assert_eq!(
                    theirs.fetch_add(1, Ordering::SeqCst),
                    0,
                    "one for each user"
                );
                thread::sleep(Duration::from_millis(1));
                theirs.fetch_sub(1, Ordering::SeqCst);
                all.fetch_sub(1, Ordering::SeqCst);
                rustix::process::getpriority_process(None).expect("there is one")
            }
        };
        let mine = rustix::process::getpriority_process(None).expect("there is one");
        // Most are of one user: in the end no other user waits.
        let users = [0, 0, 0, 0, 1, 2_u32].into_iter().cycle();
        let tasks: Vec<_> = (0..60_u64)
            .zip(users)
            .map(|(ticket, user)| {
                let (lane, work) = (lane.clone(), work(user as usize));
                let name = ":1.1".into();
                tokio::spawn(async move { lane.run(ticket, Client { name, user }, work).await })
            })
            .collect();
        for task in tasks {
            let niceness = task.await.unwrap().unwrap();
            assert_eq!(niceness, Some((mine + PROMPTS.nice).min(19)));
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    /// A user whose work took long comes after a user whose work did not, and work that is not wanted is given up.
    #[tokio::test(flavor = "multi_thread")]
    async fn time_is_charged_and_work_can_be_given_up() {
        let lane = Arc::new(Lane::new(GRAMMARS));
        let order = Arc::new(Mutex::new(Vec::new()));
        let client = |user| Client {
            name: ":1.1".into(),
            user,
        };
        let until_given_up = |wanted: &Wanted| {
            while wanted.is_wanted() {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let first = lane.submit(1, client(1), until_given_up).expect("a thread");
        for (ticket, user) in [(2, 1), (3, 1), (4, 2)] {
            let order = order.clone();
            let work = move |_: &Wanted| order.lock().unwrap().push(ticket);
            lane.submit(ticket, client(user), work).expect("a thread");
        }
        thread::sleep(2 * ALIKE);
        lane.remove(1);
        assert!(!first.is_wanted());
        let last = |_: &Wanted| {};
        lane.run(5, client(3), last).await.expect("a thread");
        while order.lock().unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(*order.lock().unwrap(), [4, 2, 3]);
    }
}
