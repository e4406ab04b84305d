//! The bounded queue of requests between many callers and the one engine thread.
//!
//! `fair` chooses the next request of a priority. Callers never wait here, except for the lock.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::control::{Command, Control};
use super::fair::{self, Fair, Readiness, Seen};
use super::request::Request;
use super::shared::Shared;
use crate::engine::caller::error::EngineError;
use crate::engine::caller::held::{ActiveHold, Held};
use crate::engine::caller::limits::Limits;
use crate::engine::caller::request::{Priority, Refusal};
use crate::engine::observe::progress::Phase;
use crate::engine::picture::picture::{Picture, PictureKey};
use crate::engine::session::sessions::SessionId;
use crate::kv_store::Wake;
use crate::telemetry::Usage;

/// A place in the queue, reserved before a prompt is encoded, so that a full queue refuses requests at little cost. Dropping
/// it releases the place.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    user: u32,
    /// Whether no request has taken the place yet.
    reserved: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.reserved {
            self.queue.lock().release_place(self.user);
        }
    }
}

/// The requests that wait, and other commands for the engine thread.
#[derive(Debug)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// What is held, as a number. The engine thread reads it before each step.
    held: AtomicU8,
    /// How many requests have arrived, and how many of them the engine thread has seen.
    arrivals: AtomicU64,
    seen_arrivals: AtomicU64,
    /// Copies of the waiting requests and of the holds. Their readers do not delay the engine thread.
    published: ArcSwap<Vec<Seen<Summary>>>,
    published_holds: ArcSwap<Vec<ActiveHold>>,
}

/// What is wanted of an engine thread without a model.
#[derive(Debug)]
pub(crate) enum Wanted {
    Control(Control),
    /// A request waits that needs the model.
    Model,
}

/// What readers get of a waiting request.
#[derive(Clone, Copy, Debug)]
struct Summary {
    id: u64,
    priority: Priority,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: Fair<Request>,
    /// The users of reserved places.
    places: Vec<u32>,
    controls: VecDeque<Control>,
    /// Sessions of which the engine thread has had a request, so that it may hold pages of them.
    known: HashSet<SessionId>,
    /// The holds, oldest first, each with its number.
    holds: Vec<(u64, ActiveHold)>,
    closed: bool,
    /// Whether the engine thread has ended.
    abandoned: bool,
    /// Whether pages have arrived from the disk, or were written.
    moved: bool,
    /// The loans to the threads that encode and compile, by their numbers: the images that each request or generation shows.
    away: HashMap<u64, Vec<PictureKey>>,
    /// Loans so far.
    loans: u64,
}

impl Waiting {
    /// Reserves a place for a request of `user`.
    fn admit(&mut self, user: u32, limits: &Limits) -> Result<(), Refusal> {
        if self.requests.len() + self.places.len() + self.away.len() >= limits.queue {
            return Err(Refusal::Busy {
                capacity: limits.queue,
            });
        }
        let waiting = self.requests.iter().map(|request| request.client.user);
        let reserved = self.places.iter().copied();
        let theirs = waiting.chain(reserved).filter(|of| *of == user);
        let share = limits.user_queue();
        if theirs.count() >= share {
            let percent = limits.user.queue_percent;
            return Err(Refusal::UserQueue {
                user,
                share,
                percent,
            });
        }
        self.places.push(user);
        Ok(())
    }

    /// Returns the active holds: none once the queue is closed, whose end no hold delays.
    fn active_holds(&self) -> impl Iterator<Item = &ActiveHold> {
        let holds = self.holds.iter().filter(|_| !self.closed);
        holds.map(|(_, hold)| hold)
    }

    /// Returns which requests are held.
    fn held(&self) -> Held {
        let held = self.active_holds().map(|hold| hold.held);
        held.max().unwrap_or_default()
    }

