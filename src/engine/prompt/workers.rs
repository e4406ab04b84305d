//! Worker threads for slow jobs: they encode prompts, and wait for the process that compiles grammars.
//!
//! A prompt can have megabytes, and encoding needs many times its memory. So the threads work for few users at once, and on
//! one job of each user at a time. Prompts and grammars have threads of their own, so that neither waits for the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::engine::caller::client::{Client, ConnectionName};
use crate::engine::intake::fair::{Fair, Queued, Readiness};

/// A kind of worker threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkKind {
    /// The name of its threads.
    name: &'static str,
    /// The most jobs that run at once.
    at_once: usize,
    /// The nice value of the threads. A thread with 10 yields most of the time to threads with 0.
    nice: i32,
    /// Whether users alternate by the time of their jobs, rather than by their number.
    by_time: bool,
}

/// The threads that encode prompts. A slow prompt of one user does not delay others.
pub(crate) const PROMPTS: WorkKind = WorkKind {
    name: "encoder",
    at_once: 2,
    nice: 10,
    by_time: false,
};

/// The thread that waits for the process that compiles grammars.
pub(crate) const GRAMMARS: WorkKind = WorkKind {
    name: "grammars",
    at_once: 1,
    nice: 0,
    by_time: true,
};

/// The threads that decode images, which take memory for the pixels meanwhile.
pub(crate) const IMAGES: WorkKind = WorkKind {
    name: "pixels",
    at_once: 2,
    nice: 10,
    by_time: true,
};

/// Whether the result of a job is still wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interest(Arc<AtomicBool>);

