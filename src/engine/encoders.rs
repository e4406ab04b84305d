//! The threads that make tokens of prompts. A prompt may be megabytes long, and its encoding takes memory and time many
//! times that: no more than two are encoded at once, one for each user, and whatever the engine computes goes first.
//!
//! What is encoded, and whether a prompt may wait here at all, is for `handle` to say.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use tokio::sync::oneshot;

use super::Client;
use super::fair::{Fair, May, Waits};

/// Prompts that are encoded at once: whoever has a hard one holds up nobody else.
const AT_ONCE: usize = 2;
/// The threads run with this priority. With ten a thread gets a tenth of what one gets that computes, and all of what that
/// leaves.
const NICE: i32 = 10;

/// One prompt.
struct Job {
    /// Its request has this number.
    ticket: u64,
    client: Client,
    /// Tells its caller itself.
    work: Box<dyn FnOnce() + Send>,
}

impl Waits for Job {
    fn client(&self) -> &Client {
        &self.client
    }
}

#[derive(Default)]
struct State {
    waiting: Fair<Job>,
    /// Users whose prompts are encoded at this moment, by these threads.
    encoding: Vec<u32>,
    /// Prompts that the engine's thread encodes, or wants to.
    here: usize,
    threads: usize,
    closed: bool,
}

impl State {
    fn take(&mut self) -> Option<Job> {
        if self.encoding.len() + self.here >= AT_ONCE {
            return None;
        }
        let encoding = &self.encoding;
        let may = |job: &Job| {
            if encoding.contains(&job.client.user) {
                May::Not
            } else {
                May::Go
            }
        };
        let job = self.waiting.take(|_| (), may)?;
        self.encoding.push(job.client.user);
        Some(job)
    }
}

#[derive(Default)]
struct Inner {
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

/// The threads, made when the first prompt comes; they end with it.
#[derive(Default)]
pub(super) struct Encoders(Arc<Inner>);

impl Encoders {
    /// Does `work` on one of the threads, when it is its turn; `None` if it was removed before. Whoever drops the future
    /// gives up its turn.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        ticket: u64,
        client: Client,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move || drop(reply.send(work())));
        self.start()?;
        self.0.lock().waiting.push(Job {
            ticket,
            client,
            work,
        });
        self.0.changed.notify_all();
        let _leaves = Leaves(self, ticket);
        Ok(answer.await.ok())
    }

    /// Does `work` on the engine's own thread, before all who wait for the others.
    pub(super) fn run_here<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.0.lock();
        state.here += 1;
        while state.encoding.len() + state.here > AT_ONCE {
            state = self.0.wait(state);
        }
        drop(state);
        let done = work();
        self.0.lock().here -= 1;
        self.0.changed.notify_all();
        done
    }

    /// A request that needs no encoding any more, if it still waits for it.
    pub(super) fn remove(&self, ticket: u64) {
        self.remove_if(|job| job.ticket == ticket);
    }

    /// All of a connection.
    pub(super) fn remove_client(&self, name: &str) {
        self.remove_if(|job| &*job.client.name == name);
    }

    fn remove_if(&self, is_it: impl Fn(&Job) -> bool) {
        loop {
            let removed = self.0.lock().waiting.remove(&is_it);
            // What it holds is given back outside the lock.
            if removed.is_none() {
                return;
            }
        }
    }

    fn start(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        while state.threads < AT_ONCE {
            let inner = self.0.clone();
            thread::Builder::new()
                .name("encoder".into())
                .spawn(move || encode(&inner))?;
            state.threads += 1;
        }
        Ok(())
    }
}

impl Drop for Encoders {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

/// What one of the threads does.
fn encode(inner: &Inner) {
    // This changes the priority of this thread alone, as Linux has it. It may always be lowered; where a sandbox thinks
    // otherwise, encoding is as right and only less modest.
    let _ = rustix::process::nice(NICE);
    let mut state = inner.lock();
    while !state.closed {
        let Some(Job { client, work, .. }) = state.take() else {
            state = inner.wait(state);
            continue;
        };
        drop(state);
        work();
        state = inner.lock();
        state.encoding.retain(|user| *user != client.user);
        inner.changed.notify_all();
    }
}

/// Takes a job out when nobody waits for it any more.
struct Leaves<'a>(&'a Encoders, u64);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.remove(self.1);
    }
}

impl std::fmt::Debug for Encoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoders")
            .field("waiting", &self.0.lock().waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Many prompts of several users, some for the engine's thread: never more than two at once, nor two of one user.
    #[tokio::test(flavor = "multi_thread")]
    async fn two_at_once_and_one_for_each_user() {
        let encoders = Arc::new(Encoders::default());
        let [all, most] = [const { AtomicUsize::new(0) }; 2].map(Arc::new);
        let users: [Arc<AtomicUsize>; 4] = Default::default();
        let work = |user: usize| {
            let (all, most, theirs) = (all.clone(), most.clone(), users[user].clone());
            move || {
                most.fetch_max(all.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                assert_eq!(
                    theirs.fetch_add(1, Ordering::SeqCst),
                    0,
                    "one for each user"
                );
                thread::sleep(Duration::from_millis(1));
                theirs.fetch_sub(1, Ordering::SeqCst);
                all.fetch_sub(1, Ordering::SeqCst);
                rustix::process::getpriority_process(None).expect("it is told")
            }
        };
        let mine = rustix::process::getpriority_process(None).expect("it is told");
        // Most are of one user: in the end nobody else waits.
        let users = [0, 0, 0, 0, 1, 2_u32].into_iter().cycle();
        let tasks: Vec<_> = (0..60_u64)
            .zip(users)
            .map(|(ticket, user)| {
                let (encoders, work) = (encoders.clone(), work(user as usize));
                let name = ":1.1".into();
                tokio::spawn(async move { encoders.run(ticket, Client { name, user }, work).await })
            })
            .collect();
        let (here, of_engine) = (encoders.clone(), work(3));
        let here = thread::spawn(move || {
            for _ in 0..20 {
                here.run_here(&of_engine);
            }
        });
        for task in tasks {
            let niceness = task.await.unwrap().unwrap();
            assert_eq!(niceness, Some((mine + NICE).min(19)));
        }
        here.join().expect("it ends");
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }
}