    /// Releases a place of `user`.
    fn release_place(&mut self, user: u32) {
        if let Some(at) = self.places.iter().position(|of| *of == user) {
            self.places.swap_remove(at);
        }
    }

    /// Removes and returns the next command. Requests come last, by priority, if they are ready.
    fn take(&mut self, may: impl Fn(&Request) -> Readiness) -> Option<Command> {
        if let Some(control) = self.controls.pop_front() {
            return Some(Command::Control(control));
        }
        if std::mem::take(&mut self.moved) {
            return Some(Command::Control(Control::Pages));
        }
        let held = self.held();
        let may = |request: &Request| {
            if held.suspends(request.options.priority) {
                Readiness::Blocked
            } else {
                may(request)
            }
        };
        let request = self
            .requests
            .take(|request| Reverse(request.options.priority), may)?;
        self.known.extend(request.session);
        Some(Command::Request(Box::new(request)))
    }
}

impl Queue {
    /// Returns a function that wakes the engine thread because pages have moved.
    pub(crate) fn wake(self: &Arc<Self>) -> Wake {
        let queue = self.clone();
        Arc::new(move || queue.pages_moved())
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            waiting: Mutex::default(),
            changed: Condvar::new(),
            held: AtomicU8::default(),
            arrivals: AtomicU64::default(),
            seen_arrivals: AtomicU64::default(),
            published: ArcSwap::default(),
            published_holds: ArcSwap::default(),
        }
    }

    /// Reserves a place for a request of `user`, within the limits of the user and of the queue.
    pub(crate) fn place(self: &Arc<Self>, user: u32) -> Result<Place, Refusal> {
        let limits = self.shared.limits();
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(self.shared.closed());
        }
        waiting.admit(user, &limits)?;
        drop(waiting);
        Ok(Place {
            queue: self.clone(),
            user,
            reserved: true,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Notes that a request that shows some images goes to the threads that encode and compile. The queue is not empty until
    /// it is back. Returns the number of the loan.
    pub(crate) fn lend(&self, pictures: &[Arc<Picture>]) -> u64 {
        let pictures = pictures.iter().map(|picture| picture.key).collect();
        let mut waiting = self.lock();
        waiting.loans += 1;
        let loan = waiting.loans;
        waiting.away.insert(loan, pictures);
        loan
    }

    /// Notes that a lent request is back, or has ended.
    pub(crate) fn end_loan(&self, loan: u64) {
        self.lock().away.remove(&loan);
        self.changed.notify_all();
    }

    /// Queues a request again that was lent. It was accepted before, so a closed queue takes it too.
    pub(crate) fn bring_back(&self, loan: u64, request: Request) {
        let mut waiting = self.lock();
        waiting.away.remove(&loan);
        if waiting.abandoned {
            drop(waiting);
            request.fail(EngineError::Ended.into(), Usage::default());
            return;
        }
        if let Some(reason) = request.ends() {
            drop(waiting);
            request.finish(reason, Usage::default(), None);
            self.changed.notify_all();
            return;
        }
        waiting.requests.push(request);
        self.publish(&waiting);
        self.arrivals.fetch_add(1, Ordering::Release);
        self.shared.progress.set_idle(false);
        self.changed.notify_all();
    }

    /// Queues a request in its reserved place, or drops it with the reason. A request whose session was closed meanwhile is
    /// cancelled, and never reaches the engine thread.
    pub(crate) fn push(&self, request: Request, mut place: Place) -> Result<(), Refusal> {
        let mut waiting = self.lock();
        waiting.release_place(place.user);
        place.reserved = false;
        if waiting.closed {
            drop(waiting);
            return Err(self.shared.closed());
        }
        if request.is_cancelled() {
            return Err(Refusal::SessionClosed);
        }
        waiting.requests.push(request);
        self.publish(&waiting);
        self.arrivals.fetch_add(1, Ordering::Release);
        self.shared.progress.set_idle(false);
        self.changed.notify_one();
        Ok(())
    }

    /// Whether a request has arrived since the last call for which `matches` is true. Arrivals that the queue takes at this
    /// moment are reported by the next call.
    pub(crate) fn has_arrival(&self, matches: impl Fn(&Request) -> bool) -> bool {
        let Some(waiting) = self.with_unseen() else {
            return false;
        };
        self.note_seen(&waiting);
        waiting.requests.iter().any(matches)
    }

    /// Whether `has_arrival` would report a request for which `matches` is true. It still does so afterwards.
    pub(crate) fn has_unseen_arrival(&self, matches: impl Fn(&Request) -> bool) -> bool {
        let waiting = self.with_unseen();
        waiting.is_some_and(|waiting| waiting.requests.iter().any(matches))
    }

    /// Returns the requests that wait, if the engine thread has not seen all of them and no caller has the lock.
    fn with_unseen(&self) -> Option<MutexGuard<'_, Waiting>> {
        if self.arrivals.load(Ordering::Acquire) == self.seen_arrivals.load(Ordering::Relaxed) {
            return None;
        }
        self.waiting.try_lock()
    }

    /// Waits until `until`, or until a request arrives for which `matches` is true. Returns whether one has.
    pub(crate) fn wait_for_arrival(
        &self,
        until: Instant,
        matches: impl Fn(&Request) -> bool,
    ) -> bool {
        loop {
            if self.has_arrival(&matches) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // An arrival changes both counts under the lock, which is only held for a moment.
            match self.waiting.try_lock() {
                Some(mut waiting)
                    if self.arrivals.load(Ordering::Acquire)
                        == self.seen_arrivals.load(Ordering::Relaxed) =>
                {
                    self.changed.wait_for(&mut waiting, left);
                }
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Notes that the engine thread has seen all requests that wait.
    fn note_seen(&self, _: &Waiting) {
        let arrivals = self.arrivals.load(Ordering::Acquire);
        self.seen_arrivals.store(arrivals, Ordering::Relaxed);
    }

    /// Returns the images that requests show which wait, or are lent, or come back to the engine thread.
    pub(crate) fn pictures(&self) -> HashSet<PictureKey> {
        let waiting = self.lock();
        let prompts = waiting
            .requests
            .iter()
            .filter_map(|one| one.prompt.as_ref());
        let queued = prompts.flat_map(|prompt| &prompt.pictures);
        let back = waiting.controls.iter().filter_map(|control| match control {
            Control::Continue(generation) => Some(generation.pictures()),
            _ => None,
        });
        let shown = queued.chain(back.flatten()).map(|picture| picture.key);
        let lent = waiting.away.values().flatten().copied();
        shown.chain(lent).collect()
    }

    pub(crate) fn remove(&self, id: u64) -> Option<Request> {
        let mut waiting = self.lock();
        let request = waiting.requests.remove(|request| request.id == id)?;
        self.publish(&waiting);
        Some(request)
    }

    /// Publishes the requests that wait.
    fn publish(&self, waiting: &Waiting) {
        let summaries = waiting.requests.seen(|request| Summary {
            id: request.id,
            priority: request.options.priority,
        });
        self.published.store(Arc::new(summaries));
    }

    /// Returns how many waiting requests come before this one; `None` if it does not wait.
    pub(crate) fn before(&self, id: u64) -> Option<usize> {
        let published = self.published.load();
        let priority = published
            .iter()
            .find(|seen| seen.one.id == id)?
            .one
            .priority;
        let above = published.iter().filter(|seen| seen.one.priority > priority);
        let alike = |one: &Summary| one.priority == priority;
        let before = fair::before(&published, |one| one.id == id, alike)?;
        Some(above.count() + before)
    }

    /// Returns the priorities and users of the waiting requests, in the order of their arrival.
    pub(crate) fn waiting(&self) -> Vec<(Priority, u32)> {
        let published = self.published.load();
        published
            .iter()
            .map(|seen| (seen.one.priority, seen.client.user))
            .collect()
    }

    pub(crate) fn drain(&self) -> VecDeque<Request> {
        let mut waiting = self.lock();
        let requests = waiting.requests.drain();
        self.publish(&waiting);
        requests
    }

    /// Sends a command to the engine thread. If that has ended, the command is dropped, and with it its reply channel.
    pub(crate) fn control(&self, control: Control) {
        self.add(&mut self.lock(), control);
    }

    fn add(&self, waiting: &mut Waiting, control: Control) {
        if !waiting.abandoned {
            waiting.controls.push_back(control);
            self.shared.progress.set_idle(false);
        }
        self.changed.notify_one();
    }

    /// Wakes the engine thread because pages have arrived from the disk, or were written.
    pub(crate) fn pages_moved(&self) {
        self.lock().moved = true;
        self.changed.notify_one();
    }

    /// Notifies the engine thread of a closed session. A `persistent` one can be opened again. At most one command waits for
    /// each session that the thread knows, however many sessions are opened and closed.
    pub(crate) fn forget(&self, session: SessionId, persistent: bool) {
        let mut waiting = self.lock();
        if waiting.known.remove(&session) {
            let controls = &mut waiting.controls;
            let begins =
                |one: &Control| matches!(one, Control::Branch { to, .. } if *to == session);
            if let Some(at) = controls.iter().position(begins) {
                // The engine thread does not know the session yet.
                controls.remove(at);
                return;
            }
            controls.retain(|control| control.rewinds() != Some(session));
            self.add(
                &mut waiting,
                Control::Forget {
                    session,
                    persistent,
                },
            );
        }
    }

    /// Branches a session from another, if the engine thread knows that one.
    pub(crate) fn branch(&self, from: SessionId, to: SessionId) {
        let mut waiting = self.lock();
        if waiting.known.contains(&from) {
            waiting.known.insert(to);
            self.add(&mut waiting, Control::Branch { from, to });
        }
    }

    /// Rewinds a session to `keep` tokens. A rewind of the same session that still waits is changed instead: no request runs
    /// between both, so the smaller number counts.
    pub(crate) fn rewind(&self, session: SessionId, keep: usize) {
        let mut waiting = self.lock();
        if !waiting.known.contains(&session) {
            return;
        }
        for control in waiting.controls.iter_mut().rev() {
            match control {
                // The branch needs the tokens from before.
                Control::Branch { from, .. } if *from == session => break,
                Control::Rewind {
                    session: of,
                    keep: before,
                } if *of == session => {
                    *before = keep.min(*before);
                    return;
                }
                _ => {}
            }
        }
        self.add(&mut waiting, Control::Rewind { session, keep });
    }

    /// Tells the engine thread that the system lacks memory. At most one such command waits.
    pub(crate) fn relieve(&self) {
        let mut waiting = self.lock();
        let is_it = |control: &Control| matches!(control, Control::Pressure);
        if !waiting.controls.iter().any(is_it) {
            self.add(&mut waiting, Control::Pressure);
        }
    }

    /// Whether no request waits, or is being encoded. Requests that a hold keeps off the device wait.
    pub(crate) fn is_quiet(&self) -> bool {
        let waiting = self.lock();
        waiting.requests.len() == 0 && waiting.places.is_empty() && waiting.away.is_empty()
    }

    /// Closes the queue because the engine thread has ended, and fails the requests that wait.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.abandoned = true;
        waiting.closed = true;
        waiting.controls.clear();
        let requests = waiting.requests.drain();
        self.publish(&waiting);
        self.shared.progress.set_idle(true);
        drop(waiting);
        for request in requests {
            request.fail(EngineError::Ended.into(), Usage::default());
        }
    }

    /// Removes and returns the next command that can be obeyed now. Returns `None` without waiting if a caller has the lock:
    /// then the command comes before the next step.
    pub(crate) fn poll(&self, may: impl Fn(&Request) -> Readiness) -> Option<Command> {
        let mut waiting = self.waiting.try_lock()?;
        self.take(&mut waiting, may)
    }

    fn take(&self, waiting: &mut Waiting, may: impl Fn(&Request) -> Readiness) -> Option<Command> {
        self.note_seen(waiting);
        let taken = waiting.take(may);
        if matches!(taken, Some(Command::Request(_))) {
            self.publish(waiting);
        }
        taken
    }

    pub(crate) fn hold(&self, id: u64, hold: ActiveHold) {
        let mut waiting = self.lock();
        waiting.holds.push((id, hold));
        self.note_held(&waiting);
    }

    pub(crate) fn release(&self, id: u64) {
        let mut waiting = self.lock();
        waiting.holds.retain(|(hold, _)| *hold != id);
        self.note_held(&waiting);
        drop(waiting);
        self.changed.notify_all();
    }

    pub(crate) fn holds(&self) -> Arc<Vec<ActiveHold>> {
        self.published_holds.load_full()
    }

    /// Returns the longest time that holds can keep requests of `priority` off the device; `None` if none does.
    pub(crate) fn held_for(&self, priority: Priority) -> Option<Duration> {
        let holds = self.published_holds.load();
        let holds = holds.iter().filter(|hold| hold.held.suspends(priority));
        holds.map(ActiveHold::left).max()
    }

    fn note_held(&self, waiting: &Waiting) {
        let holds = waiting.active_holds().cloned().collect();
        self.published_holds.store(Arc::new(holds));
        self.held.store(waiting.held() as u8, Ordering::Release);
    }

    pub(crate) fn held(&self) -> Held {
        Held::of(self.held.load(Ordering::Acquire))
    }

    /// Waits for a change, or for a short time: a suspended request can be cancelled without a change.
    pub(crate) fn wait_briefly(&self) {
        const SHORT: Duration = Duration::from_millis(20);
        self.shared.progress.enter(Phase::Between);
        let mut waiting = self.lock();
        if !waiting.moved {
            self.changed.wait_for(&mut waiting, SHORT);
        }
    }

    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        self.note_held(&waiting);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Waits, without a model, for a command or for a request that needs the model. Returns `None` once the queue is closed
    /// and empty.
    pub(crate) fn next_without_model(&self) -> Option<Wanted> {
        self.shared.progress.enter(Phase::Between);
        let mut waiting = self.lock();
        loop {
            if let Some(control) = waiting.controls.pop_front() {
                return Some(Wanted::Control(control));
            }
            waiting.moved = false;
            let held = waiting.held();
            let needs = |request: &Request| !held.suspends(request.options.priority);
            if waiting.requests.iter().any(needs) {
                self.shared.progress.set_idle(false);
                return Some(Wanted::Model);
            }
            self.shared.progress.set_idle(true);
            if waiting.closed && waiting.away.is_empty() {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
    }

    /// Waits for the next command. Returns `Control::Pages` at `due`, and `None` once the queue is closed and empty.
    pub(crate) fn next(&self, due: Option<Instant>) -> Option<Command> {
        self.shared.progress.enter(Phase::Between);
        let mut waiting = self.lock();
        loop {
            if let Some(command) = self.take(&mut waiting, |_| Readiness::Ready) {
                return Some(command);
            }
            // Only the engine thread sets this: a thread that hangs must not seem idle because its callers gave up.
            self.shared.progress.set_idle(true);
            if waiting.closed && waiting.away.is_empty() {
                return None;
            }
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            match left {
                Some(Duration::ZERO) => return Some(Command::Control(Control::Pages)),
                Some(left) => {
                    self.changed.wait_for(&mut waiting, left);
                }
                None => self.changed.wait(&mut waiting),
            }
        }
    }
}

#[cfg(test)]
mod tests;
