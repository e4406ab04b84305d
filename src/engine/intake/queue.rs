//! The bounded queue of turns between many callers and the one engine thread. Users take turns: see `fair`.

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::control::{Command, Control};
use super::fair::{self, Fair, Readiness, Seen};
use super::request::Request;
use super::shared::Shared;
use crate::engine::caller::error::EngineError;
use crate::engine::caller::held::{ActiveHold, Held};
use crate::engine::caller::limits::Limits;
use crate::engine::caller::request::{Priority, Refusal};
use crate::engine::observe::progress::Phase;
use crate::engine::session::sessions::SessionId;
use crate::telemetry::Usage;

/// A place in the queue, taken before a prompt is encoded: what is refused for want of one costs next to nothing.
/// Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    user: u32,
    /// It is given back when this is dropped, until a turn has taken it.
    kept: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.kept {
            self.queue.lock().leave(self.user);
        }
    }
}

/// Turns that wait, and what else the engine thread is asked.
#[derive(Debug)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// What is held, as a number, for the engine thread, which asks before each step.
    held: AtomicU8,
    /// How many turns have come, and how many had when the engine thread looked last: it asks while it reads.
    arrivals: AtomicU64,
    looked: AtomicU64,
    /// The turns that wait, and the holds, for whoever only looks: the engine thread waits for none of those.
    shown: ArcSwap<Vec<Seen<Shown>>>,
    shown_holds: ArcSwap<Vec<ActiveHold>>,
}

/// A turn that waits, for whoever looks.
#[derive(Clone, Copy, Debug)]
struct Shown {
    id: u64,
    priority: Priority,
}

#[derive(Debug, Default)]
struct Waiting {
    turns: Fair<Request>,
    /// Users of turns that are still being encoded, one for each place.
    places: Vec<u32>,
    controls: VecDeque<Control>,
    /// Sessions of which the engine thread has taken a turn, so that it may hold something of them.
    held: HashSet<SessionId>,
    /// The holds, oldest first, each with its number.
    holds: Vec<(u64, ActiveHold)>,
    closed: bool,
    /// Nobody is left to do anything.
    abandoned: bool,
    /// Pages have come from the disk, or gone there.
    moved: bool,
    /// Turns and answers that are with the threads that encode and compile.
    away: usize,
}