impl Interest {
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    fn give_up(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A job of one request.
struct Job {
    /// The number of its request.
    ticket: u64,
    client: Client,
    wanted: Interest,
    /// Runs the job, and reports its result.
    work: Box<dyn FnOnce() + Send>,
}

impl Queued for Job {
    fn client(&self) -> &Client {
        &self.client
    }
}

/// A running job.
struct Running {
    ticket: u64,
    client: Client,
    wanted: Interest,
}

struct State {
    waiting: Fair<Job>,
    running: Vec<Running>,
    /// The time that each user's jobs have taken.
    charges: HashMap<u32, Charge>,
    threads: usize,
    closed: bool,
}

/// A time that decays by half in each half-life.
#[derive(Clone, Copy)]
struct Charge {
    time: Duration,
    since: Instant,
}

const HALF_LIFE: Duration = Duration::from_secs(30);
/// Users whose charges differ by less than this alternate.
const ALIKE: Duration = Duration::from_millis(100);

impl Charge {
    fn now(self) -> Duration {
        let lives = self.since.elapsed().as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.time.mul_f64(0.5_f64.powf(lives))
    }
}

impl State {
    fn take(&mut self, kind: WorkKind) -> Option<Job> {
        if self.running.len() >= kind.at_once {
            return None;
        }
        let (running, charges) = (&self.running, &self.charges);
        let may = |job: &Job| {
            let mut running = running.iter();
            if running.any(|one| one.client.user == job.client.user) {
                Readiness::Blocked
            } else {
                Readiness::Ready
            }
        };
        let rank = |job: &Job| {
            let charge = charges.get(&job.client.user).filter(|_| kind.by_time);
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
    kind: WorkKind,
    state: Mutex<State>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wait(&self, state: &mut MutexGuard<'_, State>) {
        self.changed.wait(state);
    }
}

/// Worker threads, which start with the first job and end with this value.
pub(crate) struct Workers(Arc<Inner>);

impl Workers {
    pub(crate) fn new(kind: WorkKind) -> Self {
        Self(Arc::new(Inner {
            kind,
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

    /// Runs `work` on one of the threads. Returns `None` if it was removed before. Dropping the future removes the work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        ticket: u64,
        client: Client,
        work: impl FnOnce(&Interest) -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (reply, answer) = oneshot::channel();
        let work = move |wanted: &Interest| drop(reply.send(work(wanted)));
        let wanted = self.submit(ticket, client, work)?;
        let _leaves = Leaves(self, ticket, wanted);
        Ok(answer.await.ok())
    }

    /// Queues `work` for one of the threads. If it is removed before, it is dropped.
    pub(crate) fn submit(
        &self,
        ticket: u64,
        client: Client,
        work: impl FnOnce(&Interest) + Send + 'static,
    ) -> io::Result<Interest> {
        self.start()?;
        let wanted = Interest::default();
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

    /// Removes the jobs of a request. The result of a running job is dropped.
    pub(crate) fn remove(&self, ticket: u64) {
        self.remove_if(|of, _| of == ticket);
    }

    /// Removes the jobs of a connection.
    pub(crate) fn remove_client(&self, name: &ConnectionName) {
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
            // The job is dropped outside the lock.
            if removed.is_none() {
                return;
            }
        }
    }

    /// Starts the threads, unless they run.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        while state.threads < self.0.kind.at_once {
            let inner = self.0.clone();
            thread::Builder::new()
                .name(self.0.kind.name.into())
                .spawn(move || serve(&inner))?;
            state.threads += 1;
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.running.iter().for_each(|one| one.wanted.give_up());
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Runs jobs on one of the threads.
fn serve(inner: &Inner) {
    if inner.kind.nice > 0 {
        // On Linux this changes this thread alone. If a sandbox refuses it, the thread only yields less.
        let _ = rustix::process::nice(inner.kind.nice);
    }
    let mut state = inner.lock();
    while !state.closed {
        let Some(Job {
            client,
            work,
            ticket,
            ..
        }) = state.take(inner.kind)
        else {
            inner.wait(&mut state);
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

/// Removes a job when its future is dropped.
struct Leaves<'a>(&'a Workers, u64, Interest);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.2.give_up();
        self.0.remove(self.1);
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers")
            .field("name", &self.0.kind.name)
            .field("waiting", &self.0.lock().waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// At most two prompts of several users run at once, and only one of each user.
    #[tokio::test(flavor = "multi_thread")]
    async fn two_at_once_and_one_for_each_user() {
        let workers = Arc::new(Workers::new(PROMPTS));
        let [all, most] = [const { AtomicUsize::new(0) }; 2].map(Arc::new);
        let users: [Arc<AtomicUsize>; 3] = Default::default();
        let work = |user: usize| {
            let (all, most, theirs) = (all.clone(), most.clone(), users[user].clone());
            move |_: &Interest| {
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
        // Most are of one user, so that in the end no other user waits.
        let users = [0, 0, 0, 0, 1, 2_u32].into_iter().cycle();
        let tasks: Vec<_> = (0..60_u64)
            .zip(users)
            .map(|(ticket, user)| {
                let (workers, work) = (workers.clone(), work(user as usize));
                let name = ":1.1".into();
                tokio::spawn(async move { workers.run(ticket, Client { name, user }, work).await })
            })
            .collect();
        for task in tasks {
            let niceness = task.await.unwrap().unwrap();
            assert_eq!(niceness, Some((mine + PROMPTS.nice).min(19)));
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    /// A user whose job took long comes after a user whose job did not, and an unwanted job ends early.
    #[tokio::test(flavor = "multi_thread")]
    async fn time_is_charged_and_work_can_be_given_up() {
        let workers = Arc::new(Workers::new(GRAMMARS));
        let order = Arc::new(Mutex::new(Vec::new()));
        let client = |user| Client {
            name: ":1.1".into(),
            user,
        };
        let until_given_up = |wanted: &Interest| {
            let begun = Instant::now();
            while wanted.is_wanted() || begun.elapsed() < 2 * ALIKE {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let first = workers
            .submit(1, client(1), until_given_up)
            .expect("a thread");
        for (ticket, user) in [(2, 1), (3, 1), (4, 2)] {
            let order = order.clone();
            let work = move |_: &Interest| order.lock().push(ticket);
            workers
                .submit(ticket, client(user), work)
                .expect("a thread");
        }
        while workers.0.lock().running.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        workers.remove(1);
        assert!(!first.is_wanted());
        let last = |_: &Interest| {};
        workers.run(5, client(3), last).await.expect("a thread");
        while order.lock().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(*order.lock(), [4, 2, 3]);
    }
}
