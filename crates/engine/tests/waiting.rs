//! Who waits for work is remembered. One engine, driven by hand.

use std::time::Duration;

use atta_engine::{Action, Config, Engine, Load, Message, Place, Rank, ScheduleKind, Tasks};

fn actions(engine: &mut Engine<()>) -> Vec<Action<()>> {
    std::iter::from_fn(|| engine.poll_action()).collect()
}

fn is_taken_for(actions: &[Action<()>], rank: u32) -> bool {
    actions.iter().any(|action| matches!(action, Action::Take { to: Rank(to), .. } if *to == rank))
}

fn tasks(count: u32) -> Tasks {
    Tasks { count, bytes: vec![0; count as usize].into() }
}

#[test]
fn user_without_chown_gets_no_set_id() {
    let at = Duration::from_millis;
    let config = Config { schedule: ScheduleKind::Lifeline, ..Config::default() };
    let mut root: Engine<()> = Engine::new(config, &Place::new(Rank(0), 2, vec![]));
    let load = |waiting| Load { waiting, running: 1, slots: 1 };
    // Rank 1 counts as registered from the start, and is served once.
    root.handle_load(at(0), load(9));
    assert!(is_taken_for(&actions(&mut root), 1));
    root.give(at(0), tasks(4));
    actions(&mut root);
    root.handle_load(at(1), load(3));
    assert!(!is_taken_for(&actions(&mut root), 1));
    // It asks, and waits; the threads were faster.
    root.handle_message(at(2), Rank(1), Message::Request { idle: true, wait: true }).unwrap();
    assert!(is_taken_for(&actions(&mut root), 1));
    root.give(at(2), tasks(0));
    let answer = |action: &Action<()>| matches!(action, Action::Send { message: Message::Nothing, .. });
    assert!(actions(&mut root).iter().any(answer));
    root.handle_load(at(3), load(1000));
    assert!(is_taken_for(&actions(&mut root), 1));
}