impl Waiting {
    /// Keeps a place for a turn of `user`.
    fn admit(&mut self, user: u32, limits: &Limits) -> Result<(), Refusal> {
        if self.turns.len() + self.places.len() + self.away >= limits.queue {
            return Err(Refusal::Busy {
                capacity: limits.queue,
            });
        }
        let waiting = self.turns.iter().map(|request| request.client.user);
        let encoded = self.places.iter().copied();
        let theirs = waiting.chain(encoded).filter(|of| *of == user);
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

    /// A place of `user` is free.
    fn leave(&mut self, user: u32) {
        if let Some(at) = self.places.iter().position(|of| *of == user) {
            self.places.swap_remove(at);
        }
    }

    /// The next of what waits: turns by priority, if they `may` begin.
    fn take(&mut self, may: impl Fn(&Request) -> Readiness) -> Option<Command> {
        if let Some(control) = self.controls.pop_front() {
            return Some(Command::Control(control));
        }
        if std::mem::take(&mut self.moved) {
            return Some(Command::Control(Control::Pages));
        }
        let held = self.held();
        let may = |request: &Request| {
            if held.rests(request.options.priority) {
                Readiness::Blocked
            } else {
                may(request)
            }
        };
        let request = self
            .turns
            .take(|request| Reverse(request.options.priority), may)?;
        self.held.extend(request.session);
        Some(Command::Request(Box::new(request)))
    }
}

impl Queue {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            waiting: Mutex::default(),
            changed: Condvar::new(),
            held: AtomicU8::default(),
            arrivals: AtomicU64::default(),
            looked: AtomicU64::default(),
            shown: ArcSwap::default(),
            shown_holds: ArcSwap::default(),
        }
    }

    /// A place for `user`, if it and all together have fewer than the limits say.
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
            kept: true,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A panic elsewhere leaves the queue itself whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn or an answer goes to the threads that encode and compile: the queue is not empty until it is back.
    pub(crate) fn is_away(&self) {
        self.lock().away += 1;
    }

    /// It is back, or has ended.
    pub(crate) fn is_back(&self) {
        self.lock().away -= 1;
        self.changed.notify_all();
    }

    /// Queues a turn again that was away, also after the queue was closed: it was accepted before.
    pub(crate) fn bring_back(&self, request: Request) {
        let mut waiting = self.lock();
        waiting.away -= 1;
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
        waiting.turns.push(request);
        self.show(&waiting);
        self.arrivals.fetch_add(1, Ordering::Release);
        self.shared.progress.set_idle(false);
        self.changed.notify_all();
    }

    /// Puts `turn` where a place was kept for it, or drops it with the reason. One that is cancelled by now, as its session
    /// was closed, never gets to the engine thread.
    pub(crate) fn push(&self, request: Request, mut place: Place) -> Result<(), Refusal> {
        let mut waiting = self.lock();
        waiting.leave(place.user);
        place.kept = false;
        if waiting.closed {
            drop(waiting);
            return Err(self.shared.closed());
        }
        if request.is_cancelled() {
            return Err(Refusal::SessionClosed);
        }
        waiting.turns.push(request);
        self.show(&waiting);
        self.arrivals.fetch_add(1, Ordering::Release);
        self.shared.progress.set_idle(false);
        self.changed.notify_one();
        Ok(())
    }

    /// Whether turns have come since the engine thread looked last, one of which is such. Where somebody changes the queue at that
    /// moment, whoever asks again hears of it.
    pub(crate) fn has_arrival(&self, is_it: impl Fn(&Request) -> bool) -> bool {
        if self.arrivals.load(Ordering::Acquire) == self.looked.load(Ordering::Relaxed) {
            return false;
        }
        let Ok(waiting) = self.waiting.try_lock() else {
            return false;
        };
        self.look(&waiting);
        waiting.turns.iter().any(is_it)
    }

    /// Waits until then, or until a turn has come that is such.
    pub(crate) fn wait_for_arrival(
        &self,
        until: Instant,
        is_it: impl Fn(&Request) -> bool,
    ) -> bool {
        loop {
            if self.has_arrival(&is_it) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // Who comes changes both under the lock. Whoever has it has it for a moment.
            match self.waiting.try_lock() {
                Ok(waiting)
                    if self.arrivals.load(Ordering::Acquire)
                        == self.looked.load(Ordering::Relaxed) =>
                {
                    drop(self.changed.wait_timeout(waiting, left));
                }
                _ => std::thread::yield_now(),
            }
        }
    }

    /// The engine thread has seen who waits.
    fn look(&self, _: &Waiting) {
        let arrivals = self.arrivals.load(Ordering::Acquire);
        self.looked.store(arrivals, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, id: u64) -> Option<Request> {
        let mut waiting = self.lock();
        let request = waiting.turns.remove(|request| request.id == id)?;
        self.show(&waiting);
        Some(request)
    }

    /// Shows what waits, as it is now.
    fn show(&self, waiting: &Waiting) {
        let shown = waiting.turns.seen(|request| Shown {
            id: request.id,
            priority: request.options.priority,
        });
        self.shown.store(Arc::new(shown));
    }

    /// How many of those that wait now come before this one; `None` if it does not wait.
    pub(crate) fn before(&self, id: u64) -> Option<usize> {
        let shown = self.shown.load();
        let priority = shown.iter().find(|seen| seen.one.id == id)?.one.priority;
        let above = shown.iter().filter(|seen| seen.one.priority > priority);
        let alike = |one: &Shown| one.priority == priority;
        let before = fair::before(&shown, |one| one.id == id, alike)?;
        Some(above.count() + before)
    }

    /// Whose turns wait, as they came.
    pub(crate) fn waiting(&self) -> Vec<(Priority, u32)> {
        let shown = self.shown.load();
        let turns = shown.iter();
        turns
            .map(|seen| (seen.one.priority, seen.client.user))
            .collect()
    }

    pub(crate) fn drain(&self) -> VecDeque<Request> {
        let mut waiting = self.lock();
        let turns = waiting.turns.drain();
        self.show(&waiting);
        turns
    }

    /// Asks the engine thread; what has nobody to answer any more is dropped, and whoever waits for it is told.
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

    /// Pages have come from the disk, or gone there.
    pub(crate) fn moved(&self) {
        self.lock().moved = true;
        self.changed.notify_one();
    }

    /// A session has closed; `kept` says that it can be opened again. At most one thing waits for each that the engine thread
    /// knows, however many come and go.
    pub(crate) fn forget(&self, session: SessionId, kept: bool) {
        let mut waiting = self.lock();
        if waiting.held.remove(&session) {
            let controls = &mut waiting.controls;
            let begins =
                |one: &Control| matches!(one, Control::Branch { to, .. } if *to == session);
            if let Some(at) = controls.iter().position(begins) {
                // The engine thread has never seen it.
                controls.remove(at);
                return;
            }
            controls.retain(|control| control.rewinds() != Some(session));
            self.add(&mut waiting, Control::Forget { session, kept });
        }
    }

    /// A session goes on from where another one is, if the engine thread knows that.
    pub(crate) fn branch(&self, from: SessionId, to: SessionId) {
        let mut waiting = self.lock();
        if waiting.held.contains(&from) {
            waiting.held.insert(to);
            self.add(&mut waiting, Control::Branch { from, to });
        }
    }

    /// Turns of a session were taken back. What waits already of that session is changed: until it has been done no turn
    /// runs, so the least that is kept is what both keep.
    pub(crate) fn rewind(&self, session: SessionId, keep: usize) {
        let mut waiting = self.lock();
        if !waiting.held.contains(&session) {
            return;
        }
        for control in waiting.controls.iter_mut().rev() {
            match control {
                // That one has what was there before.
                Control::Branch { from, .. } if *from == session => break,
                Control::Rewind {
                    session: of,
                    keep: kept,
                } if *of == session => {
                    *kept = keep.min(*kept);
                    return;
                }
                _ => {}
            }
        }
        self.add(&mut waiting, Control::Rewind { session, keep });
    }

    /// Nobody is left: whoever waits for an answer learns that none will come.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.abandoned = true;
        waiting.closed = true;
        waiting.controls.clear();
        let turns = waiting.turns.drain();
        self.show(&waiting);
        self.shared.progress.set_idle(true);
        drop(waiting);
        for request in turns {
            request.fail(EngineError::Ended.into(), Usage::default());
        }
    }

    /// What can be done now beside what runs, if anything. Nobody who changes the queue holds up a step: what waits is taken
    /// before the next then.
    pub(crate) fn poll(&self, may: impl Fn(&Request) -> Readiness) -> Option<Command> {
        match self.waiting.try_lock() {
            Ok(mut waiting) => self.take(&mut waiting, may),
            Err(TryLockError::Poisoned(waiting)) => self.take(&mut waiting.into_inner(), may),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn take(&self, waiting: &mut Waiting, may: impl Fn(&Request) -> Readiness) -> Option<Command> {
        self.look(waiting);
        let taken = waiting.take(may);
        if matches!(taken, Some(Command::Request(_))) {
            self.show(waiting);
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
        self.shown_holds.load_full()
    }

    /// Returns the longest time that holds can keep requests of `priority` off the device; `None` if none does.
    pub(crate) fn held_for(&self, priority: Priority) -> Option<Duration> {
        let holds = self.shown_holds.load();
        let holds = holds.iter().filter(|hold| hold.held.rests(priority));
        holds.map(ActiveHold::left).max()
    }

    fn note_held(&self, waiting: &Waiting) {
        let holds = waiting.active_holds().cloned().collect();
        self.shown_holds.store(Arc::new(holds));
        self.held.store(waiting.held() as u8, Ordering::Release);
    }

    pub(crate) fn held(&self) -> Held {
        Held::of(self.held.load(Ordering::Acquire))
    }

    /// Waits for a change, or a little: whoever rests may be cancelled without one.
    pub(crate) fn rest(&self) {
        const LITTLE: Duration = Duration::from_millis(20);
        self.shared.progress.enter(Phase::Between);
        let waiting = self.lock();
        if !waiting.moved {
            drop(self.changed.wait_timeout(waiting, LITTLE));
        }
    }

    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        self.note_held(&waiting);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Waits for the next command; when it is `due`, pages are looked after. `None` once the queue is closed and empty.
    pub(crate) fn next(&self, due: Option<Instant>) -> Option<Command> {
        self.shared.progress.enter(Phase::Between);
        let mut waiting = self.lock();
        loop {
            if let Some(command) = self.take(&mut waiting, |_| Readiness::Ready) {
                return Some(command);
            }
            // Only this thread says so: one that hangs must not seem idle because those who waited for it gave up.
            self.shared.progress.set_idle(true);
            if waiting.closed && waiting.away == 0 {
                return None;
            }
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            waiting = match left {
                Some(Duration::ZERO) => return Some(Command::Control(Control::Pages)),
                Some(left) => {
                    let waited = self.changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(waiting);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests;
