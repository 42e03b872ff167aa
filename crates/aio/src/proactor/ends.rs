//! Early ends: an operation is cancelled, late, or given up as a last resort.

use std::cmp::Reverse;
use std::time::Duration;

use atta_entry::Errno;

use super::{Alarm, Handle, Proactor, State, Stop};
use crate::done::Done;
use crate::driver::Driver;

impl<D: Driver, C> Proactor<D, C> {
    /// Ends an operation with an error, as soon as possible.
    pub(super) fn stop(&mut self, handle: Handle, stop: Stop) -> bool {
        let grace = self.limits.grace;
        let Some(block) = self.block(handle) else { return false };
        if block.claim.is_none() {
            return false;
        }
        if block.stop.is_some() {
            return true;
        }
        block.stop = Some(stop);
        if !block.is_finishing {
            self.cut(handle);
        }
        // It has not ended at once: the driver has it, or a machine cleans up.
        if let (Some(grace), Some(_)) = (grace, self.block(handle)) {
            self.set_alarm(self.driver.now() + grace, Alarm::GiveUp, handle);
        }
        true
    }

    /// Ends the waiting or running step of an operation with `ECANCELED`.
    pub(super) fn cut(&mut self, handle: Handle) {
        let Some(block) = self.block(handle) else { return };
        match std::mem::replace(&mut block.state, State::Running) {
            State::Waiting(op) | State::Parked(op) => {
                self.waits -= 1;
                self.skip_position(handle);
                self.after(handle, op, Err(Errno(libc::ECANCELED)));
            }
            State::Running => self.driver.cancel(handle.token()),
            State::Free => {}
        }
    }

    pub(super) fn set_alarm(&mut self, at: Duration, alarm: Alarm, handle: Handle) {
        // Remove alarms of ended operations before they accumulate.
        if self.alarms.len() > 2 * self.held + 64 {
            let blocks = &self.blocks;
            self.alarms.retain(|Reverse((_, _, handle))| {
                blocks[handle.slot as usize].generation == handle.generation
            });
        }
        self.alarms.push(Reverse((at, alarm, handle)));
    }

    /// Ends late operations, and gives up operations that do not end.
    pub(super) fn expire(&mut self) {
        while let Some(&Reverse((at, alarm, handle))) = self.alarms.peek() {
            // Remove alarms of ended operations early, so that they cause no wake-up.
            if self.block(handle).is_none() {
                self.alarms.pop();
                continue;
            }
            if at > self.driver.now() {
                return;
            }
            self.alarms.pop();
            match alarm {
                Alarm::Late => {
                    self.stop(handle, Stop::Late);
                }
                Alarm::GiveUp => self.give_up(handle),
            }
        }
    }

    /// Delivers the end of an operation that the driver still has.
    pub(super) fn give_up(&mut self, handle: Handle) {
        let Some(block) = self.block(handle) else { return };
        let borrows = block.borrows || block.machine.as_ref().is_some_and(|machine| machine.borrows());
        if borrows {
            return;
        }
        let (Some(stop), Some(claim)) = (block.stop, block.claim.take()) else { return };
        self.given_up += 1;
        self.results.push_back((handle, claim, Done::new(Err(stop.errno()), None)));
    }

    /// Cancels compound operations, and waits for their cleanup: for the grace period, or one second without one.
    pub(super) fn end_machines(&mut self) {
        let runs = |proactor: &Self| proactor.blocks.iter().any(|block| block.machine.is_some());
        if !runs(self) {
            return;
        }
        self.cancel_all();
        let until = self.driver.now() + self.limits.grace.unwrap_or(Duration::from_secs(1));
        while runs(self) && self.driver.now() < until {
            self.step(Some(until.saturating_sub(self.driver.now())));
            self.results.clear();
        }
    }
}
